"""Replay for policies that remember: segments of episodes, with what is remembered at their starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core.base.errors import ConfigError
from maze_core.base.free_ram import check_memory
from maze_core.base.tree import (
    TensorTree,
    copy_tree,
    gather_rows,
    put_rows,
    select_rows,
    subtree,
    take_rows,
    to_arrays,
)
from maze_core.data.batch import Batch
from maze_core.data.replay.segments import POLICY, ReplayedSequences
from maze_core.data.tensors import to_tensors
from maze_core.envs.several.actors import ELAPSED
from maze_core.envs.spaces import LeafSpec, Specs, allocate, allocated_bytes, space_specs

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.base.tree import Tree
    from maze_core.data.recordings.trajectories import Trajectory
    from maze_core.data.transitions import Transitions

Carry = Callable[[TensorTree, np.ndarray, TensorTree], TensorTree]
"""Returns what networks remember after sequences: observations [B, …], lengths [S], memory before them [S, …]."""
_NOBODY: Mapping[str, str] = MappingProxyType({})


class SegmentReplay:
    """The newest segments of N rows, and of recorded episodes.

    Steps 0 … length - 1 of an episode are its first segment, the next ones the second, and so on; its last may be
    shorter. A segment also has up to `burn_in` observations of the episode before its first step, and what was
    remembered before these (Kapturowski et al. 2019, R2D2: stored states and burn-in). It is drawn only when it is
    complete. Segment number n lies in slot n % capacity.

    Args:
        observation_space: of a single environment.
        action_space: of a single environment.
        rows: steps to keep, in segments of `length` steps.
        length: most steps of a segment.
        burn_in: most observations before them.
        initial: what is remembered where an episode begins, leaves [1, …] named `NETWORK/…`.
        carry: returns what networks remember after some rows, those of which it gets a memory.
        lanes: N, the number of environments, or of the agents in all of them.
        where: the setting that an error about the memory names.
        targets: networks that begin the burn-in with what another one remembered, by name: target networks.

    Raises:
        ConfigError: the segments do not fit into the free memory; nothing is allocated.
    """

    priorities: None = None
    """Segments are drawn uniformly."""

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        rows: int,
        length: int,
        burn_in: int,
        initial: TensorTree,
        carry: Carry,
        lanes: int,
        where: str = "",
        targets: Mapping[str, str] = _NOBODY,
    ) -> None:
        self.length, self.burn_in, self._targets = length, burn_in, targets
        self.capacity = max(1, rows // length)
        self._initial, self._carry = to_arrays(initial), carry
        self.specs = _specs(observation_space, action_space, length, burn_in, self._initial)
        check_memory(self.nbytes, rows, where)
        self._columns = allocate(self.specs, (self.capacity,))
        self._open = allocate(self.specs, (lanes,))
        """The segments that are not complete, one for each row, leaves [N, …]."""
        self.forget(range(lanes))
        self.rows = 0
        """Segments written so far, overwritten ones included; the number of the next one."""
        self.steps = 0
        """Steps added so far, those of segments that are not complete included."""

    @property
    def nbytes(self) -> int:
        """Bytes that all segments take."""
        return allocated_bytes(self.specs, (self.capacity,))

    def __len__(self) -> int:
        """Return the number of complete segments held."""
        return min(self.rows, self.capacity)

    # Writing

    def add(self, done: Transitions) -> None:
        """Add transitions; a row's segment is complete after `length` of them, and where its episode ends."""
        opened, rows = self._open, done.rows
        self._see(rows, done.obs)
        at = opened["steps"][rows]
        for key, leaf in done.actions.items():
            opened[f"action/{key}"][rows, at] = leaf
        opened["reward"][rows, at], opened["terminated"][rows] = done.rewards, done.terminated
        opened["steps"][rows] += 1
        self._see(rows, done.following)
        ended = np.zeros(len(opened["steps"]), bool)
        ended[rows[done.ended]] = True
        self._close(rows[done.ended | (opened["steps"][rows] == self.length)], ended)
        self.forget(rows[done.ended])
        self.steps += len(rows)

    def forget(self, rows: Sequence[int] | np.ndarray) -> None:
        """Begin episodes in some rows; what was not complete there is lost."""
        rows = np.asarray(rows, np.int64)
        self._open["steps"][rows] = self._open["burnt"][rows] = 0
        for key, leaf in self._initial.items():
            self._open[f"state/{key}"][rows] = leaf

    def add_episode(self, episode: Trajectory) -> None:
        """Store a recorded episode; what is remembered in it is computed with the networks as they are."""
        count, first, state = len(episode.rewards), 0, self._initial
        for start in range(0, count, self.length):
            burnt, steps = min(self.burn_in, start), min(self.length, count - start)
            if start - burnt > first:
                seen = take_rows(episode.obs, np.s_[first : start - burnt])
                first, state = start - burnt, self._carried(seen, np.array([start - burnt - first]), state)
            record = allocate(self.specs, (1,))
            for key, leaf in episode.obs.items():
                record[f"obs/{key}"][0, : burnt + steps + 1] = leaf[first : start + steps + 1]
            for key, leaf in episode.actions.items():
                record[f"action/{key}"][0, :steps] = leaf[start : start + steps]
            record["reward"][0, :steps] = episode.rewards[start : start + steps]
            record["terminated"][0] = episode.terminated and start + steps == count
            record["steps"][0], record["burnt"][0] = steps, burnt
            self._append(record | {f"state/{key}": leaf for key, leaf in state.items()})
        self.steps += count

    def memory(self, rows: np.ndarray, obs: Tree) -> TensorTree:
        """Return what networks remember before the current observations, leaves [N, …] named `NETWORK/…`.

        `rows`: those whose transition is not complete, [K]; `obs`: what they acted on, leaves [K, …].
        """
        opened = self._open
        after = self._after(opened, opened["burnt"] + opened["steps"], _remembered(opened))
        if len(rows):
            put_rows(after, rows, self._carried(obs, np.ones(len(rows), np.int64), take_rows(after, rows)))
        return to_tensors(after)

    def _see(self, rows: np.ndarray, obs: Tree) -> None:
        """Write observations, leaves [n, …], behind the last steps of some rows."""
        at = self._open["burnt"][rows] + self._open["steps"][rows]
        for key, leaf in obs.items():
            self._open[f"obs/{key}"][rows, at] = leaf

    def _close(self, lanes: np.ndarray, ended: np.ndarray) -> None:
        """Store complete segments, and begin the next ones of episodes that go on."""
        if not len(lanes):
            return
        opened = self._open
        self._append(take_rows(opened, lanes))
        lanes = lanes[~ended[lanes]]
        if not len(lanes):
            return
        known = opened["burnt"][lanes] + opened["steps"][lanes]
        kept = np.minimum(self.burn_in, known)
        records = take_rows(opened, lanes)
        after = self._after(records, known - kept, _remembered(records))
        for key, leaf in after.items():
            opened[f"state/{key}"][lanes] = leaf
        for name, column in opened.items():
            if name.startswith("obs/"):
                for lane, begin, end in zip(lanes, known - kept, known, strict=True):
                    column[lane, : end - begin + 1] = column[lane, begin : end + 1].copy()
        opened["steps"][lanes], opened["burnt"][lanes] = 0, kept

    def _append(self, records: Tree) -> None:
        count = len(records["steps"])
        slots = (self.rows + np.arange(count)) % self.capacity
        for name, column in self._columns.items():
            column[slots[-self.capacity :]] = records[name][-self.capacity :]
        self.rows += count

    def _burnt_in(self, records: Tree) -> Tree:
        """Return what all networks and their targets remember after the burn-in of S segments, leaves [S, …]."""
        state = _remembered(records)
        for target, leader in self._targets.items():
            state |= {target + key[len(leader) :]: leaf for key, leaf in state.items() if key.startswith(f"{leader}/")}
        return self._after(records, records["burnt"], state)

    def _after(self, records: Tree, counts: np.ndarray, state: Tree) -> Tree:
        """Return what is remembered after the first `counts` [S] observations of S segments, leaves [S, …].

        `state`: before them, leaves [S, …].
        """
        state = copy_tree(state)
        some = np.flatnonzero(counts)
        if len(some):
            seen = {
                key: np.concatenate([column[i, : counts[i]] for i in some])
                for key, column in subtree(records, "obs/").items()
            }
            after = self._carried(seen, counts[some].astype(np.int64), take_rows(state, some))
            put_rows(state, some, after)
        return state

    def _carried(self, obs: Tree, lengths: np.ndarray, state: Tree) -> Tree:
        after = self._carry(to_tensors(obs), lengths, to_tensors(state))
        return to_arrays(after)

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
        """Return whole segments drawn uniformly with replacement, so that all steps are equally likely.

        Args:
            rng: random generator of the draw.
            batch_size: segments are drawn until they have as many steps.
            gamma: discount of a decision: of a step, unless observations say what has elapsed.
            n_step: rewards summed before the bootstrap; fewer at the end of a segment.
            stretch: only 1: segments are stretches already.
            beta: unused: there are no priorities.
            device: the batch's device.

        Returns:
            A batch as from `ReplayBuffer.sample`, sequence by sequence, whose `sequences` are `ReplayedSequences`. The
            observations before the segments have been read: they are in what is remembered.
        """
        if stretch > 1:
            raise ValueError("segments are stretches already")
        slots = self._draw(rng, batch_size)
        records = gather_rows(self._columns, slots)
        steps, burnt = records["steps"].astype(np.int64), records["burnt"].astype(np.int64)
        memories = to_tensors(self._burnt_in(records), device)
        number, time = np.repeat(np.arange(len(slots)), steps), _counted(steps)
        everywhere = np.repeat(np.arange(len(slots)), steps + 1), np.repeat(burnt, steps + 1) + _counted(steps + 1)
        obs = to_tensors(take_rows(subtree(records, "obs/"), everywhere), device)
        reward, discount, last = _returns(records, number, time, gamma, n_step)
        place = (np.cumsum(steps + 1) - steps - 1)[number]
        here, there = to_tensors({"here": place + time, "there": place + last}, device).values()
        actions = take_rows(subtree(records, "action/"), (number, time))
        return Batch(
            select_rows(obs, here),
            to_tensors(actions, device),
            to_tensors({"reward": reward, "discount": discount}, device),
            select_rows(obs, there),
            sequences=ReplayedSequences(
                steps, subtree(memories, f"{POLICY}/"), obs=obs, memories=memories, following=there
            ),
        )

    def _draw(self, rng: np.random.Generator, batch_size: int) -> np.ndarray:
        if not len(self):
            raise ValueError("the replay buffer has no complete segment to sample")
        drawn: list[np.ndarray] = []
        missing = batch_size
        while missing > 0:
            drawn.append(rng.integers(len(self), size=-(-missing // self.length)))
            missing -= int(self._columns["steps"][drawn[-1]].sum())
        return np.concatenate(drawn)

    # Saving

    @property
    def settled(self) -> int:
        """The number of segments that are final: they can only be overwritten."""
        return self.rows

    def read(self, first: int, count: int) -> Tree:
        """Return copies of the columns of segments `first` to `first + count - 1`, by name, leaves [count, …]."""
        slots = (first + np.arange(count)) % self.capacity
        return take_rows(self._columns, slots)

    def restore(self, first: int, columns: Tree) -> None:
        """Write results of `read`, in order."""
        self.rows = first
        self._append(columns)

    def open_state(self) -> dict[str, Any]:
        """Return the segments that are not complete."""
        return {"sequence_length": self.length, "burn_in": self.burn_in, "open": copy_tree(self._open)}

    def load_open_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `open_state`.

        Raises:
            ConfigError: the segments were of other lengths.
        """
        for name, now in (("sequence_length", self.length), ("burn_in", self.burn_in)):
            if (before := state[name]) != now:
                raise ConfigError(
                    f"the replay data of this run are for {before}, which cannot change to {now}", f"algorithm.{name}"
                )
        if state["open"] is not None:
            self._open = copy_tree(state["open"])

    def priority_state(self) -> None:
        """Return None: there are no priorities."""

    def restore_priorities(self, state: None) -> None:
        """Do nothing."""


def _remembered(records: Tree) -> Tree:
    """Return what is remembered before the first observations of segments, leaves [S, …] named `NETWORK/…`."""
    return subtree(records, "state/")


def _specs(observation_space: Space[Any], action_space: Space[Any], length: int, burn_in: int, initial: Tree) -> Specs:
    """Return the storage of each column of a segment."""
    obs, actions = space_specs(observation_space, "observation"), space_specs(action_space, "action")
    seen = burn_in + length + 1
    return {
        **{f"obs/{key}": LeafSpec((seen, *spec.shape), spec.dtype) for key, spec in obs.items()},
        **{f"action/{key}": LeafSpec((length, *spec.shape), spec.dtype) for key, spec in actions.items()},
        "reward": LeafSpec((length,), np.dtype(np.float32)),
        "terminated": LeafSpec((), np.dtype(np.bool_)),
        "steps": LeafSpec((), np.dtype(np.int32)),
        "burnt": LeafSpec((), np.dtype(np.int32)),
        **{f"state/{key}": LeafSpec(leaf.shape[1:], leaf.dtype) for key, leaf in initial.items()},
    }


def _counted(lengths: np.ndarray) -> np.ndarray:
    """Return 0 … n - 1 for each length n, one after the other."""
    counted: np.ndarray = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return counted


def _returns(
    records: Tree, number: np.ndarray, time: np.ndarray, gamma: float, n_step: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the sum of at most `n_step` rewards, the discount of the bootstrap and its time, for steps of segments."""
    elapsed = records.get(f"obs/{ELAPSED}")
    steps, reward = records["steps"][number], np.zeros(len(number), np.float32)
    discount, last = np.ones(len(number), np.float32), time.copy()
    for _ in range(n_step):
        going = np.flatnonzero(last < steps)
        if not len(going):
            break
        its = number[going]
        reward[going] += discount[going] * records["reward"][its, last[going]]
        last[going] += 1
        after = 1 if elapsed is None else elapsed[its, records["burnt"][its] + last[going]]
        discount[going] *= gamma**after
    return reward, discount * ~(records["terminated"][number] & (last == steps)), last
