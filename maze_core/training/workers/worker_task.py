"""What a worker does that collects rollouts: it steps a share of the environments with a copy of the policy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from maze_core.acting.network import NetworkAgent, SharedNoise
from maze_core.acting.rollouts import Sampler
from maze_core.acting.worker_agent import WorkerAgent
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.worker_envs import WorkerEnvs
from maze_core.models.policy import acting_arrays
from maze_core.runners.workers import Task
from maze_core.seeding import EpisodeSeeds, Purpose
from maze_core.tree import copy_tree, take_rows, to_arrays, to_tensors

if TYPE_CHECKING:
    from maze_core.acting.agent import Agent
    from maze_core.data.rollout import Rollout
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.serial import SerialVectorEnv
    from maze_core.envs.worker import Share
    from maze_core.envs.wrapper_carry import Memory
    from maze_core.models.policy import Policy
    from maze_core.runners.workers import Shared
    from maze_core.tree import Tree

NOISE = "#noise"
"""Where the state of the noise is among the shared parameters."""


class CollectJob(NamedTuple):  # pickled in half the time that a dataclass takes
    """What to do with a share of the environments."""

    share: int
    number: int
    """The rollouts collected before. At 0 the first episodes begin."""
    seconds: float = 0.0
    """The time after which a worker answers even if its rollout is not complete."""
    state: dict[str, Any] | None = None
    """Where to stand before that rollout; None: go on."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The answer to a job with a state: where the n environments stand."""

    episode: np.ndarray
    length: np.ndarray
    obs: Tree
    """Leaves [n, …]"""
    memory: list[Memory]
    warnings: list[tuple[str, type[Warning]]]


class WorkerRollout(NamedTuple):
    """A rollout of n environments."""

    rollout: Rollout
    """Rows are counted within the share."""
    actions: Tree
    """Leaves [T, n, …]: actions in environment units, where those in the rollout are not."""
    memory: list[Memory]
    """What each environment's wrappers remembered when its current episode began."""
    remembered: Tree
    """What the policy remembers afterwards, leaves [n, …]."""
    noise: np.ndarray | None
    """The state of the noise afterwards, the same in all workers: only the first share tells it."""


Answer = WorkerRollout | Restored | int | None
"""Of a rollout that is not complete: the number of steps so far. None: this worker does not hold the share."""


class CollectTask(Task):
    """The task. A worker can take over any share; the driver knows where the environments stand.

    Args:
        policy: on the CPU; parameters are loaded into it.
        builder: builds the environments.
        seed: the run's seed.
        shares: of each worker.
        n_steps: T, steps of one rollout.
        threads: torch's threads, on which the last digits of large products may depend.
    """

    def __init__(
        self, policy: Policy, builder: EnvBuilder, seed: int, shares: list[Share], n_steps: int, threads: int
    ) -> None:
        self._policy, self._builder, self._seed = policy, builder, seed
        self._shares, self._n_steps, self._threads = shares, n_steps, threads

    def setup(self, worker: int) -> None:
        """Build the environments of the worker's own share."""
        torch.set_num_threads(self._threads)
        self._held: dict[int, _Held] = {}
        self._envs = WorkerEnvs(self._builder, self._shares)
        self._envs.of(worker)
        self._parameters = acting_arrays(self._policy)
        self._noise = torch.Generator()

    def run(self, job: CollectJob, shared: Shared) -> Answer:
        """Collect a rollout, or a part of it, with the newest parameters."""
        if job.state is not None:
            return self._restore(job, job.state)
        held = self._held.get(job.share)
        if job.number == 0 and (held is None or held.number):
            held = self._held[job.share] = self._hold(job.share)
        if held is None or held.number != job.number:
            return None
        if not held.under_way:
            for name, leaf in self._parameters.items():
                leaf[...] = shared.arrays[name]
            held.begin(shared.arrays[NOISE])
        return held.collect(job.seconds)

    def close(self) -> None:
        """Close the environments."""
        if hasattr(self, "_envs"):
            self._envs.close()

    def _hold(self, share: int) -> _Held:
        seeds = EpisodeSeeds(self._seed, Purpose.TRAIN_EPISODES)
        return _Held(self._policy, self._envs.of(share), self._shares[share], self._n_steps, seeds, self._noise)

    def _restore(self, job: CollectJob, state: dict[str, Any]) -> Restored:
        held = self._held[job.share] = self._hold(job.share)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            held.restore(job.number, state)
        env = held.env
        now = env.state()
        said = [(str(each.message), each.category) for each in caught]
        return Restored(now["episode"], now["length"], now["observation"], list(env.episode_memory), said)


