"""An actor of Ape-X: steps its own environments with the newest parameters, and explores as much as its place says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from maze_offpolicy import EpsilonGreedy
from maze_onpolicy import JobSampler, Sampler, acting_arrays

from maze_core import Count, EpisodeSeeds, NetworkAgent, Purpose, generator, vector_env
from maze_core.base.saved_state import Number, OrNone
from maze_core.base.seeding import EpisodePlan
from maze_core.envs.parameters import PARAMETERS
from maze_core.envs.vector import instruct
from maze_dqn.exploration import EXPLORATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core import EnvBuilder, Rollout, Shared, VectorEnv
    from maze_core.base.seeding import Values
    from maze_dqn.config import ApexConfig
    from maze_dqn.network import ValueNetwork


class Played(NamedTuple):
    """What an actor delivers."""

    rollout: Rollout
    first: bool
    """True for the first rollout of an actor, or of one that was replaced: its episodes continue no others."""


class ReplayActor:
    """The task of Ape-X's workers.

    A job is the number of a rollout, the share of random actions, and the parameters of the episodes that begin.

    Args:
        policy: the network, on the CPU; parameters are loaded into it. Actors in one process may share it.
        builder: builds the environments.
        seed: the run's seed.
        config: how many environments there are, how many steps a rollout has, and who explores how much.
    """

    def __init__(self, policy: ValueNetwork, builder: EnvBuilder, seed: int, config: ApexConfig) -> None:
        self._policy, self._builder = policy, builder
        self._seed, self._config = seed, config

    job_form = (Count(), Number(0.0), OrNone(PARAMETERS))

    def setup(self, worker: int) -> None:
        """Build the environments."""
        count = self._config.envs_per_actor
        self._own = np.s_[worker * count : (worker + 1) * count]
        self._env: VectorEnv = vector_env(self._builder, count, worker * count)
        self._version = 0
        self._epsilon = 1.0
        self._rollouts = JobSampler(self._sampler)

    def run(self, job: tuple[int, float, Sequence[Values] | None], shared: Shared) -> Played:
        """Collect one rollout with the newest parameters."""
        number, self._epsilon, plan = job
        if plan is not None:
            instruct(self._env, EpisodePlan(tuple(plan), self._config.num_actors * self._config.envs_per_actor))
        if shared.version != self._version:
            for name, leaf in acting_arrays(self._policy).items():
                leaf[...] = shared.arrays[name]
            self._version = shared.version
        first = not self._rollouts.started
        return Played(self._rollouts.collect(number), first)

    def state(self) -> dict[str, Any]:
        """Return the state of the environments and of exploration."""
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
        config, env, seed = self._config, self._env, self._seed
        rngs = [generator(seed, Purpose.POLICY_NOISE, EXPLORATION, job, row) for row in range(env.num_envs)]
        exploration = EpsilonGreedy(
            env.observation_space, env.action_space, rngs, lambda: config.epsilons(self._epsilon)[self._own]
        )
        network = NetworkAgent.exploring(self._policy, env.num_envs, exploration)
        seeds = EpisodeSeeds(seed, Purpose.TRAIN_EPISODES, (job,))
        return Sampler(network, env, config.n_rollout_steps, seeds, complete=True)
