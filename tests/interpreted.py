"""The operations of a step, computed one by one: to compile them takes ten seconds and more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from maze_core.learn.repeated import compiled
from maze_core.learn.repeated.compiler import graph_of


class Interpretation:
    """In the place of a `Compilation`."""

    def __init__(self, description: Any) -> None:
        self._module, _ = graph_of(description)

    def result(self) -> Any:
        def run(inputs: list[Tensor]) -> list[Tensor]:
            with torch.no_grad():
                return list(self._module(*inputs))

        return run

    def close(self) -> None:
        pass


def losses(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the losses among the metrics of each epoch."""
    return [{name: value for name, value in line.items() if name.startswith("loss/")} for line in lines]


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Runs whose updates are to be compiled go through all of it but the compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "Compilation", Interpretation)
        patch.setattr(compiled, "check_compiler", lambda: None)
        yield
