"""Replay: a ring buffer of the newest steps in preallocated arrays; sampling time depends on the batch size only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import Batch, ConfigError, Count, subtree, take_rows, to_tensors, varies
from maze_core.base.free_ram import check_ram
from maze_core.base.saved_state import Array, check_range
from maze_core.base.tree import gather_rows
from maze_core.envs.actors import ELAPSED
from maze_core.envs.spaces import allocated_bytes, space_specs
from maze_offpolicy.replay.frames import FrameStore, frames_for
from maze_offpolicy.replay.look_ahead import StepColumns, look_ahead
from maze_offpolicy.replay.ring import Ring, Slots
from maze_offpolicy.replay.row_specs import NO_STACKS, Stacks, row_limits, row_specs
from maze_offpolicy.replay.selectors import ByPriority, Selector, Uniform
from maze_offpolicy.replay.sequence_batch import sequence_batch
from maze_offpolicy.replay.transforms import Steps

if TYPE_CHECKING:
    import torch
    from gymnasium import Space
    from maze_onpolicy import Transitions

    from maze_core import Trajectory, Tree
    from maze_core.envs.vector import StepResult
    from maze_offpolicy.replay.priorities import Priorities
    from maze_offpolicy.replay.transforms import Transform

_NONE = -1


class ReplayBuffer(Ring):
    """The newest `capacity` rows of N environments stepped together, and of recorded episodes.

    A row is one observation and the step from it: action (environment units), reward, flags, and the number of rows to
    the next observation, `ahead`. So each observation is stored once for any number of interleaved environments, and
    an episode's last observation takes its own row. `ahead` is 0 for a row without a step: the last observation of an
    episode, and the N newest rows, which have no action yet. These are not final; of agents, all since the oldest row
    that waits for its action are not.

    Args:
        observation_space: of a single environment.
        action_space: of a single environment.
        capacity: number of rows.
        where: the setting that an error about the memory names.
        priority_exponent: draw steps in proportion to their errors to this power; None: uniformly.
        transforms: change sampled steps, one after the other.
        stacks: leaves of observations that are stacks of frames, by key. Each of their frames is stored once.
        agent_rows: the number of agents in all environments, whose transitions come by `add`; 0: those of N
            environments with one agent each come by `begin` and `step`.
        selector: draws the rows of batches, instead of `priority_exponent`.
        agents: the number of agents in each environment.
        info_columns: numbers of the `info` of each step, which rows hold too.

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
        transforms: Sequence[Transform] = (),
        stacks: Stacks = NO_STACKS,
        agent_rows: int = 0,
        selector: Selector | None = None,
        agents: int = 1,
        info_columns: Sequence[str] = (),
    ) -> None:
        if capacity < 8 * agent_rows:
            raise ConfigError(
                f"must be at least {8 * agent_rows} where {agent_rows} agents act, in all environments", where
            )
        self._spaces, self._where = (observation_space, action_space), where
        self._info_columns = tuple(info_columns)
        self._transforms = transforms
        self.selector = selector or (Uniform() if priority_exponent is None else ByPriority(priority_exponent))
        self.selector.agents = agents
        self._index_bytes = self.selector.nbytes(capacity) + sum(each.nbytes(capacity) for each in transforms)
        self.steps = 0
        """Steps added so far, overwritten ones included."""
        self._everyone = np.arange(0)
        """The numbers of the environments that `step` takes."""
        self._latest = np.full(agent_rows, _NONE, np.int64)
        """The number of the row with what each agent acts on, or acted on last; -1: there is none."""
        self.lay_out(stacks, capacity)

    def lay_out(self, stacks: Stacks, capacity: int) -> None:
        """Allocate the rows of an empty buffer; arguments and errors as for the class."""
        specs = row_specs(*self._spaces, stacks, self._info_columns)
        leaves = space_specs(self._spaces[0], "observation")
        self.frames: dict[str, FrameStore] = {}
        """The frames of the leaves that are stacks."""
        frames = sum(frames_for(capacity) * stack.frame(leaves[key]).nbytes for key, stack in stacks.items())
        needed = allocated_bytes(specs, (capacity,)) + self._index_bytes + frames
        check_ram(needed, capacity, self._where)
        super().__init__(specs, capacity)
        self._limits = row_limits(*self._spaces, stacks)
        self._obs, self._actions = subtree(self.columns, "obs/"), subtree(self.columns, "action/")
        self._info = subtree(self.columns, "info/")
        self._reward, self._terminated = self.columns["reward"], self.columns["terminated"]
        self._truncated, self._ahead = self.columns["truncated"], self.columns["ahead"]
        elapsed = self._obs.get(ELAPSED)
        self.steps_of = StepColumns(self._reward, self._terminated, self._truncated, self._ahead, elapsed)
        """What follows each row."""
        self.frames |= {k: FrameStore(stack, leaves[k], self._obs[k], self._where) for k, stack in stacks.items()}
        self.selector.attach(self)

    @property
    def priorities(self) -> Priorities | None:
        """The priorities of what is drawn; None: it is drawn uniformly."""
        return self.selector.priorities

    @property
    def ready(self) -> bool:
        """True once there is something to sample."""
        return self.selector.ready

    @property
    def nbytes(self) -> int:
        """Bytes that all rows take, with frames, priorities, and what is needed to exchange goals."""
        frames = sum(store.nbytes for store in self.frames.values())
        return allocated_bytes(self.specs, (self.capacity,)) + self._index_bytes + frames

    # Writing

    def begin(self, obs: Tree) -> None:
        """Store the current observations of the environments (leaves [N, …]); `step` continues from them."""
        self.open = len(next(iter(obs.values())))
        self._everyone = np.arange(self.open)
        self._append(obs, self.open)

    def step(self, actions: Tree, result: StepResult, obs: Tree) -> None:
        """Store one step of the environments passed to `begin`.

        `actions`: leaves [N, …] in environment units; `obs`: leaves [N, …], the observations for the next actions.
        """
        first, count, ended = self.rows - self.open, self.open, len(result.final_indices)
        numbers, rows = first + self._everyone, self.slots(first, count)
        self._write_steps(rows, actions, result.reward, result.terminated, result.truncated, result.info)
        if ended and result.final_obs is not None:
            ahead = np.full(count, count + ended)
            ahead[result.final_indices] = count + np.arange(ended) - result.final_indices
            self._ahead[rows] = ahead
            self._append(result.final_obs, ended, first + result.final_indices)
        else:
            self._ahead[rows] = count
        if result.has_filler:
            self._ahead[rows] *= result.valid  # a filler row stays without a step
        self.steps += result.steps
        self._append(obs, count, numbers)
        if result.has_filler:
            took = np.flatnonzero(result.valid)
            self.selector.stepped(took, numbers[took])
        else:
            self.selector.stepped(self._everyone, numbers)

    def add(self, done: Transitions) -> None:
        """Store transitions of agents.

        A row is written when its observation is known, which is when the transition before it is complete. So the rows
        of agents that wait lie among others. Until its own transition is complete, it has no step.
        """
        if not len(done.rows):
            return
        first = np.flatnonzero(self._latest[done.rows] == _NONE)
        self._observe(done.rows[first], take_rows(done.obs, first))
        before = self._latest[done.rows].copy()
        slots = before % self.capacity
        self._write_steps(slots, done.actions, done.rewards, done.terminated, done.truncated, done.info)
        self._observe(done.rows, done.following)
        self._ahead[slots] = self._latest[done.rows] - before
        self.steps += len(slots)
        self.selector.stepped(done.rows, before)
        self.forget(done.rows[done.ended])

    def _observe(self, agent_rows: np.ndarray, obs: Tree) -> None:
        """Write a row without a step for each of these agents."""
        numbers = self.rows + np.arange(len(agent_rows))
        self._append(obs, len(agent_rows))
        self._latest[agent_rows] = numbers
        # An old one may be overwritten: the agent begins another when it acts.
        self._latest[self._latest < self.oldest] = _NONE

    def forget(self, agent_rows: Sequence[int] | np.ndarray) -> None:
        """Expect no step from the latest rows of these agents."""
        self.selector.forget(agent_rows)
        if not len(self._latest):
            return
        self._latest[agent_rows] = _NONE
        waiting = self._latest[self._latest != _NONE]
        self.open = self.rows - int(waiting.min()) if len(waiting) else 0

    def add_episode(self, episode: Trajectory) -> None:
        """Store a recorded episode of L steps; at most `capacity - 1` fit. Not between `begin` and `step`.

        Raises:
            ConfigError: rows hold numbers of the `info`, which recordings have not.
        """
        if self._info_columns:
            raise ConfigError(
                f"the algorithm learns from info[{self._info_columns[0]!r}] of each step, which recordings do not have",
                "algorithm",
                "Next: begin without recorded episodes.",
            )
        count = len(episode.rewards)
        rows = self.slots(self.rows, count)
        self._append(episode.obs, count + 1, self.rows - 1 + np.arange(count + 1))
        self._write_steps(rows, episode.actions, episode.rewards, False, False, {})
        last = (self.rows - 2) % self.capacity
        self._terminated[last], self._truncated[last] = episode.terminated, episode.truncated
        self._ahead[rows] = 1
        self.steps += count
        self.open = 0
        self.selector.recorded(self.rows - 1 - count + np.arange(count))

    def _write_steps(
        self,
        rows: Slots,
        actions: Tree,
        reward: np.ndarray,
        terminated: np.ndarray | bool,
        truncated: np.ndarray | bool,
        info: Tree,
    ) -> None:
        for key, column in self._actions.items():
            column[rows] = actions[key]
        for name, column in self._info.items():
            column[rows] = info[name]
        self._reward[rows], self._terminated[rows], self._truncated[rows] = reward, terminated, truncated

    def _append(self, obs: Tree, count: int, before: np.ndarray | None = None) -> None:
        """Write rows without a step; `before`: the numbers of the rows before them, [count], which may be new too."""
        rows = self.slots(self.rows, count)
        for key, column in self._obs.items():
            if key in self.frames:
                self.frames[key].append(self.rows, obs[key], before)
            else:
                column[rows] = obs[key]
        self._ahead[rows] = 0
        self.selector.cleared(self.rows, count)
        self.rows += count

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
        """Return steps that the selector draws, with replacement.

        Args:
            rng: random generator of the draw.
            batch_size: B; sequences are drawn until they have as many steps.
            gamma: discount of a decision: of a step, unless observations say what has elapsed.
            n_step: rewards summed before the bootstrap; fewer where the episode, the sequence or the data ends earlier.
            stretch: draw this many consecutive steps instead of single ones; where an episode ends earlier, the rest
                begins elsewhere. Uniform only.
            beta: exponent of the importance weights of what is drawn by priority; 1 makes up for all of their bias.
            device: the batch's device.

        Returns:
            A batch with actions in environment units, `next_obs`, and in `extra`, each [B]: `reward`, the discounted
            sum, and `discount`, the factor of the value of `next_obs`: 0 at termination, never at truncation. With
            priorities also `weight`, the importance weight, at most 1, and `slot`, for `priorities.update`; and the
            numbers of the `info` by name, summed and discounted as the rewards are. Where
            sequences are drawn, what its `sequences` remember has read the burn-in.
        """
        if self._transforms and n_step > 1:
            raise ValueError("transforms change the rewards of single steps, not their sums")
        drawn = self.selector.draw(rng, batch_size, beta, stretch)
        if drawn.sequences is not None:
            return sequence_batch(self, drawn, drawn.sequences, gamma, n_step, device)
        slots, columns = drawn.slots, self.steps_of
        if n_step == 1:
            following = columns.following(slots)
            reward, terminated = columns.reward[slots], columns.terminated[slots]
        else:
            reward, discount, following, _ = look_ahead(columns, slots, gamma, n_step)
        obs, next_obs = self.observations(slots), self.observations(following)
        if n_step == 1:
            for transform in self._transforms:
                transform.apply(self, rng, Steps(slots, obs, next_obs, reward, terminated))
            discount = columns.factor(following, gamma) * ~terminated
        if drawn.filler is not None:
            reward, discount = reward * ~drawn.filler, discount * ~drawn.filler
        told = self.told(slots, gamma, n_step, drawn.filler)
        extra = {"reward": reward, "discount": discount.astype(np.float32, copy=False), **told, **drawn.extra}
        return Batch(
            to_tensors(obs, device),
            to_tensors(self.actions(slots), device),
            to_tensors(extra, device),
            to_tensors(next_obs, device),
        )

    def told(
        self,
        slots: np.ndarray,
        gamma: float,
        n_step: int,
        filler: np.ndarray | None = None,
        left: np.ndarray | None = None,
    ) -> Tree:
        """Return the numbers of the `info` of some steps by name, [B], as `reward` is: sums over n steps."""
        told = {}
        for name, column in self._info.items():
            values = look_ahead(replace(self.steps_of, reward=column), slots, gamma, n_step, left)[0]
            told[name] = values if filler is None else values * ~filler
        return told

    def observations(self, slots: np.ndarray) -> Tree:
        """Return the observations of rows, leaves [K, …]."""
        taken = gather_rows(self._obs, slots)
        return taken if not self.frames else taken | {k: store.take(taken[k]) for k, store in self.frames.items()}

    def actions(self, slots: np.ndarray) -> Tree:
        """Return the actions of steps, leaves [K, …] in environment units."""
        return gather_rows(self._actions, slots)

    def column(self, name: str) -> np.ndarray:
        """Return a leaf of the observations of all slots, [capacity, …]; it must not be a stack of frames."""
        return self._obs[name]

    # Saving

    def restore(self, first: int, columns: Tree) -> None:
        """Write results of `read`, in order; then `begin` adds the open rows again.

        Raises:
            ValueError: a number is not in its space.
        """
        for name, below in self._limits.items():
            check_range(np.asarray(columns[name]), 0, below, f"replay data ({name})")
        super().restore(first, columns)
        numbers = np.arange(max(first, self.oldest), self.rows)
        self.selector.restored(numbers, self._ahead[numbers % self.capacity] > 0)

    def open_state(self) -> dict[str, Any]:
        """Return the state of the selector, and of agents the rows that are not final.

        Those of environments with one agent are written by `begin`.
        """
        state: dict[str, Any] = {"selector": self.selector.state()}
        if len(self._latest):
            rows = {name: Array(spec.dtype, (None, *spec.shape)) for name, spec in self.specs.items()}
            latest = Array(self._latest.dtype, self._latest.shape, _NONE, 2**53)
            state["first"] = varies(self.settled, Count())
            state["rows"] = varies(self.read(self.settled, self.open), rows)
            state["latest"] = varies(self._latest.copy(), latest)
        return state

    def check_open_state(self, state: dict[str, Any]) -> None:
        """Raise ConfigError if the result of `open_state()` is of another selector."""
        self.selector.check_state(state["selector"])

    def load_open_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `open_state()`, after the final rows."""
        if len(self._latest):
            if state["first"] != self.rows or len({len(leaf) for leaf in state["rows"].values()}) != 1:
                raise ValueError("its open rows do not follow the others")
            self.restore(self.rows, state["rows"])
            self._latest[:] = np.minimum(state["latest"], self.rows - 1)
            self.open = self.rows - state["first"]
        self.selector.load_state(state["selector"])

    def open_frames(self) -> dict[str, list[list[int]]]:
        """Return the numbers of the frames that the open rows show, by leaf."""
        rows = self.slots(self.settled, self.open)
        return {key: store.shown(rows).tolist() for key, store in self.frames.items()}

    def expect_open(self, frames: Mapping[str, list[list[int]]]) -> None:
        """Let `begin` find the open rows of a checkpoint among its frames; `frames`: the result of `open_frames()`."""
        for key, store in self.frames.items():
            store.expect_open(frames[key])
