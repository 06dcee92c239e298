"""Ten chances to earn 1, each with a hazard that the agent sees before."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_events import Event, Events

STEPS = 10


class Hazards(gymnasium.Env):
    """Whoever takes a chance pays its hazard, which is uniform between 0 and 1.

    To take all earns 10 at a cost of 5. The best policy that costs d takes the hazards below t = sqrt(d / 5): it pays
    10 t² / 2 = d and earns 10 t.
    """

    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space: Any = spaces.Discrete(2)
    tells = True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = STEPS
        return self._seen(), {}

    def _seen(self):
        self.hazard = self.np_random.random()
        return np.array([self.hazard, self.left / STEPS], np.float32)

    def step(self, action):
        cost = self.hazard * float(action)
        self.left -= 1
        return self._seen(), float(action), self.left == 0, False, {"cost": cost} if self.tells else {}


class Silent(Hazards):
    """The same without a word of costs."""

    tells = False


class Reported(Hazards):
    """Hazards whose costs are a KPI, and the sum of an event; chances are a share between -1 (none) and 1 (all)."""

    action_space = spaces.Box(-1, 1, (1,), np.float32)
    tells = False

    def __init__(self):
        self.events = Events({"paid": Event(["sum"])}, kpis=lambda episode: {"cost": episode.sum("paid")})

    def step(self, action):
        share = float((action[0] + 1) / 2)
        self.events.report("paid", self.hazard * share)
        return super().step(share)


gymnasium.register("Hazards-v0", Hazards)
gymnasium.register("Reported-v0", Reported)
