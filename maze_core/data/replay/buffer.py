"""Replay: a ring buffer of the newest steps in preallocated arrays; sampling time depends on the batch size only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core.base.errors import ConfigError
from maze_core.base.free_ram import check_memory
from maze_core.base.tree import copy_tree, gather_rows, subtree, take_rows
from maze_core.data.batch import Batch
from maze_core.data.replay.frames import FrameStore, frames_for
from maze_core.data.replay.priorities import Priorities, tree_bytes
from maze_core.data.replay.row_specs import NO_STACKS, Stacks, row_specs
from maze_core.data.tensors import to_tensors
from maze_core.envs.goals import ACHIEVED
from maze_core.envs.several.actors import ELAPSED
from maze_core.envs.spaces import allocate, allocated_bytes, space_specs

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.base.tree import Tree
    from maze_core.data.recordings.trajectories import Trajectory
    from maze_core.data.replay.hindsight import Hindsight
    from maze_core.data.transitions import Transitions
    from maze_core.envs.vector import StepResult

Rows = slice | np.ndarray
_NONE = -1


class ReplayBuffer:
    """The newest `capacity` rows of N environments stepped together, and of recorded episodes.

    A row is one observation and the step from it: action (environment units), reward, flags, and the number of rows to
    the next observation, `ahead`. So each observation is stored once for any number of interleaved environments, and
    an episode's last observation takes its own row. Row number n lies in slot n % capacity. `ahead` is 0 for a row
    without a step: the last observation of an episode, and the N newest rows, which have no action yet.

    Args:
        observation_space: of a single environment.
        action_space: of a single environment.
        capacity: number of rows.
        where: the setting that an error about the memory names.
        priority_exponent: draw steps in proportion to their errors to this power; None: uniformly.
        hindsight: exchanges the goals of sampled steps; None: they keep them.
        stacks: leaves of observations that are stacks of frames, by key. Each of their frames is stored once.
        lanes: the number of agents in all environments, whose transitions come by `add`; 0: those of N environments
            with one agent each come by `begin` and `step`.

    Raises:
        ConfigError: the rows do not fit into the free memory; nothing is allocated.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        capacity: int,
        where: str = "",
        priority_exponent: float | None = None,
        hindsight: Hindsight | None = None,
        stacks: Stacks = NO_STACKS,
        lanes: int = 0,
    ) -> None:
        if capacity < 8 * lanes:
            raise ConfigError(f"must be at least {8 * lanes} where {lanes} agents act, in all environments", where)
        self._spaces, self._where = (observation_space, action_space), where
        self.capacity = capacity
        self._hindsight = hindsight
        self._index_bytes = 0 if priority_exponent is None else tree_bytes(capacity)
        self._index_bytes += 0 if hindsight is None else hindsight.nbytes(capacity)
        self.lay_out(stacks)
        self.priorities = None if priority_exponent is None else Priorities(capacity, priority_exponent)
        """The priorities of the slots; None: steps are drawn uniformly."""
        self.rows = 0
        """Rows written so far, overwritten ones included; the number of the next row."""
        self.steps = 0
        """Steps added so far, overwritten ones included."""
        self.open = 0
        """Number of newest rows that are not final: one for each environment; of lanes, those since the oldest open."""
        self._latest = np.full(lanes, _NONE, np.int64)
        """The number of the row with what each lane acts on, or acted on last; -1: there is none."""

    def lay_out(self, stacks: Stacks) -> None:
        """Allocate the rows of an empty buffer; arguments and errors as for the class."""
        self.specs = row_specs(*self._spaces, stacks)
        leaves = space_specs(self._spaces[0], "observation")
        self.frames: dict[str, FrameStore] = {}
        """The frames of the leaves that are stacks."""
        self._open_frames: Tree = {}
        """What the open rows of a checkpoint show, for `begin`: frame numbers [N, frames] by leaf."""
        first = sum(frames_for(self.capacity) * stack.frame(leaves[key]).nbytes for key, stack in stacks.items())
        check_memory(self.nbytes + first, self.capacity, self._where)
        self._columns = allocate(self.specs, (self.capacity,))
        self._obs, self._actions = subtree(self._columns, "obs/"), subtree(self._columns, "action/")
        self._elapsed = self._obs.get(ELAPSED)
        self._reward, self._terminated = self._columns["reward"], self._columns["terminated"]
        self._truncated, self._ahead = self._columns["truncated"], self._columns["ahead"]
        self.frames |= {k: FrameStore(stack, leaves[k], self._obs[k], self._where) for k, stack in stacks.items()}

    @property
    def nbytes(self) -> int:
        """Bytes that all rows take, with frames, priorities, and what is needed to exchange goals."""
        frames = sum(store.nbytes for store in self.frames.values())
        return allocated_bytes(self.specs, (self.capacity,)) + self._index_bytes + frames

    def __len__(self) -> int:
        """Return the number of rows held."""
        return min(self.rows, self.capacity)

    # Writing

    def begin(self, obs: Tree) -> None:
        """Store the current observations of the environments (leaves [N, …]); `step` continues from them."""
        self.open = len(next(iter(obs.values())))
        self._append(obs, self.open)

    def step(self, actions: Tree, result: StepResult, obs: Tree) -> None:
        """Store one step of the environments passed to `begin`.

        `actions`: leaves [N, …] in environment units; `obs`: leaves [N, …], the observations for the next actions.
        """
        first, count, ended = self.rows - self.open, self.open, len(result.final_indices)
        rows = self._slots(first, count)
        for key, column in self._actions.items():
            column[rows] = actions[key]
        self._reward[rows], self._terminated[rows], self._truncated[rows] = (
            result.reward,
            result.terminated,
            result.truncated,
        )
        if ended and result.final_obs is not None:
            ahead = np.full(count, count + ended)
            ahead[result.final_indices] = count + np.arange(ended) - result.final_indices
            self._ahead[rows] = ahead
            self._append(result.final_obs, ended, first + result.final_indices)
        else:
            self._ahead[rows] = count
        if result.has_filler:
            self._ahead[rows] *= result.valid  # a filler row stays without a step
        self._prioritize(rows)
        self.steps += result.steps
        self._append(obs, count, first + np.arange(count))

    def add(self, done: Transitions) -> None:
        """Store transitions of lanes.

        A row is written when its observation is known, which is when the transition before it is complete. So the rows
        of lanes that wait lie among others. Until its own transition is complete, it has no step.
        """
        if not len(done.rows):
            return
        first = np.flatnonzero(self._latest[done.rows] == _NONE)
        self._observe(done.rows[first], take_rows(done.obs, first))
        before = self._latest[done.rows].copy()
        slots = before % self.capacity
        for key, column in self._actions.items():
            column[slots] = done.actions[key]
        self._reward[slots], self._terminated[slots], self._truncated[slots] = (
            done.rewards,
            done.terminated,
            done.truncated,
        )
        self._observe(done.rows, done.following)
        self._ahead[slots] = self._latest[done.rows] - before
        self._prioritize(slots)
        self.steps += len(slots)
        self.forget(done.rows[done.ended])

    def _observe(self, lanes: np.ndarray, obs: Tree) -> None:
        """Write a row without a step for each of these lanes."""
        numbers = self.rows + np.arange(len(lanes))
        self._append(obs, len(lanes))
        self._latest[lanes] = numbers
        # An old one may be overwritten: the lane begins another when it acts.
        self._latest[self._latest < self.rows - self.capacity] = _NONE

    def forget(self, lanes: Sequence[int] | np.ndarray) -> None:
        """Expect no step from the latest rows of these lanes."""
        self._latest[lanes] = _NONE
        waiting = self._latest[self._latest != _NONE]
        self.open = self.rows - int(waiting.min()) if len(waiting) else 0

    def add_episode(self, episode: Trajectory) -> None:
        """Store a recorded episode of L steps; at most `capacity - 1` fit. Not between `begin` and `step`."""
        count = len(episode.rewards)
        rows = self._slots(self.rows, count)
        self._append(episode.obs, count + 1, self.rows - 1 + np.arange(count + 1))
        for key, column in self._actions.items():
            column[rows] = episode.actions[key]
        self._reward[rows] = episode.rewards
        self._terminated[rows] = self._truncated[rows] = False
        last = (self.rows - 2) % self.capacity
        self._terminated[last], self._truncated[last] = episode.terminated, episode.truncated
        self._ahead[rows] = 1
        self._prioritize(rows)
        self.steps += count
        self.open = 0

    def _append(self, obs: Tree, count: int, before: np.ndarray | None = None) -> None:
        """Write rows without a step; `before`: the numbers of the rows before them, [count], which may be new too."""
        rows = self._slots(self.rows, count)
        for key, column in self._obs.items():
            if key in self.frames:
                self._append_stacks(key, obs[key], before)
            else:
                column[rows] = obs[key]
        self._ahead[rows] = 0
        self._prioritize(rows)
        self.rows += count

    def _append_stacks(self, key: str, stacks: np.ndarray, before: np.ndarray | None) -> None:
        store, column, first = self.frames[key], self._obs[key], self.rows
        if (saved := self._open_frames.pop(key, None)) is not None:
            column[(first + np.arange(len(stacks))) % self.capacity] = store.again(stacks, saved)
            return
        # Rows that follow each other, as those of an episode, are written one by one.
        each = 1 if before is not None and before[-1] >= first else len(stacks)
        for i in range(0, len(stacks), each):
            shown = None if before is None or before[i] < 0 else column[before[i : i + each] % self.capacity]
            column[(first + np.arange(i, i + each)) % self.capacity] = store.add(stacks[i : i + each], shown)

    def _prioritize(self, rows: Rows) -> None:
        """Give steps that were written the largest priority, and rows without a step none."""
        if self.priorities is not None:
            slots = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            has_step = self._ahead[slots] > 0
            self.priorities.add(slots[has_step])
            self.priorities.remove(slots[~has_step])

    def _slots(self, first: int, count: int) -> Rows:
        start = first % self.capacity
        if start + count <= self.capacity:
            return slice(start, start + count)
        return (start + np.arange(count)) % self.capacity

    # Reading

    def sample(
        self,
        rng: np.random.Generator,
        batch_size: int,
        gamma: float,
        *,
        n_step: int = 1,
        stretch: int = 1,
        beta: float = 0.0,
        device: torch.device | None = None,
    ) -> Batch:
        """Return steps drawn with replacement, uniformly or by their priorities.

        Args:
            rng: random generator of the draw.
            batch_size: B.
            gamma: discount of a decision: of a step, unless observations say what has elapsed.
            n_step: rewards summed before the bootstrap; fewer where the episode or the data ends earlier.
            stretch: draw sequences of this many consecutive steps instead of single ones; where an episode ends
                earlier, the rest of the sequence begins elsewhere. Uniform only.
            beta: exponent of the importance weights of prioritised steps; 1 makes up for all of their bias.
            device: the batch's device.

        Returns:
            A batch with actions in environment units, `next_obs`, and in `extra`, each [B]: `reward`, the discounted
            sum, and `discount`, the factor of the value of `next_obs`: 0 at termination, never at truncation. With
            priorities also `weight`, the importance weight, at most 1, and `slot`, for `priorities.update`.
        """
        if self.priorities is not None and stretch > 1:
            raise ValueError("prioritised steps are drawn one by one")
        if self._hindsight is not None and (n_step > 1 or self.priorities is not None):
            raise ValueError("goals are exchanged for single rewards of steps that are drawn uniformly")
        slots = self._draw(rng, batch_size) if stretch == 1 else self._draw_stretches(rng, batch_size, stretch)
        if n_step == 1:
            following = (slots + self._ahead[slots]) % self.capacity
            reward, terminated = self._reward[slots], self._terminated[slots]
        else:
            reward, discount, following = self._look_ahead(slots, gamma, n_step)
        obs, next_obs = self._observations(slots), self._observations(following)
        if self._hindsight is not None:
            self._hindsight.update(self._ahead, self.rows, self.settled)
            self._hindsight.relabel(rng, slots, self._obs[ACHIEVED], obs, next_obs, reward, terminated)
        if n_step == 1:
            discount = self._factor(following, gamma) * ~terminated
        extra = {"reward": reward, "discount": discount.astype(np.float32, copy=False)}
        if self.priorities is not None:
            extra |= {"weight": self.priorities.weights(slots, beta), "slot": slots}
        return Batch(
            to_tensors(obs, device),
            to_tensors(gather_rows(self._actions, slots), device),
            to_tensors(extra, device),
            to_tensors(next_obs, device),
        )

    def _observations(self, slots: np.ndarray) -> Tree:
        taken = gather_rows(self._obs, slots)
        return taken if not self.frames else taken | {k: store.take(taken[k]) for k, store in self.frames.items()}

    def _factor(self, slots: np.ndarray, gamma: float) -> Any:
        """Return the discount of what follows before these observations: gamma to the power of what has elapsed."""
        return gamma if self._elapsed is None else gamma ** self._elapsed[slots]

    def _draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return slots of steps, drawn by priority, or uniformly: the few rows without a step are drawn again."""
        if self.steps == 0:
            raise ValueError("the replay buffer has no step to sample")
        if self.priorities is not None:
            return self.priorities.draw(rng, count)
        size = len(self)
        slots: np.ndarray = rng.integers(size, size=count)
        idle = np.flatnonzero(self._ahead[slots] == 0)
        while len(idle):
            slots[idle] = rng.integers(size, size=len(idle))
            idle = idle[self._ahead[slots[idle]] == 0]
        return slots

    def _draw_stretches(self, rng: np.random.Generator, count: int, length: int) -> np.ndarray:
        slots = self._draw(rng, -(-count // length))
        drawn = [slots]
        for _ in range(length - 1):
            slots = (slots + self._ahead[slots]) % self.capacity
            over = np.flatnonzero(self._ahead[slots] == 0)
            if len(over):
                slots[over] = self._draw(rng, len(over))
            drawn.append(slots)
        return np.concatenate(drawn)[:count]

    def _look_ahead(self, slots: np.ndarray, gamma: float, n_step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the sum of at most `n_step` rewards, the discount of the bootstrap and its slot, for each step."""
        reward = np.zeros(len(slots), np.float32)
        discount, following = np.ones(len(slots), np.float32), slots.copy()
        going = np.arange(len(slots))
        for k in range(n_step):
            here = following[going]
            following[going] = (here + self._ahead[here]) % self.capacity
            if self._elapsed is None:
                reward[going] += gamma**k * self._reward[here]
                discount[going] = gamma ** (k + 1) * ~self._terminated[here]
            else:
                reward[going] += discount[going] * self._reward[here]
                discount[going] *= self._factor(following[going], gamma) * ~self._terminated[here]
            ends = self._terminated[here] | self._truncated[here] | (self._ahead[following[going]] == 0)
            going = going[~ends]
            if not len(going):
                break
        return reward, discount, following

    # Saving

    @property
    def settled(self) -> int:
        """The number of rows that are final: they can only be overwritten."""
        return self.rows - self.open

    def read(self, first: int, count: int) -> Tree:
        """Return copies of the columns of rows `first` to `first + count - 1`, by name, leaves [count, …]."""
        rows = self._slots(first, count)
        return copy_tree(take_rows(self._columns, rows))

    def restore(self, first: int, columns: Tree) -> None:
        """Write results of `read`, in order; then `begin` adds the open rows again."""
        end = first + len(columns["ahead"])
        count = min(end - first, self.capacity)
        rows = self._slots(end - count, count)
        for name, column in self._columns.items():
            column[rows] = columns[name][-count:]
        self._prioritize(rows)
        self.rows, self.open = end, 0

    def open_state(self) -> dict[str, Any] | None:
        """Return the rows of lanes that are not final; None for environments with one agent, which `begin` writes."""
        if not len(self._latest):
            return None
        slots = (self.settled + np.arange(self.open)) % self.capacity
        priorities = None if self.priorities is None else self.priorities[slots]
        rows = self.read(self.settled, self.open)
        return {"first": self.settled, "rows": rows, "latest": self._latest.copy(), "priorities": priorities}

    def load_open_state(self, state: dict[str, Any] | None) -> None:
        """Restore the result of `open_state()`, after the final rows."""
        if state is None:
            return
        self.restore(state["first"], state["rows"])
        self._latest[:] = state["latest"]
        self.open = self.rows - state["first"]
        if self.priorities is not None and state["priorities"] is not None:
            slots = (state["first"] + np.arange(self.open)) % self.capacity
            self.priorities.restore(slots, state["priorities"])

    def open_frames(self) -> dict[str, list[list[int]]]:
        """Return the numbers of the frames that the open rows show, by leaf."""
        rows = self._slots(self.settled, self.open)
        return {key: self._obs[key][rows].tolist() for key in self.frames}

    def expect_open(self, frames: Mapping[str, list[list[int]]]) -> None:
        """Let `begin` find the open rows of a checkpoint among its frames; `frames`: the result of `open_frames()`."""
        self._open_frames = {key: np.array(shown, np.int64) for key, shown in frames.items() if key in self.frames}

    def priority_state(self) -> dict[str, Any] | None:
        """Return the priorities of the settled rows, oldest first, and the largest so far; None without priorities."""
        if self.priorities is None:
            return None
        oldest = max(0, self.rows - self.capacity)
        slots = (oldest + np.arange(self.settled - oldest)) % self.capacity
        return {"values": self.priorities[slots], "largest": self.priorities.largest}

    def restore_priorities(self, state: dict[str, Any] | None) -> None:
        """Restore the result of `priority_state`, as far back as the capacity allows, after all rows are restored.

        With None the steps keep the largest priority, that of new ones.
        """
        if self.priorities is None or state is None:
            return
        values = state["values"][-self.capacity :]
        self.priorities.largest = state["largest"]
        self.priorities.restore((self.settled - len(values) + np.arange(len(values))) % self.capacity, values)
