"""Hindsight: replayed steps whose goal is one that their episode reached (Andrychowicz et al., arXiv 1707.01495)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maze_offpolicy.replay.goals import ACHIEVED, DESIRED
from maze_offpolicy.replay.transforms import Transform

if TYPE_CHECKING:
    from maze_offpolicy.replay.buffer import ReplayBuffer
    from maze_offpolicy.replay.goals import GoalRewards
    from maze_offpolicy.replay.transforms import Steps

_INDEX_BYTES = 20
# Of `Futures` for each row: five numbers of 32 bits.


class Hindsight(Transform):
    """Exchanges the desired goals of sampled steps for goals that were achieved later in their episodes (`future`).

    A step keeps its own goal with probability 1 / (1 + goals), so that on average `goals` of its samples have another
    one for each that has its own. Steps of an episode that is not over keep theirs.

    Args:
        rewards: computes the rewards for other goals.
        goals: other goals for each own one, the paper's k.
    """

    def __init__(self, rewards: GoalRewards, goals: int) -> None:
        self._rewards, self._share = rewards, goals / (goals + 1)
        self._futures = Futures(0)

    def nbytes(self, capacity: int) -> int:
        """Return the bytes that are needed besides the rows of a buffer."""
        return _INDEX_BYTES * capacity

    def apply(self, buffer: ReplayBuffer, rng: np.random.Generator, steps: Steps) -> None:
        """Change the goals of some steps in `obs` and `next_obs`, and their `reward` and `terminated`."""
        if self._futures.capacity != buffer.capacity:
            self._futures = Futures(buffer.capacity)
        self._futures.update(buffer.steps_of.ahead, buffer.rows, buffer.settled)
        futures, slots = self._futures, steps.slots
        changed = np.flatnonzero((rng.random(len(slots)) < self._share) & (futures.left[slots] > 0))
        if not len(changed):
            return
        goals = buffer.column(ACHIEVED)[futures.draw(rng, slots[changed])]
        steps.obs[DESIRED][changed] = steps.next_obs[DESIRED][changed] = goals
        reached = steps.next_obs[ACHIEVED][changed]
        steps.reward[changed] = self._rewards(reached, goals)
        steps.terminated[changed] = self._rewards.terminated(reached, goals, steps.terminated[changed])


class Futures:
    """The observations that follow each step in its episode, for the rows of a ring of `capacity` slots.

    It is computed from the distances between rows alone, whatever is interleaved, and takes in new rows when it is
    asked. So nothing of it is saved: the same rows give the same answers, in a resumed run too.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity, self._rows, self._settled, self._placed = capacity, 0, 0, 0
        self._behind = np.zeros(capacity, np.int32)
        """Distance to the row before in the same episode; 0: there is none."""
        self.left = np.zeros(capacity, np.int32)
        """[capacity] Steps from each slot's row to the last observation of its episode; 0 while that goes on."""
        self._order = np.zeros(2 * capacity, np.int32)
        """Slots of finished episodes, each episode from its last row to its first: a ring. While a row is in the
        buffer, fewer than `capacity` newer ones and as many older ones can follow it here."""
        self._place = np.zeros(capacity, np.int32)
        """Where each slot is in `_order`."""

    def update(self, ahead: np.ndarray, rows: int, settled: int) -> None:
        """Take in the rows of a buffer that were written since the last call.

        Args:
            ahead: the column of distances to the next row, [capacity].
            rows: rows written so far, as `ReplayBuffer.rows`.
            settled: those of them that are final.
        """
        if rows == self._rows:
            return
        oldest = max(0, rows - self.capacity)
        fresh = np.arange(max(self._rows, oldest), rows) % self.capacity
        self._behind[fresh] = self.left[fresh] = 0
        numbers = np.arange(max(self._settled, oldest), settled)
        slots = numbers % self.capacity
        distance = ahead[slots]
        has_step = distance > 0
        self._behind[(slots[has_step] + distance[has_step]) % self.capacity] = distance[has_step]
        # A step leads to the last observation of an episode, and none from it.
        self._place_episodes(numbers[~has_step & (self._behind[slots] > 0)], oldest)
        self._rows, self._settled = rows, settled

    def _place_episodes(self, last: np.ndarray, oldest: int) -> None:
        """Write the rows of the episodes with these last rows to `_order`, as far back as they are held."""
        at, episode = last, np.arange(len(last))
        backwards = []
        while len(at):
            slots = at % self.capacity
            backwards.append((slots, episode))
            distance = self._behind[slots]
            held = (distance > 0) & (at - distance >= oldest)
            at, episode = (at - distance)[held], episode[held]
        if not backwards:
            return
        lengths = np.bincount(np.concatenate([episode for _, episode in backwards]))
        ends = self._placed + np.cumsum(lengths)
        for depth, (slots, episode) in enumerate(backwards):
            place = ((ends - lengths)[episode] + depth) % len(self._order)
            self._order[place] = slots
            self._place[slots], self.left[slots] = place, depth
        self._placed = int(ends[-1] % len(self._order))

    def draw(self, rng: np.random.Generator, slots: np.ndarray) -> np.ndarray:
        """Return for each of these slots, whose `left` is above 0, that of an observation after it, drawn uniformly."""
        return self.following(slots, rng.integers(1, self.left[slots], endpoint=True))

    def following(self, slots: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Return the slots of the observations so many steps later, at most `left`."""
        found: np.ndarray = self._order[(self._place[slots] - steps) % len(self._order)]
        return found
