"""Numbers with schedules as inputs of steps that are repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from maze_core.plugins.hookspecs import Run


@contextmanager
def numbers_as_inputs(run: Run) -> Iterator[None]:
    """Have tensors, shape (), in the place of the numbers that change: steps recorded inside read those later on.

    They stay where they are, and get the numbers of each moment. A constant schedule is the number itself.
    """
    scheduled = run.algorithm.scheduled
    numbers, inputs = scheduled.numbers(), scheduled.inputs
    for name, schedule in scheduled.schedules.items():
        if schedule.schedule != "constant" and name not in inputs:
            inputs[name] = torch.tensor(float(numbers[name]), device=run.device)
    vars(scheduled.config).update(inputs)
    try:
        yield
    finally:
        vars(scheduled.config).update(numbers)
