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

from maze_core.base.bundled import packages
from maze_core.learn.several_learners import IN_LOSS, declares
from maze_core.models.memory import remembers
from maze_core.models.plain import has_hooks

if TYPE_CHECKING:
    from maze_core.plugins.hookspecs import Run

_LARGE = 10_000
"""Items of a container up to which they are looked at; of a larger one only that it is another one."""
_PLAIN = (type(None), bool, int, str, bytes)
_AT_ONCE = (*_PLAIN, float, tuple, FunctionType, MethodType)
_OF_ALL = vars(nn.Module()).keys()
_LOOKED_AT = ("training", "_parameters", "_buffers", "_modules")
"""The attributes that each module has, and those of them that its own class cannot do without."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_CONTAINERS = (Mapping, list, tuple, set, frozenset)
_OPAQUE = (Tensor, type, FunctionType, MethodType, ModuleType, gymnasium.Space)
"""What is only told apart: what a tensor holds is read at each step."""
_REQUIRES_GRAD = operator.attrgetter("requires_grad")
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

    def same(self) -> bool:
        """Return True if nothing has become another object since the last look, as far as that is seen cheaply.

        The attributes of modules, and which modules there are, are looked at once an update.
        """
        updates = self._run.updates
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
        modules = list(dict.fromkeys(each for network in networks_of(run).values() for each in network.modules()))
        self._modules = [vars(module) for module in modules]
        self._readers = [operator.itemgetter("training", *_plain_names(each)) for each in self._modules]
        self._children = [vars(m)["_modules"] for m in modules if vars(m)["_modules"]]
        self._hooks = [vars(m)[name] for m in modules for name in _HOOKS]
        self._tensors = tensors_of(run)
        self._objects, self._seen, self._inside = self._found_objects(), self._found(), self._found_inside()
        self._updates = run.updates
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
        if isinstance(value, _PLAIN):
            return type(value), value
        if isinstance(value, float):
            return float, repr(value)  # nan equals nan
        if id(value) in self._apart:
            return _Same(value)
        if isinstance(value, np.ndarray | np.generic) and value.size <= _LARGE and not value.dtype.hasobject:
            return str(value.dtype), value.shape, value.tobytes()
        parts = self._parts(value, of_algorithm and not isinstance(value, nn.Module))
        if not parts:
            return _Same(value)
        self._apart.add(id(value))  # it may occur once more, inside of itself, too
        inside = of_algorithm and not isinstance(value, nn.Module)
        return type(value), tuple(self.value(part, of_algorithm=inside) for part in parts)

    def _parts(self, value: Any, of_algorithm: bool) -> list[Any]:
        """Return what a value consists of; nothing where it is only told apart."""
        if isinstance(value, _CONTAINERS):
            if len(value) > _LARGE:
                return []
            return [len(value), *(chain.from_iterable(value.items()) if isinstance(value, Mapping) else value)]
        if isinstance(value, _OPAQUE) or (of_algorithm and is_ours(value)):
            return []
        if isinstance(value, nn.Module):
            names = [name for name in vars(value) if name not in _OF_ALL or name in _LOOKED_AT]
            return list(chain.from_iterable((name, vars(value)[name]) for name in names))
        return list(chain.from_iterable(_attributes_of(value)))


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
    found = {id(t): t for network in networks_of(run).values() for t in (*network.parameters(), *network.buffers())}
    return list(found.values())


def unrepeatable(run: Run) -> str | None:
    """Return why a run's steps cannot be repeated; None: nothing but the algorithm's own loss takes part in them.

    Code of others may do something else in each step.
    """
    if not declares(run.algorithm, "loss_constants"):
        return "the algorithm does not say what its loss depends on (`loss_constants`)"
    if len(run.hooks.implementers(*IN_LOSS)) > 1:
        return "a plugin takes part in the loss"
    if not all(map(_is_known, networks_of(run).values())):
        return "a network has layers that neither torch nor Maze brings, or hooks"
    if (replaced := _replaced(run)) is not None:
        return f"{replaced} was replaced"
    if remembers(run.policy):
        return "the policy has a memory"
    return "there are several learners" if run.config.learners > 1 else None


def _is_known(network: nn.Module) -> bool:
    hooked = any(p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None) for p in network.parameters())
    return all(_is_known_class(type(m)) for m in network.modules()) and not hooked and not has_hooks(network)


def _replaced(run: Run) -> str | None:
    """Return which function that takes part in a step is code of others: set on an object, or on its class."""
    owners: dict[str, Any] = {"run.learner": run.learner, "the optimizer": run.learner.optimizer}
    for network, module in networks_of(run).items():
        owners |= {f"{network}.{name}".strip("."): each for name, each in module.named_modules()}
    if not _is_known_code(run.hooks.compute_loss):
        return "run.hooks.compute_loss"
    looked_at: set[type] = set()
    for place, owner in owners.items():
        kind = type(owner)
        called = {name: value for name, value in vars(owner).items() if callable(value) and hasattr(kind, name)}
        if _is_known_class(kind) and kind not in looked_at:  # the optimizer of somebody else is called at each step
            looked_at.add(kind)
            called = {name: getattr(kind, name, None) for name in _METHODS} | called
        for name, value in called.items():
            if not _is_known_code(value):
                return f"{name} of {place}"
    return None


def _is_known_class(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in {"torch", *packages()}


def _is_known_code(function: Any) -> bool:
    """Return True for code of torch or Maze, and for no function."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__globals__", {"__name__": type(function).__module__})
    return str(code.get("__name__", "")).partition(".")[0] in {"torch", "builtins", *packages()}
