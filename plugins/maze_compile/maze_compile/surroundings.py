"""What the steps of a learner depend on beside their batches: a change of it makes them steps of another kind."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import chain
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from maze_core import remembers
from maze_core.base.bundled import packages
from maze_core.learn.several_learners import IN_LOSS, declares
from maze_core.models.plain import has_hooks

if TYPE_CHECKING:
    from maze_core.plugins.hookspecs import Run

_LARGE = 10_000
"""Items of a container up to which they are looked at; of a larger one only that it is another one."""
_PLAIN = (type(None), bool, int, str, bytes)
_PLAIN_KINDS = frozenset(_PLAIN)
_AT_ONCE = (*_PLAIN, float, tuple, FunctionType, MethodType)
_OF_ALL = vars(nn.Module()).keys()
_LOOKED_AT = ("training", "_parameters", "_buffers", "_modules")
"""The attributes that each module has, and those of them that its own class cannot do without."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_CONTAINERS = (Mapping, list, tuple, set, frozenset)
_OPAQUE = (Tensor, type, FunctionType, MethodType, ModuleType, gymnasium.Space)
"""What is only told apart: what a tensor holds is read at each step."""
_REQUIRES_GRAD = operator.attrgetter("requires_grad")
_BETWEEN = ("change_rollout", "change_transitions")
"""The hooks that may be called between the steps of one update."""
_METHODS = ("forward", "step", "clip", "optimize", "differentiated", "check_finite", "set_gradients")
"""What a step calls of modules, optimizer and learner."""


class Surroundings:
    """What a run's steps depend on beside their batches, as it was at the last look.

    A look takes as long as some steps, and finds what changed by its value. Whether one is needed within an epoch is
    decided by what costs microseconds: which objects there are, and where tensors lie.

    Args:
        run: the run.
        settings: True: the settings of the optimizer are part of it, but for the learning rate.
    """

    def __init__(self, run: Run, *, settings: bool) -> None:
        self._run, self._settings = run, settings
        self._named = _names_in(type(run.algorithm), "compute_loss") - {"kept", "row_results"}
        self._objects: tuple[object, ...] = ()
        self._modules: list[dict[str, Any]] = []
        self._readers: list[Callable[[dict[str, Any]], Any]] = []
        """What reads the plain attributes of each module."""
        self._children: list[dict[str, Any]] = []
        self._hooks: list[dict[str, Any]] = []
        self._tensors: list[Tensor] = []
        self._seen: list[object] = []
        self._inside: list[object] = []
        self._updates = 0
        self._between_is_known = False
        """True where nothing but Maze's own code runs between the steps of an update."""

    def same(self) -> bool:
        """Return True if nothing has become another object since the last look, as far as that is seen cheaply.

        Between the steps of one update only the algorithm's `batches` and the optimizer run: code of Maze changes
        nothing there. The attributes of modules, and which modules there are, are looked at once an update.
        """
        updates = self._run.updates
        if updates == self._updates and self._between_is_known:
            return True
        try:
            same = all(map(operator.is_, self._found_objects(), self._objects)) and self._seen == self._found()
            if same and updates != self._updates:
                same = self._inside == self._found_inside()
        except Exception:  # noqa: BLE001 — two values that cannot be compared are not the same
            return False
        self._updates = updates
        return same

    def look(self) -> Hashable:
        """Return what equals another look's result where steps are of the same kind."""
        run, learner = self._run, self._run.learner
        modules = _modules_of(run)
        self._modules = [vars(module) for module in modules]
        self._readers = [operator.itemgetter("training", *_plain_names(each)) for each in self._modules]
        self._children = [vars(m)["_modules"] for m in modules if vars(m)["_modules"]]
        self._hooks = [vars(m)[name] for m in modules for name in _HOOKS]
        self._tensors = _tensors_in(modules)
        self._objects, self._seen, self._inside = self._found_objects(), self._found(), self._found_inside()
        self._updates, self._between_is_known = run.updates, self._is_between_known()
        reader = _Reader({id(run), *map(id, run.algorithm.kept.values())})
        groups = [
            {key: value for key, value in group.items() if key not in ("params", "lr")}
            for group in (learner.optimizer.param_groups if self._settings else [])
        ]
        algorithm = {name: value for name, value in vars(run.algorithm).items() if name in self._named}
        return (
            *map(_Same, self._chosen()),
            run.learner.max_grad_norm,
            tuple((tensor.data_ptr(), tensor.requires_grad) for tensor in self._tensors),
            reader.value(groups),
            *(reader.value(network) for network in networks_of(run).values()),
            reader.value(algorithm, of_algorithm=True),
            torch.get_default_dtype(),
            torch.is_autocast_enabled(run.device.type),
        )

    def _is_between_known(self) -> bool:
        algorithm, learner = self._run.algorithm, self._run.learner
        return (
            is_ours(algorithm)
            and not self._run.hooks.implementers(*_BETWEEN)
            and "batches" not in vars(algorithm)
            and _is_known_code(type(algorithm).batches)
            and is_ours(learner.optimizer)
            and learner.plugins_optimizer is None
        )

    def _chosen(self) -> tuple[object, ...]:
        run, learner = self._run, self._run.learner
        return run.policy, run.hooks.compute_loss, learner.optimizer, learner.plugins_optimizer

    def _found_objects(self) -> tuple[object, ...]:
        run, learner = self._run, self._run.learner
        optimizer = learner.optimizer
        return (
            run.algorithm.config,
            optimizer,
            learner.plugins_optimizer,
            run.policy,
            run.hooks.compute_loss,
            run.config,
            getattr(optimizer, "lists", None),
        )

    def _found(self) -> list[object]:
        learner = self._run.learner
        return [
            learner.max_grad_norm,
            len(vars(learner)),
            len(vars(learner.optimizer)),
            *map(Tensor.data_ptr, self._tensors),
            *map(_REQUIRES_GRAD, self._tensors),
        ]

    def _found_inside(self) -> list[object]:
        return [
            any(self._hooks),
            *chain.from_iterable(map(dict.values, self._children)),
            *map(operator.call, self._readers, self._modules),
        ]


