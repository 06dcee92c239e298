"""The sink of rollouts for environments with several agents, which act at different times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from maze_core import Sequences, distribution_of, map_tree, take_rows, to_tensors
from maze_core.base.tree import put_rows
from maze_core.envs.masks import MaskCheck
from maze_onpolicy.collect.assembler import Assembler
from maze_onpolicy.collect.rollout_sink import empty_rollout

if TYPE_CHECKING:
    from maze_core import Policy, TensorTree, Tree, VectorEnv
    from maze_core.collect.agents.agent import Choice
    from maze_core.collect.agents.row_memory import RowMemory
    from maze_core.envs.vector import StepResult
    from maze_onpolicy.data.transitions import Transitions


class AgentRowSink:
    """Writes the complete transitions of N agents into the arrays of one rollout, those of each agent without gaps.

    They are rows 0 … n_i - 1 of column i, where `Rollout.valid` is True. Row n_i has the observation that follows them;
    the rows behind it repeat it. What is still open at the end becomes a row of a later rollout.

    Args:
        env: the environments.
        samples: the arrays for what is sampled, leaves [T, N, …], as `allocate_samples` returns them.
        on_step: called after each step of the environments.
        memory: what the policy remembers of the agents; None: nothing.
    """

    def __init__(
        self,
        env: VectorEnv,
        samples: Tree,
        on_step: Callable[[], None] = lambda: None,
        memory: RowMemory | None = None,
    ) -> None:
        self._on_step = on_step
        self._masks = MaskCheck(env.observation_space, env.action_space)
        self.steps = 0
        """Steps taken of this rollout."""
        self.rollout = empty_rollout(env, samples, valid=False)
        # Two in turn: what the last actions were chosen from, and what the next are chosen from.
        self._now, self._spare = (map_tree(lambda leaf: np.zeros_like(leaf[0]), self.rollout.obs) for _ in range(2))
        self._count = np.zeros(env.num_envs, np.int64)
        """n_i, the number of complete transitions of each agent."""
        self._assembler = Assembler(env.num_envs, memory)

    @property
    def current(self) -> Tree:
        """The arrays of the current observations, leaves [N, …]."""
        return self._now

    def carry(self) -> Tree:
        """Begin the next rollout; return the current observations."""
        rollout = self.rollout
        for leaf in (rollout.rewards, rollout.terminated, rollout.truncated, rollout.valid):
            leaf.fill(0)
        rollout.clear()
        self.steps = 0
        self._count[:] = 0
        # Open actions become row 0 of the next rollout, and were chosen before the policy learnt from this one.
        rollout.carried = np.where(self._assembler.open, self._assembler.log_prob, np.float32(np.nan))
        return self._now

    def before(self, state: Tree) -> Tree:
        """Return the memory before row 0 of each agent, from that before the current observations, leaves [N, …]."""
        opened = self._assembler.open
        for key, leaf in state.items():
            leaf[opened] = self._assembler.before[key][opened]
        return state

    def next_buffer(self, obs: Tree) -> Tree:
        """Return the arrays that the current observations are not in."""
        return self._spare

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Take one step of every agent, and write the transitions that it completes."""
        self._now, self._spare = following, obs
        self._write(self._assembler.add(obs, choice.samples, result, following))
        self.rollout.episodes += result.episodes
        self.steps += 1
        self._on_step()

    def _write(self, done: Transitions) -> None:
        rollout, rows = self.rollout, done.rows
        at = self._count[rows]  # the next free row of each agent
        put_rows(rollout.obs, (at, rows), done.obs)
        put_rows(rollout.actions, (at, rows), done.actions)
        rollout.rewards[at, rows], rollout.valid[at, rows] = done.rewards, True
        rollout.terminated[at, rows], rollout.truncated[at, rows] = done.terminated, done.truncated
        for name, values in done.info.items():
            rollout.extra.setdefault(name, np.zeros_like(rollout.rewards))[at, rows] = values
        for t in np.unique(at[done.truncated]):
            cut = np.flatnonzero(done.truncated & (at == t))
            rollout.truncations.append((int(t), rows[cut], take_rows(done.following, cut)))
        self._count[rows] += 1

    def check_masks(self, steps: int) -> None:
        """Refuse masks that left no choice in the rows that were acted on, or leave none now."""
        obs, valid = self.rollout.obs, self.rollout.valid
        acted_on = {key: np.concatenate([obs[key][:-1][valid], self._now[key]]) for key in self._masks.leaves}
        self._masks.check(acted_on)

    def finish(self) -> None:
        """End the rollout: complete the rows behind the transitions."""
        rollout, steps, opened = self.rollout, len(self.rollout.rewards), self._assembler.open
        obs, actions = self._assembler.obs, self._assembler.actions
        # The value of row n_i continues the last transition; the rows behind it only have to be readable.
        for i, count in enumerate(self._count.tolist()):
            for key, leaf in rollout.obs.items():
                leaf[count:, i] = obs[key][i] if opened[i] else self._now[key][i]
            for key, leaf in rollout.actions.items():
                leaf[count:, i] = actions[key][i] if opened[i] else leaf[min(count, steps - 1), i]
            if not opened[i]:  # no action was chosen for this mask
                for key in self._masks.leaves:
                    rollout.obs[key][count:, i] = 1
        self._cut_short()

    def keep_open(self, policy: Policy, critic_memory: TensorTree) -> None:
        """Keep what the open transitions need of the policy as it is, before it learns from this rollout.

        `critic_memory`: what the critic alone remembers now, leaves [N, …].
        """
        self._assembler.replace(critic_memory)
        self._assembler.keep_log_probs(partial(_log_probs, policy))

    def state(self) -> dict[str, Any]:
        """Return the open transitions."""
        return self._assembler.state(self._now, take_rows(self.rollout.actions, 0))

    def load_state(self, state: dict[str, Any], begun: Sequence[int]) -> None:
        """Restore the result of `state()`; in the rows that have `begun` other episodes nothing is open any more."""
        self._assembler.load_state(state)
        self._assembler.forget(begun)

    def _cut_short(self) -> None:
        """Keep the observations that follow the last transitions of agents with fewer than T."""
        rollout, counts = self.rollout, self._count
        for n in np.unique(counts[(counts > 0) & (counts < len(rollout.rewards))]):
            those = np.flatnonzero((counts == n) & ~(rollout.terminated[n - 1] | rollout.truncated[n - 1]))
            if len(those):
                following = take_rows(rollout.obs, np.s_[n, those])
                rollout.truncations.append((int(n) - 1, those, following))


def _log_probs(policy: Policy, obs: Tree, actions: Tree, memory: Tree) -> np.ndarray:
    """Return the log-probabilities [K] of actions, with the parameters of the moment; all leaves [K, …]."""
    device = next(policy.parameters()).device
    seen, taken, before = (to_tensors(tree, device) for tree in (obs, actions, memory))
    sequences = Sequences(np.ones(len(next(iter(obs.values()))), np.int64), before) if before else None
    with torch.no_grad():
        log_prob: np.ndarray = distribution_of(policy, seen, sequences).log_prob(taken).numpy(force=True)
    return log_prob
