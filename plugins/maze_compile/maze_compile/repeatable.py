"""Whether the steps of a run can be repeated: only where nothing but known code takes part in them."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from maze_core import remembers
from maze_core.base.bundled import packages
from maze_core.learn.taken_over import IN_LOSS, declares
from maze_core.models.plain import has_hooks

if TYPE_CHECKING:
    from maze_core.plugins.hookspecs import Run

METHODS = ("forward", "step", "clip", "optimize", "differentiated", "check_finite", "set_gradients")
"""What a step calls of modules, optimizer and learner."""


def is_ours(value: object) -> bool:
    """Return True for an object whose class comes with Maze."""
    return type(value).__module__.partition(".")[0] in packages()


def networks_of(run: Run) -> dict[str, nn.Module]:
    """Return the networks of a run by name."""
    return {"policy": run.policy, **run.modules}


def tensors_of(run: Run) -> list[Tensor]:
    """Return all parameters and buffers of a run's networks, each once."""
    return tensors_in(modules_of(run))


def tensors_in(modules: list[nn.Module]) -> list[Tensor]:
    """Return all parameters and buffers of modules, each once."""
    tensors = [
        *chain.from_iterable(module._parameters.values() for module in modules),
        *chain.from_iterable(module._buffers.values() for module in modules),
    ]
    return list({id(tensor): tensor for tensor in tensors if tensor is not None}.values())


def modules_of(run: Run) -> list[nn.Module]:
    """Return all modules of a run's networks, each once."""
    return list(dict.fromkeys(chain.from_iterable(network.modules() for network in networks_of(run).values())))


def unrepeatable(run: Run) -> str | None:
    """Return why a run's steps cannot be repeated; None: nothing but the algorithm's own loss takes part in them.

    Code of others may do something else in each step.
    """
    if not declares(run.algorithm, "loss_constants"):
        return "the algorithm does not say what its loss depends on (`loss_constants`)"
    if len(run.hooks.implementers(*IN_LOSS)) > 1:
        return "a plugin takes part in the loss"
    modules = modules_of(run)
    known = all(map(_is_known_class, set(map(type, modules))))
    if not known or any(map(is_hooked, tensors_in(modules))) or any(map(has_hooks, networks_of(run).values())):
        return "a network has layers that neither torch nor Maze brings, or hooks"
    if (replaced := _replaced(run, modules)) is not None:
        return f"{replaced} was replaced"
    if remembers(run.policy):
        return "the policy has a memory"
    return "there are several learners" if run.config.learners > 1 else None


def is_hooked(tensor: Tensor) -> bool:
    """Return True where something is called with the gradient of a tensor."""
    return bool(tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None))


def _replaced(run: Run, modules: list[nn.Module]) -> str | None:
    """Return which function that takes part in a step is code of others: set on an object, or on its class."""
    if not is_known_code(run.hooks.compute_loss):
        return "run.hooks.compute_loss"
    looked_at: set[type] = set()
    for owner in (run.learner, run.learner.optimizer, *modules):
        kind = type(owner)
        called = {name: value for name, value in vars(owner).items() if callable(value) and hasattr(kind, name)}
        if kind not in looked_at and _is_known_class(kind):  # the optimizer of somebody else is called at each step
            called = {name: getattr(kind, name, None) for name in METHODS} | called
        looked_at.add(kind)
        for name, value in called.items():
            if not is_known_code(value):
                return f"{name} of {_place_of(owner, run)}"
    return None


def _place_of(owner: object, run: Run) -> str:
    """Return what a message calls the learner, the optimizer or a module."""
    if owner is run.learner:
        return "run.learner"
    for network, module in networks_of(run).items():
        for name, each in module.named_modules():
            if each is owner:
                return f"{network}.{name}".strip(".")
    return "the optimizer"


def _is_known_class(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in {"torch", *packages()}


def is_known_code(function: Any) -> bool:
    """Return True for code of torch or Maze, and for no function."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__globals__", {"__name__": type(function).__module__})
    return str(code.get("__name__", "")).partition(".")[0] in {"torch", "builtins", *packages()}
