"""An environment that reports events."""

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_events import Event, Events


class Market(gymnasium.Env):
    """Sells at a random price; an episode ends after 3 to 6 steps. The observation repeats what was reported."""

    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self):
        declared = Event(["sum", "max", "histogram"], ["mean", "max", "histogram"])
        self.events = Events({"price": declared}, lambda events: {"mean_price": events.mean("price")})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(3, 7))
        return np.zeros(2, np.float32), {}

    def step(self, action):
        price = float(self.np_random.random(dtype=np.float32))
        self.events.report("price", price, actor="north" if action else "south")
        self.left -= 1
        return np.array([price, action], np.float32), price, self.left == 0, False, {}
