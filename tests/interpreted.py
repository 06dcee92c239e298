"""Runs whose steps are compiled in all but the compiler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from maze_compile import compiled
from maze_devkit.interpretation import Interpretation


def losses(lines: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the losses among the metrics of each epoch."""
    return [{name: value for name, value in line.items() if name.startswith("loss/")} for line in lines]


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Runs whose updates are to be compiled go through all of it but the compiler."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "Compilation", Interpretation)
        yield
