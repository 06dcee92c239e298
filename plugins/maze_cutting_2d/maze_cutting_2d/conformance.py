"""The conformance kit's trials of the environment and the heuristic."""

from __future__ import annotations

import functools

from maze_devkit import Case, Trial

from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.flat import Cutting


def best_fit(case: Case) -> Trial:
    """Use a short episode of the environment."""
    return Trial(env=functools.partial(Cutting, CuttingConfig(name="cutting_2d", orders=20)))


def source(case: Case) -> Trial:
    """Say why all episodes are equally long."""
    return Trial(waived={"time_limit": "an episode has a fixed number of orders, and how many are left is observed"})
