"""The operations of a compiled step, computed one by one: to compile them takes ten seconds and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from maze_compile.compiler import graph_of
from maze_compile.machine_code import Compilation, Library
from torch import Tensor


class Interpretation(Compilation):
    """In the place of a `Compilation`: all of it but the compiler."""

    @staticmethod
    def check() -> None:
        """Do nothing: no compiler is needed."""

    def __init__(self, description: dict[str, Any]) -> None:
        self._module, _ = graph_of(description)

    def result(self, interrupted: Callable[[], bool] = lambda: False) -> Library:
        """Return what computes the operations."""

        def run(inputs: list[Tensor]) -> list[Tensor]:
            with torch.no_grad():
                return list(self._module(*inputs))

        return run

    def close(self) -> None:
        """Do nothing."""
