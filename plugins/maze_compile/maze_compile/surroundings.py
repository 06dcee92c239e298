"""What the steps of a learner depend on beside their batches: a change of it makes them steps of another kind."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from maze_compile.repeatable import METHODS, is_hooked, is_known_code, is_ours, modules_of, networks_of, tensors_in
from maze_compile.values import OF_ALL, PLAIN, Reader, Same

if TYPE_CHECKING:
    from maze_core.plugins.hookspecs import Run

_AT_ONCE = (*PLAIN, float, FunctionType, MethodType)
"""What a comparison by `==` tells apart, but for numbers of unlike types."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_REQUIRES_GRAD = operator.attrgetter("requires_grad")
_FORWARD = operator.attrgetter("forward")
_BETWEEN = ("change_rollout", "change_transitions")
"""The hooks that may be called between the steps of one update."""


class Surroundings:
    """What a run's steps depend on beside their batches, as it was at the last look.

    A look takes as long as some steps, and finds what changed by its value. Whether one is needed is decided by what
    costs microseconds: which objects there are, where tensors lie, and what plain attributes are.

    Args:
        run: the run.
        settings: True: the settings of the optimizer are part of it, but for the learning rate.
    """

    def __init__(self, run: Run, *, settings: bool) -> None:
        self._run, self._settings = run, settings
        self._named = _names_in(type(run.algorithm), "compute_loss") - {"kept", "row_results"}
        self._modules = _Modules([])
        self._objects: tuple[object, ...] = ()
        self._seen: list[object] = []
        self._plain: list[object] = []
        self._rest: list[object] = []
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
            same = self._are_objects_same() and (updates == self._updates or self._plain == self._modules.plain())
        except Exception:  # noqa: BLE001 — two values that cannot be compared are not the same
            return False
        self._updates = updates
        return same

    def unchanged(self) -> bool:
        """Return True if the last look would find the same again, and nothing that it allowed has been replaced."""
        try:
            same = (
                self._are_objects_same() and self._plain == self._modules.plain() and self._rest == self._found_rest()
            )
        except Exception:  # noqa: BLE001 — two values that cannot be compared are not the same
            return False
        self._updates, self._between_is_known = self._run.updates, self._is_between_known()
        return same

    def look(self) -> Hashable:
        """Return what equals another look's result where steps are of the same kind."""
        run = self._run
        self._modules = _Modules(modules_of(run))
        self._objects, self._seen, self._plain = self._found_objects(), self._found(), self._modules.plain()
        self._rest = self._found_rest()
        self._updates, self._between_is_known = run.updates, self._is_between_known()
        reader = self._reader()
        return (
            *map(Same, self._chosen()),
            run.learner.max_grad_norm,
            tuple(self._modules.places()),
            *(reader.value(network) for network in networks_of(run).values()),
            *self._settings_of_step(reader),
        )

    def _is_between_known(self) -> bool:
        algorithm, learner = self._run.algorithm, self._run.learner
        return (
            is_ours(algorithm)
            and not self._run.hooks.implementers(*_BETWEEN)
            and "batches" not in vars(algorithm)
            and is_known_code(type(algorithm).batches)
            and is_ours(learner.optimizer)
            and learner.plugins_optimizer is None
        )

    def _chosen(self) -> tuple[object, ...]:
        run, learner = self._run, self._run.learner
        return run.policy, run.hooks.compute_loss, learner.optimizer, learner.plugins_optimizer

    def _are_objects_same(self) -> bool:
        return all(map(operator.is_, self._found_objects(), self._objects)) and self._seen == self._found()

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
        return [learner.max_grad_norm, len(vars(learner)), len(vars(learner.optimizer)), *self._modules.places()]

    def _found_rest(self) -> list[object]:
        """Return what else decides: what is no plain attribute, and which code a step calls."""
        run, reader = self._run, self._reader()
        owners = (run.learner, run.learner.optimizer)
        return [
            *self._settings_of_step(reader),
            *networks_of(run).items(),
            *(getattr(type(owner), name, None) for owner in owners for name in METHODS),
            *(value for owner in owners for value in vars(owner).values() if callable(value)),
            *self._modules.rest(reader),
        ]

    def _settings_of_step(self, reader: Reader) -> list[Hashable]:
        run = self._run
        groups = [
            {key: value for key, value in group.items() if key not in ("params", "lr")}
            for group in (run.learner.optimizer.param_groups if self._settings else [])
        ]
        algorithm = {name: value for name, value in vars(run.algorithm).items() if name in self._named}
        return [
            reader.value(groups),
            reader.value(algorithm, of_algorithm=True),
            torch.get_default_dtype(),
            torch.is_autocast_enabled(run.device.type),
        ]

    def _reader(self) -> Reader:
        return Reader({id(self._run), *map(id, self._run.algorithm.kept.values())})


class _Modules:
    """All modules of a run's networks, and what reads many of their attributes without a call for each."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self._modules, self._attributes = modules, [vars(module) for module in modules]
        self._kinds = [*dict.fromkeys(map(type, modules))]
        self._tensors = tensors_in(modules)
        self._children = [each["_modules"] for each in self._attributes if each["_modules"]]
        self._stores = [each[name] for each in self._attributes for name in ("_parameters", "_buffers") if each[name]]
        self._hooks = [each[name] for each in self._attributes for name in _HOOKS]
        own = [[name for name in each if name not in OF_ALL] for each in self._attributes]
        self._readers: list[Callable[[dict[str, Any]], Any]] = []
        """What reads the plain attributes of each module."""
        self._others: list[tuple[dict[str, Any], str]] = []
        """Where each of the others is."""
        for attributes, names in zip(self._attributes, own, strict=True):
            plain = [name for name in names if isinstance(attributes[name], _AT_ONCE)]
            self._readers.append(operator.itemgetter("training", "_is_full_backward_hook", *plain))
            self._others += [(attributes, name) for name in names if name not in plain]

    def places(self) -> list[object]:
        """Return where the tensors lie, and which of them have gradients."""
        return [*map(Tensor.data_ptr, self._tensors), *map(_REQUIRES_GRAD, self._tensors)]

    def plain(self) -> list[object]:
        """Return the plain attributes of all modules, which modules there are, and whether one has hooks."""
        return [
            any(self._hooks),
            *chain.from_iterable(map(dict.values, self._children)),
            *map(operator.call, self._readers, self._attributes),
        ]

    def rest(self, reader: Reader) -> list[object]:
        """Return the other attributes by value, and of which classes, code and tensors the modules are."""
        plain = chain.from_iterable(map(operator.call, self._readers, self._attributes))
        return [
            *map(type, self._modules),
            *map(len, self._attributes),
            *map(_FORWARD, self._kinds),
            *map(id, chain.from_iterable(map(dict.values, self._stores))),
            any(map(is_hooked, self._tensors)),
            *map(type, plain),
            *(reader.value(attributes[name]) for attributes, name in self._others),
        ]


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