class _Held:
    """A share that this worker steps."""

    def __init__(
        self,
        policy: Policy,
        env: SerialVectorEnv,
        share: Share,
        n_steps: int,
        seeds: EpisodeSeeds,
        noise: torch.Generator,
    ) -> None:
        self.env, self._share = env, share
        self.number = 0
        """The rollouts collected before the next one."""
        self.under_way = False
        """True within a rollout."""
        self._steps = 0
        self._noise = noise
        self._sampler = Sampler(
            policy, env, n_steps, seeds, noise, self._count, wrapped=self._choosing, rows=share.total
        )

    def _choosing(self, network: Agent) -> Agent:
        """Return an agent that acts for the share alone."""
        if not isinstance(network, NetworkAgent):
            raise TypeError(f"a network acts in a worker, not {type(network).__name__}")
        self._memory = network.memory
        self._agent = WorkerAgent(network, self._share)
        return self._agent

    def _count(self) -> None:
        self._steps += 1

    def restore(self, number: int, state: dict[str, Any]) -> None:
        """Stand where the state says."""
        self.number, self.under_way = number, False
        if self._memory is not None and state["remembered"]:
            whole = self._memory.current(self._share.total)
            own = torch.arange(self._share.first, self._share.first + self._share.count)
            leaves = to_tensors(copy_tree(state["remembered"]))
            self._memory.replace({key: whole[key].index_copy(0, own, leaf) for key, leaf in leaves.items()})
        self._sampler.restore(state)

    def begin(self, noise: np.ndarray) -> None:
        """Begin the next rollout."""
        self._noise.set_state(torch.from_numpy(noise.copy()))
        self._sampler.begin()
        self._noise_after = self._noise.get_state().numpy()
        self.under_way, self._steps = True, 0

    def collect(self, seconds: float) -> WorkerRollout | int:
        """Go on with the rollout for so many seconds; return it, or the number of its steps so far."""
        if not self._sampler.advance(seconds):
            return self._steps
        rollout = self._sampler.finish()
        self.under_way = False
        self.number += 1
        noise = None if self._share.first else self._noise_after
        return WorkerRollout(rollout, self._taken(rollout), list(self.env.episode_memory), self._remembered(), noise)

    def _taken(self, rollout: Rollout) -> Tree:
        """Return the leaves of the actions in environment units that differ from those of the rollout at some step."""
        taken = self._agent.taken
        keys = sorted({key for step in taken for key in step})
        return {key: np.stack([step.get(key, rollout.actions[key][t]) for t, step in enumerate(taken)]) for key in keys}

    def _remembered(self) -> Tree:
        if self._memory is None:
            return {}
        own = slice(self._share.first, self._share.first + self._share.count)
        return to_arrays(take_rows(self._memory.current(self._share.total), own))


def draws_itself(policy: Policy) -> bool:
    """Return True where a policy draws random numbers of torch's own while it acts: workers cannot repeat those."""
    obs = allocate(space_specs(policy.observation_space, "observation"), (1,))
    agent = NetworkAgent(policy, SharedNoise(1, torch.Generator()))
    before = torch.get_rng_state()
    agent.act(obs)
    return not torch.equal(before, torch.get_rng_state())
