"""The workers' task: evaluate antithetic pairs, given the number of the first pair and their count."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from maze_core.models.masks import check_masks, mask_keys
from maze_core.seeding import EpisodeSeeds, Purpose, integer_seed
from maze_es.lanes import Lanes, make_lanes
from maze_es.moments import Moments
from maze_es.noise import Noise
from maze_es.population import Population, make_population
from maze_es.search_space import SearchSpace

if TYPE_CHECKING:
    from maze_core.data.batch import TensorTree
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import Tree
    from maze_core.models.policy import Policy
    from maze_core.runners.workers import Arrays, Shared

PARAMETERS = "parameters"
"""Name of the searched vector among the shared arrays; the other arrays are the policy's buffers."""

_CROWDED = 0.75
"""Members whose episode has ended leave the batch once at most this share of the batch is still playing."""

_SAMPLE = 4
"""Number of pairs whose first observations are used to compare the ways to act in batches."""


@dataclass(frozen=True, slots=True)
class PairJob:
    """Pairs `first` … `first + count - 1`."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class PairResults:
    """The results of a job's pairs, row i for pair `first + i`; column 0 for theta + noise, 1 for theta - noise."""

    returns: np.ndarray
    """[n, 2] float64"""
    lengths: np.ndarray
    """[n, 2] int64"""
    moments: Arrays
    """Count, mean and squared deviations of the observations; empty without a normaliser."""


class Portable:
    """A policy that can be sent to any number of processes."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __getstate__(self) -> bytes:
        # As plain bytes: tensors pickled by multiprocessing can be received by one process only.
        return pickle.dumps(self.policy)

    def __setstate__(self, state: bytes) -> None:
        self.policy = pickle.loads(state)  # noqa: S301 — from the driver process


@dataclass
class EvaluatePairs:
    """The task of ES's workers. A result depends on the job and the shared arrays only, not on the worker."""

    builder: EnvBuilder
    searched: Portable
    seed: int
    noise_stddev: float
    pairs_per_job: int
    max_steps: int
    deterministic: bool

    def setup(self, worker: int) -> None:
        """Build the environments and the population."""
        self.policy = self.searched.policy
        self._space = SearchSpace(self.policy, deterministic=self.deterministic)
        self._device = next(self.policy.parameters()).device
        self._noise = Noise(noise_seed(self.seed), self._space.size)
        self._lanes: Lanes = make_lanes(self.builder, self.pairs_per_job)
        self._lanes.start(EpisodeSeeds(self.seed, Purpose.TRAIN_EPISODES), min(_SAMPLE, self.pairs_per_job))
        sample = self._tensors({key: leaf[: 2 * _SAMPLE] for key, leaf in self._lanes.obs.items()})
        self._population: Population = make_population(self.policy, self._space, sample)
        self._masked = bool(mask_keys(self.policy.observation_space, self.policy.action_space))
        self._version = 0

    def run(self, job: PairJob, shared: Shared) -> PairResults:
        """Evaluate the pairs of a job."""
        self._load_parameters(shared)
        moments = Moments(self._population.policy.normalizer)
        with torch.inference_mode():
            returns, lengths = self._play(job, moments)
        by_pair = (job.count, 2)
        return PairResults(returns.reshape(by_pair), lengths.reshape(by_pair), moments.arrays())

    def _load_parameters(self, shared: Shared) -> None:
        if shared.version == self._version:
            return
        self._version = shared.version
        self._theta = torch.tensor(shared.arrays[PARAMETERS], device=self._device)
        buffers = dict(self._population.policy.named_buffers())
        with torch.no_grad():
            for name, array in shared.arrays.items():
                if name != PARAMETERS:
                    buffers[name].copy_(torch.tensor(array))

    def _play(self, job: PairJob, moments: Moments) -> tuple[np.ndarray, np.ndarray]:
        """Play one episode of each member, in the lane of its number. Return the returns and lengths [2 * count]."""
        lanes, members = self._lanes, self._members(job)
        returns, lengths = np.zeros(2 * job.count), np.zeros(2 * job.count, np.int64)
        seeds = EpisodeSeeds(self.seed, Purpose.TRAIN_EPISODES, stride=self.pairs_per_job, first=job.first)
        lanes.start(seeds, job.count)
        self._population.load(members)
        batch = playing = np.arange(2 * job.count)
        generator = torch.Generator().manual_seed(integer_seed(self.seed, Purpose.POLICY_NOISE, job.first))
        while len(playing):
            if len(playing) <= _CROWDED * len(batch):
                batch = playing
                self._population.load(members[torch.from_numpy(batch)])
            obs = {key: leaf[batch] for key, leaf in lanes.obs.items()}
            rows = np.searchsorted(batch, playing)
            self._look({key: leaf[rows] for key, leaf in obs.items()}, moments)
            actions = self._act(obs, self._draw(generator, job.count, batch))
            rewards, ended = lanes.step(playing, {key: leaf[rows] for key, leaf in actions.items()})
            returns[playing] += rewards
            lengths[playing] += 1
            if self.max_steps:
                ended = ended | (lengths[playing] >= self.max_steps)
            playing = playing[~ended]
        return returns, lengths

    def _members(self, job: PairJob) -> Tensor:
        """Return the members' parameters, [2 * count, d]: theta + noise and theta - noise of each pair."""
        directions = torch.from_numpy(self._noise.rows(range(job.first, job.first + job.count))).to(self._device)
        directions *= self.noise_stddev
        return torch.stack([self._theta + directions, self._theta - directions], 1).flatten(0, 1)

    def _draw(self, generator: torch.Generator, pairs: int, batch: np.ndarray) -> TensorTree | None:
        """Return noise for the actions of one step, the same for both members of a pair."""
        if self.deterministic:
            return None
        drawn = self.policy.draw_noise((pairs,), generator)
        rows = torch.from_numpy(batch // 2)
        return {key: leaf[rows].to(self._device) for key, leaf in drawn.items()}

    def _act(self, obs: Tree, noise: TensorTree | None) -> Tree:
        return {key: leaf.cpu().numpy() for key, leaf in self._population.act(self._tensors(obs), noise).items()}

    def _look(self, obs: Tree, moments: Moments) -> None:
        """Add the current observations to the moments, and refuse masks that forbid every choice."""
        moments.add(obs)
        if self._masked:
            check_masks(self.policy.observation_space, self.policy.action_space, self._tensors(obs))

    def _tensors(self, obs: Tree) -> TensorTree:
        return {key: torch.from_numpy(leaf).to(self._device) for key, leaf in obs.items()}

    def state(self) -> dict[str, Any]:
        """Return an empty state: a result depends on the job and the shared arrays only."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Do nothing: the state is empty."""

    def close(self) -> None:
        """Close the environments."""
        if hasattr(self, "_lanes"):
            self._lanes.close()


def noise_seed(seed: int) -> int:
    """Return the seed of a run's search directions."""
    return integer_seed(seed, Purpose.PERTURBATION)
