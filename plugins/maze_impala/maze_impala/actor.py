"""An actor: steps its own environments with the newest parameters, one rollout at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from maze_onpolicy import JobSampler, Sampler, all_rows, load_arrays
from maze_onpolicy.data.discounts import carried_rows

from maze_core import Count, EpisodeSeeds, NetworkAgent, Purpose, distribution_of, take_rows, to_tensors, vector_env
from maze_core.base.saved_state import OrNone
from maze_core.base.seeding import EpisodePlan, Values, integer_seed
from maze_core.base.tree import flat_rows
from maze_core.envs.parameters import PARAMETERS
from maze_core.envs.vector import instruct

if TYPE_CHECKING:
    from maze_core import EnvBuilder, Policy, Rollout, Shared, VectorEnv


Job = tuple[int, Sequence[Values] | None]
"""The number of a rollout, which determines the noise of the actions, and the parameters of the episodes that begin."""
LOG_PROB = "log_prob"
"""Where a rollout has the log-probabilities of its actions."""


class Actor:
    """The task of IMPALA's workers.

    Args:
        policy: the acting policy, on the CPU; parameters are loaded into it. Actors in one process may share it.
        builder: builds the environments.
        seed: the run's seed.
        num_envs: N, environments stepped together.
        n_steps: T, steps in one rollout.
        total: the number of environments of all actors.
    """

    def __init__(self, policy: Policy, builder: EnvBuilder, seed: int, num_envs: int, n_steps: int, total: int) -> None:
        self._policy, self._builder = policy, builder
        self._seed, self._num_envs, self._n_steps, self._total = seed, num_envs, n_steps, total

    job_form = (Count(), OrNone(PARAMETERS))

    def setup(self, worker: int) -> None:
        """Build the environments."""
        self._env: VectorEnv = vector_env(self._builder, self._num_envs, worker * self._num_envs)
        self._noise = torch.Generator()
        self._version = 0
        self._rollouts = JobSampler(self._sampler)

    def run(self, job: Job, shared: Shared) -> Rollout:
        """Collect one rollout with the newest parameters.

        `extra` holds as `log_prob` the log-probabilities of the actions under the policy that chose them, [T, N].
        """
        if shared.version != self._version:
            load_arrays(self._policy, shared.arrays)
            self._version = shared.version
        number, plan = job
        if plan is not None:
            instruct(self._env, EpisodePlan(tuple(plan), self._total))
        self._noise.manual_seed(integer_seed(self._seed, Purpose.ACTOR, number))
        rollout = self._rollouts.collect(number)
        rollout.extra[LOG_PROB] = self._log_prob(rollout)
        rollout.version = self._version
        return rollout

    def state(self) -> dict[str, Any]:
        """Return the state of the environments."""
        return self._rollouts.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; unfinished episodes are replayed."""
        self._rollouts.load_state(state)

    def close(self) -> None:
        """Close the environments."""
        env = self.__dict__.pop("_env", None)
        if env is not None:
            env.close()

    def _sampler(self, job: int) -> Sampler:
        """Return what collects from the first job on."""
        seeds = EpisodeSeeds(self._seed, Purpose.TRAIN_EPISODES, (job,))
        network = NetworkAgent.sampling(self._policy, self._env.num_envs, self._noise)
        return Sampler(network, self._env, self._n_steps, seeds)

    def _log_prob(self, rollout: Rollout) -> np.ndarray:
        obs = to_tensors(flat_rows(take_rows(rollout.obs, np.s_[:-1])))
        actions = to_tensors(flat_rows(rollout.actions))
        sequences = all_rows(self._policy, rollout) if rollout.memory else None
        with torch.no_grad():  # as the learner computes what it compares them with
            log_prob = distribution_of(self._policy, obs, sequences).log_prob(actions)
        acted: np.ndarray = log_prob.numpy().reshape(rollout.rewards.shape)
        carried = carried_rows(rollout)
        return acted if carried is None else np.where(np.isnan(carried), acted, carried)