def _plain_names(attributes: dict[str, Any]) -> list[str]:
    """Return the names of a module's own attributes whose change is seen at once."""
    return [name for name, value in attributes.items() if name not in _OF_ALL and isinstance(value, _AT_ONCE)]


class _Same:
    """An object that equals itself alone."""

    __slots__ = ("_object",)

    def __init__(self, value: object) -> None:
        self._object = value

    def __eq__(self, other: object) -> bool:
        return type(other) is _Same and other._object is self._object

    def __hash__(self) -> int:
        return id(self._object)


class _Reader:
    """Reads values: plain ones, containers, and the attributes of objects.

    Args:
        apart: ids of objects that are not looked into.
    """

    def __init__(self, apart: set[int]) -> None:
        self._apart = apart

    def value(self, value: Any, *, of_algorithm: bool = False) -> Hashable:
        """Return what equals that of another value where both are the same to a step.

        Args:
            value: whatever it is.
            of_algorithm: True: objects of Maze's own classes are only told apart. What these keep is no part of a
                loss, or `loss_constants` has it.
        """
        kind = type(value)
        if kind in _PLAIN_KINDS or isinstance(value, _PLAIN):
            return kind, value
        if isinstance(value, float):
            return float, repr(value)  # nan equals nan
        if isinstance(value, Tensor) or id(value) in self._apart:
            return _Same(value)
        if isinstance(value, np.ndarray | np.generic) and value.size <= _LARGE and not value.dtype.hasobject:
            return str(value.dtype), value.shape, value.tobytes()
        inside = of_algorithm and not isinstance(value, nn.Module)
        found = self._parts(value, inside)
        if found is None:
            return _Same(value)
        self._apart.add(id(value))  # it may occur once more, inside of itself, too
        names, parts = found
        return kind, names, tuple([self.value(part, of_algorithm=inside) for part in parts])

    def _parts(self, value: Any, of_algorithm: bool) -> tuple[tuple[str, ...], list[Any]] | None:
        """Return what a value consists of, with the names of these parts; None where it is only told apart."""
        if isinstance(value, dict) and len(value) <= _LARGE and set(map(type, value)) <= {str}:
            return tuple(value), [*value.values()]
        if isinstance(value, _CONTAINERS):
            items = chain.from_iterable(value.items()) if isinstance(value, Mapping) else value
            return ((), [*items]) if len(value) <= _LARGE else None
        if isinstance(value, _OPAQUE) or (of_algorithm and is_ours(value)):
            return None
        if isinstance(value, nn.Module):
            names = tuple([name for name in vars(value) if name not in _OF_ALL or name in _LOOKED_AT])
            return names, [vars(value)[name] for name in names]
        attributes = dict(_attributes_of(value))
        return (tuple(attributes), [*attributes.values()]) if attributes else None


