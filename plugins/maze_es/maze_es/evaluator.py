"""The workers' task: evaluate antithetic pairs, given the number of the first pair and their count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from maze_core import EpisodeSeeds, Purpose, Task, take_rows, to_tensors, torch_generator
from maze_core.base.seeding import integer_seed
from maze_core.collect.stepper import Stepper
from maze_core.envs.spaces import allocate, space_specs
from maze_es.moments import Moments
from maze_es.noise import Noise
from maze_es.pair_envs import pair_envs
from maze_es.population import Population, make_population
from maze_es.population_agent import PopulationAgent
from maze_es.search_space import SearchSpace

if TYPE_CHECKING:
    from maze_core import EnvBuilder, Policy, Shared, TensorTree, Tree
    from maze_core.base.seeding import Values
    from maze_core.collect.agents.agent import Choice
    from maze_core.collect.pools.workers import Arrays
    from maze_core.envs.vector import StepResult

PARAMETERS = "parameters"
"""Name of what members are computed from among the shared arrays; the other arrays are the policy's buffers."""

_SAMPLE = 4
"""Number of pairs whose first observations are used to compare the ways to act in batches."""


@dataclass(frozen=True, slots=True)
class PairJob:
    """Pairs `first` … `first + count - 1`."""

    first: int
    count: int
    parameters: tuple[Values, ...] = ()
    """Those of the environment in the episodes of each pair; empty: environments stay as they are."""


@dataclass(frozen=True, slots=True)
class PairResults:
    """The results of a job's pairs, row i for pair `first + i`; a column for each member."""

    returns: np.ndarray
    """[n, 2] float64"""
    lengths: np.ndarray
    """[n, 2] int64"""
    moments: Arrays
    """Count, mean and squared deviations of the observations; empty without a normaliser."""


class Members(Protocol):
    """Says what the parameters of a population's members are."""

    def of(self, searched: Tensor, job: PairJob) -> Tensor:
        """Return the parameters of both members of each of a job's pairs, [2 * count, d].

        `searched`: what was shared.
        """


@dataclass(frozen=True, slots=True)
class Perturbed:
    """The members of ES: theta + noise and theta - noise for each pair."""

    seed: int
    """The seed of the run."""
    stddev: float

    def of(self, searched: Tensor, job: PairJob) -> Tensor:
        """Return the members; `searched`: theta, [d]."""
        noise = Noise(noise_seed(self.seed), len(searched))
        directions = torch.from_numpy(noise.rows(range(job.first, job.first + job.count))).to(searched.device)
        directions *= self.stddev
        return torch.stack([searched + directions, searched - directions], 1).flatten(0, 1)


@dataclass
class EvaluatePairs(Task):
    """The task of ES's workers. A result depends on the job and the shared arrays only, not on the worker."""

    builder: EnvBuilder
    policy: Policy
    seed: int
    members: Members
    pairs_per_job: int
    max_steps: int
    deterministic: bool

    def setup(self, worker: int) -> None:
        """Build the environments and the population."""
        policy = self.policy
        self._space = SearchSpace(policy, deterministic=self.deterministic)
        self._device = next(policy.parameters()).device
        self._envs = pair_envs(self.builder, self.pairs_per_job, self.max_steps)
        self._obs = allocate(space_specs(self._envs.observation_space, "observation"), (self._envs.num_envs,))
        self._population: Population = make_population(policy, self._space, self._sample())
        self._version = 0

    def _sample(self) -> TensorTree:
        """Return the first observations of some rows."""
        self._envs.pairs = min(_SAMPLE, self.pairs_per_job)
        self._envs.reset(EpisodeSeeds(self.seed, Purpose.TRAIN_EPISODES), self._obs)
        rows = slice(2 * self._envs.pairs)
        return to_tensors(take_rows(self._obs, rows), self._device)

    def run(self, job: PairJob, shared: Shared) -> PairResults:
        """Play one episode of each member of a job's pairs."""
        self._load_parameters(shared)
        moments, scores = Moments(self._population.policy.normalizer), _Scores(self._envs.num_envs)
        noise = None if self.deterministic else torch_generator(self.seed, Purpose.POLICY_NOISE, job.first)
        seeds = EpisodeSeeds(self.seed, Purpose.TRAIN_EPISODES, stride=self.pairs_per_job, first=job.first)
        stepper = Stepper(self._envs, seeds)
        self._envs.pairs, self._envs.parameters = job.count, job.parameters
        with torch.inference_mode():
            agent = PopulationAgent(self._population, self.members.of(self._searched, job), self._envs, noise, moments)
            stepper.reset(self._obs)
            while len(self._envs.rows):
                stepper.step(agent, scores)
        by_pair = (job.count, 2)
        returns, lengths = (score[: 2 * job.count].reshape(by_pair) for score in (scores.returns, scores.lengths))
        return PairResults(returns, lengths, moments.arrays())

    def _load_parameters(self, shared: Shared) -> None:
        """Copy newer parameters and buffers."""
        if shared.version == self._version:
            return
        self._version = shared.version
        self._searched = torch.tensor(shared.arrays[PARAMETERS], device=self._device)
        buffers = dict(self._population.policy.named_buffers())
        with torch.no_grad():
            for name, array in shared.arrays.items():
                if name != PARAMETERS:
                    buffers[name].copy_(torch.tensor(array))

    def close(self) -> None:
        """Close the environments."""
        if hasattr(self, "_envs"):
            self._envs.close()


class _Scores:
    """A sink that sums up the rewards and counts the steps of each row's episode."""

    def __init__(self, rows: int) -> None:
        self.returns, self.lengths = np.zeros(rows), np.zeros(rows, np.int64)

    def next_buffer(self, obs: Tree) -> Tree:
        """Return the same arrays: nobody needs the earlier observations."""
        return obs

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Count a step; rows that rest have no reward."""
        self.returns += result.reward
        self.lengths += result.valid


def noise_seed(seed: int) -> int:
    """Return the seed of a run's search directions."""
    return integer_seed(seed, Purpose.PERTURBATION)
