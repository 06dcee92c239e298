"""Small environments in which several actors take turns, for tests of Maze and of plugins."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_actors import ActorSpaces, Turn, TurnEnv

PAY = np.array([[[0, 3], [9, 9], [1, 2]], [[2, 4], [5, 1], [9, 9]], [[9, 9], [0, 1], [2, 1]]], np.float32) / 10
"""The pay for a guest, an item and a shelf; the item (guest + 1) % 3 is forbidden."""
DECISIONS = 4


def _one_hot(number: int) -> np.ndarray:
    row: np.ndarray = np.eye(3, dtype=np.float32)[number]
    return row


class Shelves(TurnEnv):
    """Two turns make one decision: `pick` chooses an item for a guest, `place` the shelf that it comes from.

    It pays after the second turn. Four guests come one after the other, at random.
    """

    def __init__(self) -> None:
        guest = spaces.Box(0, 1, (3,), np.float32)
        pick = spaces.Dict({"guest": guest, "action_mask": spaces.MultiBinary(3)})
        place = spaces.Dict({"guest": guest, "item": spaces.Discrete(3)})
        super().__init__(
            {"pick": ActorSpaces(pick, spaces.Discrete(3)), "place": ActorSpaces(place, spaces.Discrete(2))}
        )

    def first_turn(self) -> Turn:
        """The first guest comes."""
        self._served = 0
        return self._guest(0.0)

    def next_turn(self, actor: str, action: Any) -> Turn:
        """Pick, or place."""
        if actor == "pick":
            self._item = int(action)
            seen = {"guest": _one_hot(self._who), "item": self._item}
            return Turn("place", seen, elapsed=0.0)
        self._served += 1
        return self._guest(float(PAY[self._who, self._item, int(action)]))

    def _guest(self, pay: float) -> Turn:
        self._who = int(self.np_random.integers(3))
        mask = np.array([item != (self._who + 1) % 3 for item in range(3)], np.int8)
        seen = {"guest": _one_hot(self._who), "action_mask": mask}
        return Turn("pick", seen, pay, terminated=self._served == DECISIONS)


class FlatShelves(gymnasium.Env[Any, Any]):
    """The twin of `Shelves` in which one action, item * 2 + shelf, is the whole decision."""

    def __init__(self) -> None:
        guest = spaces.Box(0, 1, (3,), np.float32)
        self.observation_space = spaces.Dict({"guest": guest, "action_mask": spaces.MultiBinary(6)})
        self.action_space = spaces.Discrete(6)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """The first guest comes."""
        super().reset(seed=seed)
        self._served = 0
        return self._guest(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Serve a guest."""
        pay = float(PAY[self._who, int(action) // 2, int(action) % 2])
        self._served += 1
        return self._guest(), pay, self._served == DECISIONS, False, {}

    def _guest(self) -> dict[str, Any]:
        self._who = int(self.np_random.integers(3))
        mask = np.repeat([item != (self._who + 1) % 3 for item in range(3)], 2).astype(np.int8)
        return {"guest": _one_hot(self._who), "action_mask": mask}


class Carousel(TurnEnv):
    """A random walk of three actors, of which `left` and `right` have equal spaces; any difference between runs shows.

    `choose` says by a masked choice how often `left` and `right` take turns (0, 1 or 2 each), with numbers between 5
    and 7 in their observations, so that zeros would show. Terminated at random, truncated after 15 decisions. Critics
    also see the position.
    """

    def __init__(self) -> None:
        seen = spaces.Dict({"level": spaces.Box(5, 7, (2,), np.float32)})
        push = ActorSpaces(
            seen, spaces.Dict({"force": spaces.Box(-1, 1, (2,), np.float32), "hold": spaces.Discrete(2)})
        )
        choose = spaces.Dict({"at": spaces.Box(-np.inf, np.inf, (1,), np.float64), "turns_mask": spaces.MultiBinary(3)})
        choice = ActorSpaces(choose, spaces.Dict({"turns": spaces.Discrete(3)}))
        hidden = spaces.Dict({"position": spaces.Box(-np.inf, np.inf, (1,), np.float32)})
        super().__init__({"choose": choice, "left": push, "right": push}, critic=hidden)

    def first_turn(self) -> Turn:
        """Begin at a random position."""
        self._position, self._decisions = float(self.np_random.normal()), 0
        self._queue: list[str] = []
        return self._choose(0.0)

    def next_turn(self, actor: str, action: Any) -> Turn:
        """Move by the action and at random."""
        if actor == "choose":
            self._queue = ["left", "right"] * int(action["turns"])
            reward = 0.0
        else:
            self._position += float(action["force"].sum()) * (1 if actor == "right" else -1) + float(action["hold"])
            reward = -abs(self._position)
        self._position += 0.1 * float(self.np_random.normal())
        if not self._queue:
            self._decisions += 1
            return self._choose(reward)
        level = (6 + np.tanh([self._position, len(self._queue)])).astype(np.float32)
        return Turn(self._queue.pop(0), {"level": level}, reward, elapsed=0.0, critic=self._hidden())

    def _choose(self, reward: float) -> Turn:
        mask = np.ones(3, np.int8)
        mask[int(self.np_random.integers(3))] = 0
        over = bool(self.np_random.random() < 0.1)
        cut = self._decisions >= 15 and not over
        seen = {"at": np.array([self._position]), "turns_mask": mask}
        return Turn("choose", seen, reward, terminated=over, truncated=cut, critic=self._hidden())

    def _hidden(self) -> dict[str, np.ndarray]:
        return {"position": np.array([self._position], np.float32)}
