"""A warehouse with demand, stock and late orders: a task in which what earns most is not what customers accept."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_events import Event, Events

DAYS, DEMAND, MOST = 50, 5.0, 15
"""Days of an episode, mean orders of a day, most units that arrive on one day."""
LEAD = 2
"""Days between ordering units and their arrival."""
MARGIN, STORAGE = 1.0, 0.4
"""What a shipped order earns, and what a unit in stock costs a day."""


class Inventory(gymnasium.Env[np.ndarray, np.ndarray]):
    """Order units each day; customers whose order is not shipped on its day wait, and their orders are late.

    An order is shipped whenever there are units, so that lateness costs nothing and storage does: the best return has
    hardly any stock, and almost all orders are late. The KPI `late_orders` is the share of late orders.

    Observation: units in stock less waiting orders, and the units that arrive tomorrow and the day after, in units of
    20. Action: between -1 (no unit) and 1 (15 units). An episode is 50 days.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (1 + LEAD,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self.events = Events({"order": Event(["sum"]), "late": Event(["sum"])}, kpis=_late_orders)
        self._day, self._stock, self._coming = 0, 0, [0] * LEAD

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin with ten units in stock, and five more on each of the next days."""
        super().reset(seed=seed)
        self._day, self._stock, self._coming = 0, 10, [5] * LEAD
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Let a day pass: units arrive, customers order, what can be shipped is."""
        self._coming.append(round((float(np.clip(action[0], -1, 1)) + 1) / 2 * MOST))
        waiting, units = max(-self._stock, 0), max(self._stock, 0) + self._coming.pop(0)
        ordered = int(self.np_random.poisson(DEMAND))
        shipped = min(units, waiting + ordered)
        late = ordered - min(max(units - waiting, 0), ordered)
        self._stock = units - waiting - ordered
        self.events.report("order", ordered)
        self.events.report("late", late)
        self._day += 1
        return self._seen(), MARGIN * shipped - STORAGE * max(self._stock, 0), self._day == DAYS, False, {}

    def _seen(self) -> np.ndarray:
        return np.array([self._stock, *self._coming], np.float32) / 20


def _late_orders(episode: Any) -> dict[str, float]:
    ordered = episode.sum("order")
    return {"late_orders": episode.sum("late") / ordered if ordered else 0.0}
