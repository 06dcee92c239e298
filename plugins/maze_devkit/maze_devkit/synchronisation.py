"""Detects calls that make the host wait for the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_METHODS = {"item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__", "__array__", "nonzero"}
"""Methods of a tensor whose result is on the host, or whose shape depends on values."""


_IS_CPU = torch.Tensor.is_cpu.__get__  # type: ignore[attr-defined]


class _Functions(TorchFunctionMode):
    """Records methods that bypass the dispatcher. Tensors say that they are on a device: what is done there counts."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self._found = found

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func == _IS_CPU:
            return False
        name = getattr(func, "__name__", "")
        if name in _METHODS:
            self._found.append(name.strip("_"))
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records values that are read inside other functions."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found = found

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: else torch imports its compiler, for a second, to keep it away from what follows."""
        return False

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default and not self._found:
            self._found.append("item")
        return func(*args, **(kwargs or {}))


class Watch:
    """Watches calls on tensors inside the block; `found` holds those that make the host wait."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._modes: list[Any] = [_Functions(self.found), _Operators(self.found)]

    def __enter__(self) -> Self:
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(kind, error, trace)
