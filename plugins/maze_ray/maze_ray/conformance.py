"""The trial of the runner `ray` for the conformance kit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from maze_devkit import Case, Trial


def ray(case: Case) -> Trial:
    """Use two workers, all on one Ray."""
    return Trial(parameters={"workers": 2}, shared=_one_ray)


@contextmanager
def _one_ray() -> Iterator[None]:
    """Share one Ray among all pools inside the block."""
    from maze_ray.config import RayConfig
    from maze_ray.session import Session

    with closing(Session(RayConfig(name="ray"))):
        yield
