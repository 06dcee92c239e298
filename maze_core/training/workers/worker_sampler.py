"""The driver's side of rollouts that workers collect, each for its share of the environments."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core.acting.memory import RowMemory
from maze_core.acting.rollouts import critic_memory_after
from maze_core.data.rollout import Rollout
from maze_core.envs.episode_log import EpisodeLog
from maze_core.envs.serial import check_state, share_of_state
from maze_core.errors import RunError
from maze_core.models.memory import remembers
from maze_core.models.policy import acting_arrays
from maze_core.training.workers.worker_task import NOISE, CollectJob, Restored, WorkerRollout
from maze_core.tree import map_tree, take_rows, to_tensors

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode
    from maze_core.envs.worker import Share
    from maze_core.models.policy import Policy
    from maze_core.runners.workers import WorkerPool
    from maze_core.tree import Tree

_PATIENCE = 10.0
"""Resetting and replaying may take this many times the time limit of a job."""
_SLICE = 10.0
"""Seconds after which a worker tells that it is alive; at most this share of a job's time limit."""


class WorkerSampler:
    """Collects the rollouts of N environments from workers; the same as `Sampler` does in this process.

    Parameters and the state of the noise go out once for each rollout, for all workers. A worker that was lost is
    replaced by one that replays the unfinished episodes and collects the rollout again.

    Args:
        policy: the policy of which the workers have copies, on the CPU.
        pool: workers with the task `CollectTask`, one for each share.
        shares: of each worker.
        noise: the workers draw the sampling noise from its state.
        on_steps: called within long rollouts, with the number of steps of environments since the last call.
    """

    def __init__(
        self,
        policy: Policy,
        pool: WorkerPool,
        shares: Sequence[Share],
        noise: torch.Generator,
        on_steps: Callable[[int], None] = lambda steps: None,
    ) -> None:
        self._policy, self._pool, self._shares = policy, pool, shares
        self._on_steps = on_steps
        self._rows = [slice(share.first, share.first + share.count) for share in shares]
        self._num_envs = shares[0].total
        self._noise = noise
        self._memory = RowMemory(policy) if remembers(policy) else None
        self._episode_log = EpisodeLog(policy.observation_space, policy.action_space, self._num_envs)
        self._collected = 0
        """Rollouts so far; at least 1 after a restart."""
        self._begun: list[int] = []
        """The rows whose episode began with the last step."""
        self._slice = min(_SLICE, pool.job_timeout / 10)
        self._rollout: Rollout | None = None

    @property
    def rollout(self) -> Rollout:
        """The last rollout."""
        if self._rollout is None:
            raise RuntimeError("no rollout has been collected")
        return self._rollout

    def collect(self) -> Rollout:
        """Let every environment take the steps of a rollout; the returned arrays are overwritten by the next call."""
        remembered = {} if self._memory is None else self._announced(self._memory)
        self._pool.share({**acting_arrays(self._policy), NOISE: self._noise.get_state().numpy()})
        parts = self._gather()
        if parts[0].noise is not None:
            self._noise.set_state(torch.from_numpy(parts[0].noise))
        self._rollout = rollout = _joined(parts, self._rows, self._rollout)
        rollout.memory = remembered
        self._record(parts, rollout)
        if self._memory is not None:
            after = {key: np.concatenate([part.remembered[key] for part in parts]) for key in parts[0].remembered}
            self._memory.replace(to_tensors(after))
            self._memory.replace(critic_memory_after(self._policy, rollout))
        return rollout

    def state(self) -> dict[str, Any]:
        """Return everything that decides the next rollout except the policy, as `Sampler.state` does."""
        remembered = {} if self._memory is None else {"memory": self._memory.state()}
        env = self._episode_log.state() if self._collected else None
        return {"noise": self._noise.get_state(), **remembered, "env": env, "begun": list(self._begun)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; the workers replay unfinished episodes."""
        self._noise.set_state(state["noise"])
        if self._memory is not None:
            self._memory.load_state(state["memory"])
        if state["env"] is None:
            return
        check_state(state["env"], self._num_envs)
        self._collected += 1
        self._begun = list(state.get("begun", []))
        before = np.asarray(state["env"]["episode"])
        self._episode_log.load(state["env"])
        jobs = {self._restore(number, state["env"]): number for number in range(len(self._shares))}
        for share, answer in self._answers(jobs):
            self._place(share, answer)
        anew = np.flatnonzero(self._episode_log.state()["episode"] != before).tolist()
        self._begun = sorted({*self._begun, *anew})

    # Asking

    def _gather(self) -> list[WorkerRollout]:
        """Return the rollouts of all shares, in order."""
        questions = [self._question(share) for share in range(len(self._shares))]
        numbers = self._pool.submit_each(questions, self._patience)
        jobs = dict(zip(numbers, range(len(numbers)), strict=True))
        parts: dict[int, WorkerRollout] = {}
        steps = [0] * len(self._shares)
        for share, answer in self._answers(jobs):
            if isinstance(answer, WorkerRollout):
                parts[share] = answer
                continue
            if answer is None:
                jobs[self._restore(share, self._episode_log.state())] = share
                continue
            if isinstance(answer, Restored):
                _repeat(answer.warnings)
            else:
                self._on_steps((answer - steps[share]) * self._shares[share].count)
                steps[share] = answer
            jobs[self._pool.submit(self._question(share), share, self._patience)] = share
        self._collected += 1
        return [parts[share] for share in range(len(self._shares))]

    def _answers(self, jobs: dict[int, int]) -> Iterator[tuple[int, Any]]:
        """Yield the share and the answer of each job, until there are no jobs; jobs may be added meanwhile."""
        while jobs:
            result = self._pool.collect()
            if result is None:
                raise RunError("the workers lost a job")
            share = jobs.pop(result.job, None)
            if share is not None:  # else Ctrl-C interrupted an earlier call
                yield share, result.value

    @property
    def _patience(self) -> float:
        return 1.0 if self._collected else _PATIENCE

    def _question(self, share: int) -> CollectJob:
        return CollectJob(share, self._collected, self._slice)

    def _restore(self, share: int, env: dict[str, Any]) -> int:
        """Let the share's worker replay its unfinished episodes."""
        rows = self._rows[share]
        begun = [row - rows.start for row in self._begun if rows.start <= row < rows.stop]
        memory = {} if self._memory is None else self._memory.snapshot(self._num_envs)
        remembered = take_rows(memory, rows)
        state = {"env": share_of_state(env, rows), "begun": begun, "remembered": remembered}
        return self._pool.submit(CollectJob(share, self._collected, state=state), share, _PATIENCE)

    # Recording

    def _announced(self, memory: RowMemory) -> Tree:
        """Forget the episodes that ended; return what the policy remembers before the next step."""
        if self._begun:
            memory.begin(self._begun)
        return memory.snapshot(self._num_envs)

    def _place(self, share: int, answer: Restored) -> None:
        _repeat(answer.warnings)
        self._episode_log.place(self._rows[share], answer.episode, answer.length, answer.obs, answer.memory)

    def _record(self, parts: list[WorkerRollout], rollout: Rollout) -> None:
        """Take the rollout into the ledger, and put its episodes in order."""
        ended = rollout.terminated | rollout.truncated
        its: dict[int, list[Episode]] = {}
        for part in reversed(parts):
            for episode in reversed(part.rollout.episodes):
                its.setdefault(episode.env_index, []).append(episode)
        rollout.episodes = [its[row].pop() for row in np.nonzero(ended)[1].tolist()]
        actions = {
            key: np.concatenate([part.actions.get(key, part.rollout.actions[key]) for part in parts], 1)
            for key in {key for part in parts for key in part.actions}
        }
        self._episode_log.add({**rollout.actions, **actions}, rollout.rewards, ended)
        self._episode_log.see(slice(None), take_rows(rollout.obs, -1))
        self._episode_log.memory = [each for part in parts for each in part.memory]
        self._begun = np.flatnonzero(ended[-1]).tolist()


_FLAGS = ("rewards", "terminated", "truncated", "valid")


def _joined(parts: list[WorkerRollout], rows: list[slice], past: Rollout | None) -> Rollout:
    """Return the rollouts of all shares as one, in the arrays of the past one where there is one."""
    pieces = [part.rollout for part in parts]
    joined = past or _allocated(pieces[0], rows[-1].stop)
    for own, piece in zip(rows, pieces, strict=True):
        for target, tree in ((joined.obs, piece.obs), (joined.actions, piece.actions)):
            for key, leaf in tree.items():
                target[key][:, own] = leaf
        for name in _FLAGS:
            getattr(joined, name)[:, own] = getattr(piece, name)
    joined.truncations = _cuts(pieces, rows)
    return joined


def _allocated(piece: Rollout, rows: int) -> Rollout:
    """Return a rollout like one of some environments, with this number of rows."""

    def wide(leaf: np.ndarray) -> np.ndarray:
        return np.zeros((len(leaf), rows, *leaf.shape[2:]), leaf.dtype)

    return Rollout(
        obs=map_tree(wide, piece.obs),
        actions=map_tree(wide, piece.actions),
        rewards=wide(piece.rewards),
        terminated=wide(piece.terminated),
        truncated=wide(piece.truncated),
        valid=wide(piece.valid),
    )


def _cuts(pieces: list[Rollout], rows: list[slice]) -> list[tuple[int, np.ndarray, Tree]]:
    """Return the truncations of all shares, one entry for each step, as one process would record them."""
    by_step: dict[int, list[tuple[np.ndarray, Tree]]] = {}
    for own, piece in zip(rows, pieces, strict=True):
        for t, envs, final in piece.truncations:
            by_step.setdefault(t, []).append((envs + own.start, final))
    cuts = []
    for t, several in sorted(by_step.items()):
        final = {key: np.concatenate([tree[key] for _, tree in several]) for key in several[0][1]}
        cuts.append((t, np.concatenate([envs for envs, _ in several]), final))
    return cuts


def _repeat(said: list[tuple[str, type[Warning]]]) -> None:
    """Repeat warnings of a worker."""
    for message, category in said:
        warnings.warn(message, category, stacklevel=4)
