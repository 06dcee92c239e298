"""The configuration of an algorithm as it is at the moment: its schedules are numbers there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maze_core.plugins.config.schedules import Moment, Schedule

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core.plugins.hookspecs import Run


class Rate(float):
    """The first number of a schedule, in which an optimizer may find the parameter that is its learning rate."""

    parameter: str

    @classmethod
    def of(cls, parameter: str, number: float) -> Rate:
        """Return the number of a parameter."""
        rate = cls(number)
        rate.parameter = parameter
        return rate


class Scheduled:
    """What an algorithm reads as its `config`; that of a run without schedules is the configuration itself."""

    def __init__(self, config: Any) -> None:
        self.schedules = {name: value for name, value in config if isinstance(value, Schedule)}
        self._rules = {name: schedule.rule() for name, schedule in self.schedules.items()}
        self._counts: tuple[int, int] | None = None
        self.config = config.model_copy() if self.schedules else config
        self.inputs: dict[str, Tensor] = {}
        """The same numbers as tensors, shape (), that stay where they are; whoever repeats steps adds them."""
        first = {name: rule(Moment(0.0, 0.0, 0.0)) for name, rule in self._rules.items()}
        self.take({name: Rate.of(name, x) if isinstance(x, float) else x for name, x in first.items()})

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the moment, by parameter."""
        return {name: vars(self.config)[name] for name in self.schedules}

    def follow(self, run: Run) -> None:
        """Take the numbers of this moment."""
        if not self._rules:
            return
        counts = run.env_steps, run.updates
        if counts != self._counts:
            self._counts = counts
            at = Moment(run.fraction_done, run.env_steps, run.updates / run.epoch_length)
            self.take({name: rule(at) for name, rule in self._rules.items()})

    def take(self, numbers: Mapping[str, float]) -> None:
        """Take numbers, in place: who holds the configuration sees them."""
        vars(self.config).update(numbers)
        for name, tensor in self.inputs.items():
            tensor.fill_(numbers[name])
