"""A game of agents that come and go by themselves."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from maze_core.base.seeding import EpisodeSeeds, Purpose

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)


class Lives(ParallelEnv):
    """Three agents that walk at random; each dies or is cut by itself, and is paid for it."""

    metadata = {"name": "lives_v0", "is_parallelizable": True}  # noqa: RUF012
    possible_agents = ["a", "b", "c"]  # noqa: RUF012
    render_mode = None

    def __init__(self, masks="none"):
        self._masks = masks

    def observation_space(self, agent):
        return SPACE

    def action_space(self, agent):
        return CHOICES

    def reset(self, seed=None, options=None):
        self._rng = np.random.default_rng(seed)
        self.agents, self._steps = self.possible_agents[:], 0
        return self.seen(self.agents), {agent: self._info() for agent in self.agents}

    def step(self, actions):
        self._steps += 1
        alive = self.agents[:]
        ends = self._rng.random(3)
        terminated = {agent: bool(ends[self.possible_agents.index(agent)] < 0.2) for agent in alive}
        truncated = {agent: self._steps >= 8 and not terminated[agent] for agent in alive}
        rewards = {agent: float(actions[agent] - terminated[agent]) for agent in alive}
        self.agents = [agent for agent in alive if not (terminated[agent] or truncated[agent])]
        return self.seen(alive), rewards, terminated, truncated, {agent: self._info() for agent in alive}

    def seen(self, agents):
        everybody = self._rng.normal(size=(3, 2)).astype(np.float32)
        return {agent: everybody[self.possible_agents.index(agent)] for agent in agents}

    def _info(self):
        return {"action_mask": np.array([1, 0, 1], np.int8)} if self._masks == "info" else {}


SPACE = spaces.Box(-np.inf, np.inf, (2,), np.float32)
CHOICES = spaces.Discrete(3)