def _attributes_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object; nothing for one that has none."""
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield name, getattr(value, name)


def _names_in(kind: type, method: str) -> set[str]:
    """Return the names that a method of a class reads, and those of its class that have them."""
    found: set[str] = set()
    left = [getattr(kind, method, None)]
    for each in left:
        function = each.fget if isinstance(each, property) else getattr(each, "__wrapped__", each)
        for code in _code_of(getattr(function, "__code__", None)):
            new = {*code.co_names} - found
            found |= new
            left += [getattr(above, name) for name in new for above in kind.__mro__ if name in vars(above)]
    return found


def _code_of(code: CodeType | None) -> Iterator[CodeType]:
    """Yield code, and that of the functions in it."""
    if code is not None:
        yield code
        for constant in code.co_consts:
            yield from _code_of(constant if isinstance(constant, CodeType) else None)


def is_ours(value: object) -> bool:
    """Return True for an object whose class comes with Maze."""
    return type(value).__module__.partition(".")[0] in packages()


def networks_of(run: Run) -> dict[str, nn.Module]:
    """Return the networks of a run by name."""
    return {"policy": run.policy, **run.modules}


def tensors_of(run: Run) -> list[Tensor]:
    """Return all parameters and buffers of a run's networks, each once."""
    return _tensors_in(_modules_of(run))


def _tensors_in(modules: list[nn.Module]) -> list[Tensor]:
    tensors = [
        *chain.from_iterable(module._parameters.values() for module in modules),
        *chain.from_iterable(module._buffers.values() for module in modules),
    ]
    return list({id(tensor): tensor for tensor in tensors if tensor is not None}.values())


def _modules_of(run: Run) -> list[nn.Module]:
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
    modules = _modules_of(run)
    known = all(map(_is_known_class, set(map(type, modules))))
    if not known or any(map(_is_hooked, _tensors_in(modules))) or any(map(has_hooks, networks_of(run).values())):
        return "a network has layers that neither torch nor Maze brings, or hooks"
    if (replaced := _replaced(run, modules)) is not None:
        return f"{replaced} was replaced"
    if remembers(run.policy):
        return "the policy has a memory"
    return "there are several learners" if run.config.learners > 1 else None


def _is_hooked(tensor: Tensor) -> bool:
    return bool(tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None))


def _replaced(run: Run, modules: list[nn.Module]) -> str | None:
    """Return which function that takes part in a step is code of others: set on an object, or on its class."""
    if not _is_known_code(run.hooks.compute_loss):
        return "run.hooks.compute_loss"
    looked_at: set[type] = set()
    for owner in (run.learner, run.learner.optimizer, *modules):
        kind = type(owner)
        called = {name: value for name, value in vars(owner).items() if callable(value) and hasattr(kind, name)}
        if kind not in looked_at and _is_known_class(kind):  # the optimizer of somebody else is called at each step
            called = {name: getattr(kind, name, None) for name in _METHODS} | called
        looked_at.add(kind)
        for name, value in called.items():
            if not _is_known_code(value):
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


def _is_known_code(function: Any) -> bool:
    """Return True for code of torch or Maze, and for no function."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__globals__", {"__name__": type(function).__module__})
    return str(code.get("__name__", "")).partition(".")[0] in {"torch", "builtins", *packages()}
