"""The operations of a step, computed one by one: to compile them takes ten seconds and more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from maze_core.learn.repeated import compiled
from maze_core.learn.repeated.compiler import graph_of


def _library_of(description: Any) -> Any:
    module, _ = graph_of(description)

    def run(inputs: list[Tensor]) -> list[Tensor]:
        with torch.no_grad():
            return list(module(*inputs))

    return run


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Runs whose updates are to be compiled go through all of it but the compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "compiled", _library_of)
        patch.setattr(compiled, "check_compiler", lambda: None)
        yield
