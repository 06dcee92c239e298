"""An environment whose observations say where they are in which episode, for tests of what is remembered."""

from __future__ import annotations

import gymnasium
import numpy as np
import torch
from gymnasium import spaces


class Diary(gymnasium.Env):
    """Its observations name episode and step, so that the whole episode before a row can be looked up.

    A choice is masked; `extra` has further actions. An episode has 1 to 14 steps, and is cut or terminates.
    """

    pages: dict[int, list[dict]] = {}  # noqa: RUF012 — what all environments of a test wrote

    def __init__(self, extra):
        self.observation_space = spaces.Dict(
            {
                "page": spaces.Box(-np.inf, np.inf, (2,), np.float32),
                "seen": spaces.Box(-1, 1, (3,), np.float32),
                "tool_mask": spaces.MultiBinary(3),
            }
        )
        self.action_space = spaces.Dict({"tool": spaces.Discrete(3), **extra})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number, self.length = int(self.np_random.integers(2**24)), int(self.np_random.integers(1, 15))
        self.pages[self.number] = []
        return self.observe(), {}

    def step(self, action):
        before = self.pages[self.number][-1]
        assert before["tool_mask"][action["tool"]]
        observation, over = self.observe(), len(self.pages[self.number]) > self.length
        return observation, float(self.np_random.normal()), over and self.number % 2 == 0, over and self.number % 2, {}

    def observe(self):
        pages, mask = self.pages[self.number], np.ones(3, np.int8)
        mask[int(self.np_random.integers(3))] = 0
        seen = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        # Small numbers, which float32 holds exactly: large ones would be all that a network sees.
        page = np.array([self.number / 2**24, len(pages)], np.float32)
        pages.append({"page": page, "seen": seen, "tool_mask": mask})
        return pages[-1]


def rows_until(page):
    """The observations of an episode up to a page, leaves [t + 1, …]."""
    number, t = int(page[0] * 2**24), int(page[1])
    pages = Diary.pages[number][: t + 1]
    return {key: torch.from_numpy(np.stack([each[key] for each in pages])) for key in pages[0]}
