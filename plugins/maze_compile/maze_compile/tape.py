"""What a step computes, as the operations of torch that it consists of."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from maze_compile.steps import CannotRepeatError

_TENSOR = "tensor"
_PLAIN = (bool, int, float, str)
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)
_BY_VALUE = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operations inside its block.

    A recording has inputs: `given` tensors, random numbers, and whatever else the operations read. All else follows
    from them.

    Args:
        given: the tensors that each repetition brings anew.
    """

    def __init__(self, given: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inputs = list(given)
        self.draws: list[Callable[[], Tensor]] = []
        """Draw the random numbers of a repetition, in the order of the step."""
        self._drawn: list[Tensor] = []
        self.constants: list[Tensor] = []
        """The tensors that lie where they are, such as parameters."""
        self._calls: list[list[Any]] = []
        self._numbers: dict[int, int] = {}
        self._alive: dict[int, weakref.ref[Tensor]] = {}
        self._count = 0
        for tensor in given:
            self._number(tensor)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: otherwise torch loads its own compiler here, for a second, and leaves a folder."""
        return False

    def description(self, outputs: Sequence[Tensor]) -> dict[str, Any]:
        """Return inputs, operations and outputs as values of JSON; the inputs are given, drawn and constant ones."""
        inputs = [*self.inputs, *self._drawn, *self.constants]
        return {
            "inputs": [
                [self._numbers[id(each)], list(each.shape), list(each.stride()), str(each.dtype)] for each in inputs
            ],
            "calls": self._calls,
            "outputs": [self._encoded(each)[_TENSOR] for each in outputs],
        }

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten.lift_fresh.default:  # a tensor that was made of numbers, as one that was there before
            return func(*args)
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self._draw(func, args, kwargs)
        if _BY_VALUE & set(func.tags) and not _by_places(func, args):
            raise CannotRepeatError(f"{func.name()} depends on the values of a tensor")
        call = [func.name(), self._encoded(list(args)), self._encoded(kwargs)]
        result = func(*args, **kwargs)
        several = isinstance(result, list | tuple)
        found = list(result) if several else [result]
        if not all(each is None or isinstance(each, Tensor) for each in found):
            raise CannotRepeatError(f"{func.name()} reads the value of a tensor")
        # What an operation changes in place it returns itself.
        new = [None if each is None or id(each) in self._numbers else self._number(each) for each in found]
        self._calls.append([*call, new, several])
        return result

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Tensor:
        """Return random numbers, and keep how to draw those of a repetition."""
        shaped = bool(args) and isinstance(args[0], Tensor)
        others = args[1:] if shaped else args
        in_place = func._schema.is_mutable
        if any(isinstance(each, Tensor) for each in (*others, *kwargs.values())) or not (
            not shaped or in_place or "_like" in func.name()
        ):
            raise CannotRepeatError(f"{func.name()} draws random numbers that depend on a tensor")
        like = torch.empty_like(args[0]) if shaped else None

        def draw() -> Tensor:
            first = () if like is None else (torch.empty_like(like),)
            drawn: Tensor = func(*first, *others, **kwargs)
            return drawn

        drawn = draw()
        self.draws.append(draw)
        self._drawn.append(drawn)
        self._number(drawn)
        if in_place:
            target: Tensor = args[0]
            with self:
                return target.copy_(drawn)
        return drawn

    def _number(self, tensor: Tensor) -> int:
        """Return the number of a tensor that is new here; another one may get its identity once it is gone."""
        identity, number = id(tensor), self._count
        self._count += 1
        self._numbers[identity] = number
        self._alive[identity] = weakref.ref(tensor, lambda _: self._numbers.pop(identity, None))
        return number

    def _encoded(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in self._numbers:
                self._number(value)
                self.constants.append(value)
            return {_TENSOR: self._numbers[id(value)]}
        if value is None or isinstance(value, _PLAIN):
            return value
        if isinstance(value, _NAMED):
            return {type(value).__name__: str(value).removeprefix("torch.")}
        if isinstance(value, list | tuple):
            return [self._encoded(each) for each in value]
        if isinstance(value, dict):
            return {"arguments": [[name, self._encoded(each)] for name, each in value.items()]}
        raise CannotRepeatError(f"an operation takes a {type(value).__name__}")


def _by_places(func: Any, args: Any) -> bool:
    """Return True for an index of places: the shape of its result is known, other than with an index of booleans."""
    if func.overloadpacket is not torch.ops.aten.index:
        return False
    return not any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])
