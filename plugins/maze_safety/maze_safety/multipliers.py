"""The multipliers of a run's constraints: moved by the costs of finished episodes, and turned into prices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import ConfigError, varies
from maze_core.base.saved_state import Bool, Count, Each, Number
from maze_core.envs.info_columns import CONSTRAINT
from maze_safety.pid import Control, pid

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode
    from maze_safety.config import ConstraintsConfig, Limit

_PATIENCE = 3
# Episodes that may end without a number: a KPI may be unknown in some.
_WINDOW = 500
# Updates over which the spreads of what is weighed against each other are means: long, so that prices are steady.


class Multipliers:
    """The multipliers of K constraints. Their names and limits are those of the configuration, in its order."""

    def __init__(self, config: ConstraintsConfig) -> None:
        self.config, self.names = config, tuple(config.limits)
        self.limits: tuple[Limit, ...] = tuple(config.limits.values())
        self.values = [config.initial] * len(self.names)
        self._controls = [Control(config.initial)] * len(self.names)
        self._largest = [0.0] * len(self.names)
        """The largest costs so far, in units: what those of a limit of 0 are measured by."""
        self._spreads = np.zeros(len(self.names) + 1)
        """Mean squares of the deviations of what is gained, and of each cost."""
        self._weighed = self._moved_at = 0
        self._sums, self._counts = [0.0] * len(self.names), [0] * len(self.names)
        """Of the numbers of episodes since the last move."""
        self._missed = [0] * len(self.names)
        """Episodes in a row without a number."""

    def costs(self, told: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return what steps cost, [..., K] in units of the limits, from the columns [...] of their numbers."""
        columns = (
            each.sign / each.unit * told[f"{CONSTRAINT}{name}"]
            for name, each in zip(self.names, self.limits, strict=True)
        )
        return np.stack(list(columns), -1).astype(np.float32)

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Take note of the costs of episodes that have ended.

        Raises:
            ConfigError: there is no number of a constraint's name.
        """
        for k, name in enumerate(self.names):
            found = [each.metrics[key] for each in episodes if (key := f"{CONSTRAINT}{name}") in each.metrics]
            self._sums[k], self._counts[k] = self._sums[k] + math.fsum(found), self._counts[k] + len(found)
            self._missed[k] = 0 if found else self._missed[k] + len(episodes)
            if self._missed[k] >= _PATIENCE and not self._controls[k].seen:
                raise _unknown(name, episodes[-1])

    def is_due(self, steps: int) -> bool:
        """Return True if so many steps of the learner have gone by since the last time that it did."""
        due = steps >= self._moved_at + self.config.every
        self._moved_at = steps if due else self._moved_at
        return due

    def move(self) -> None:
        """Move each multiplier by the mean costs since it last moved; it stays where no episode has ended."""
        for k, limit in enumerate(self.limits):
            if self._counts[k]:
                self._move(k, limit, limit.sign * self._sums[k] / self._counts[k] / limit.unit)
                self._sums[k], self._counts[k] = 0.0, 0

    def _move(self, k: int, limit: Limit, cost: float) -> None:
        config = self.config
        self._largest[k] = max(self._largest[k], abs(cost))
        excess = cost - limit.cost
        if not limit.cost:  # relative to the largest, so that the unit of costs does not matter
            excess = excess / self._largest[k] if self._largest[k] else 0.0
        excess = min(max(excess, -1.0), 1.0)
        self._controls[k], self.values[k] = pid(
            self._controls[k], excess, config.kp, config.ki, config.kd, config.smoothing
        )

    def weigh(self, gain: float, costs: Sequence[float]) -> None:
        """Take note of the standard deviations of what is gained and of each cost, over some rows."""
        self._weighed = min(self._weighed + 1, _WINDOW)
        self._spreads += (np.square([gain, *costs]) - self._spreads) / self._weighed

    @property
    def prices(self) -> np.ndarray:
        """The prices of costs in rewards, [K]: multipliers times the ratio of the standard deviations.

        So multipliers depend neither on the unit of rewards nor on that of costs. A cost that never varied has none.
        """
        gain, costs = math.sqrt(self._spreads[0]), np.sqrt(self._spreads[1:])
        ratios = np.divide(gain, costs, out=np.zeros_like(costs), where=costs > 0)
        prices: np.ndarray = np.array(self.values) * ratios
        return prices

    @property
    def share(self) -> float:
        """What gains less costs are multiplied by, so that steps do not grow with the multipliers."""
        return 1 / (1 + sum(self.values))

    def state(self) -> dict[str, Any]:
        """Return what decides the next multipliers."""
        return {
            "values": varies(list(self.values), Each(Number(0.0))),
            "integrals": varies([each.integral for each in self._controls], Each(Number(0.0))),
            "excesses": varies([each.excess for each in self._controls], Each(Number())),
            "seen": varies([each.seen for each in self._controls], Each(Bool())),
            "largest": varies(list(self._largest), Each(Number(0.0))),
            "spreads": varies(self._spreads.tolist(), Each(Number(0.0))),
            "weighed": varies(self._weighed, Count()),
            "moved_at": varies(self._moved_at, Count()),
            "sums": varies(list(self._sums), Each(Number())),
            "counts": varies(list(self._counts), Each(Count())),
            "missed": varies(list(self._missed), Each(Count())),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        if len(state["values"]) != len(self.names):
            raise ConfigError("a resumed run keeps the constraints that it has", "constraints")
        self.values, self._largest, self._missed = (list(state[key]) for key in ("values", "largest", "missed"))
        self._sums, self._counts = list(state["sums"]), list(state["counts"])
        parts = zip(state["integrals"], state["excesses"], state["seen"], strict=True)
        self._controls = [Control(*each) for each in parts]
        self._spreads, self._weighed = np.array(state["spreads"]), state["weighed"]
        self._moved_at = state["moved_at"]


def _unknown(name: str, episode: Episode) -> ConfigError:
    known = [key.removeprefix("kpi/") for key in episode.metrics if not key.startswith(CONSTRAINT)]
    known += [] if episode.events is None else list(episode.events.values)
    told = f"episodes report {', '.join(sorted([*known, 'length']))}"
    problem = "no step's info has it, and it is no KPI and no metric of an episode"
    return ConfigError(problem, f"constraints.{name}", f"Next: another name; {told}.")
