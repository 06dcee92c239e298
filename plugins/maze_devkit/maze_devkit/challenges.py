"""Environments that ask more of an algorithm: memory, masks, several actors, and leaves that critics alone see."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from maze_actors import ActorSpaces, Turn, TurnEnv

from maze_devkit.probes import Walk


class Masked(Walk):
    """A random walk that masks one of its three steps, a different one each time, and refuses it."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(  # type: ignore[assignment]
            {"place": self.observation_space, "action_mask": spaces.MultiBinary(3)}
        )

    def best_action(self) -> np.int64:
        """Return a step that is allowed."""
        return np.int64((self._forbidden + 1) % 3)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Move."""
        if int(action) == self._forbidden:
            raise ValueError(f"the action {action!r} is masked")
        return super().step(action)

    def observe(self) -> Any:
        """Return the place, and what is observed beside it."""
        self._forbidden = int(self.np_random.integers(3))
        return {"place": super().observe(), "action_mask": (np.arange(3) != self._forbidden).astype(np.int8)}


class Privileged(Walk):
    """A random walk whose critics also see a number, in units of `scale`, that says nothing about it."""

    def __init__(self, scale: float, continuous: bool = False) -> None:
        super().__init__(continuous)
        leaf = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.observation_space = spaces.Dict(  # type: ignore[assignment]
            {"place": self.observation_space, "critic": spaces.Dict({"number": leaf})}
        )
        self._scale = scale

    def observe(self) -> Any:
        """Return the place, and what is observed beside it."""
        number = self._scale * self.np_random.normal(size=1)
        return {"place": super().observe(), "critic": {"number": number.astype(np.float32)}}


class Errand(TurnEnv):
    """Two actors take turns at a random walk: one chooses, the other pushes.

    Args:
        elapsed: the decisions from one turn to the next; 0: a whole episode is one decision.
        continuous: both have continuous actions.
    """

    def __init__(self, elapsed: float = 0.0, continuous: bool = False) -> None:
        seen = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        far = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        push, choice = (spaces.Box(-1, 1, (size,), np.float32) for size in (1, 2))
        both = (choice, push) if continuous else (spaces.Discrete(3), spaces.Discrete(2))
        super().__init__({"choose": ActorSpaces(seen, both[0]), "push": ActorSpaces(far, both[1])})
        self._elapsed = elapsed

    def first_turn(self) -> Turn:
        """Begin somewhere."""
        self._position, self._turns = float(self.np_random.normal()), 0
        return self._turn()

    def next_turn(self, actor: str, action: Any) -> Turn:
        """Move by the action and at random."""
        self._position += float(np.sum(action)) - 0.5 + float(self.np_random.normal())
        self._turns += 1
        return self._turn()

    def _turn(self) -> Turn:
        over = self._turns > 0 and bool(self.np_random.random() < 0.1)
        cut = self._turns >= 15 and not over
        position = np.float32(self._position)
        actor, seen = ("choose", [position, self._turns / 15]) if self._turns % 2 == 0 else ("push", [position])
        reward = -0.1 * self._position
        return Turn(actor, np.array(seen, np.float32), reward, self._elapsed, terminated=over, truncated=cut)
