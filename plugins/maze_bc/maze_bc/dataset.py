"""The recorded steps as training rows: split by episodes, shuffled, in minibatches."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core import Batch, Sequences, distribution_of, map_tree, take_rows, to_tensors
from maze_core.models.memory import separate_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from maze_recordings.trajectories import Trajectories

    from maze_core import Policy, TensorTree, Tree

CHUNK = 1024
"""Rows of one forward pass without gradients."""


class Rows:
    """Some of the recorded steps: observations, and actions as samples of the policy's distribution.

    Observations stay in the data set's arrays, possibly on disk, in storage dtype.
    """

    def __init__(self, data: Trajectories, samples: TensorTree, episodes: np.ndarray) -> None:
        spans = [np.arange(data.starts[episode], data.starts[episode + 1]) for episode in episodes]
        self._rows = np.concatenate(spans) if spans else np.zeros(0, np.int64)
        self.lengths = np.array([len(span) for span in spans], np.int64)
        """Rows of each episode, which lie one after the other."""
        self._obs = to_tensors(data.obs)
        self._obs_rows = data.observation_rows(self._rows)
        self._samples = samples

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, positions: np.ndarray, device: torch.device) -> Batch:
        """Return the rows at some positions, [B]."""
        obs_rows, rows = torch.from_numpy(self._obs_rows[positions]), torch.from_numpy(self._rows[positions])
        batch = Batch(
            take_rows(self._obs, obs_rows),
            take_rows(self._samples, rows),
        )
        return batch.map(lambda leaf: leaf.to(device))

    def chunks(self, device: torch.device) -> Iterator[Batch]:
        """Yield all rows in order, in chunks that bound memory."""
        for start in range(0, len(self), CHUNK):
            yield self.batch(np.arange(start, min(start + CHUNK, len(self))), device)


class Segments:
    """The same steps for a policy that remembers: segments of episodes, each of which begins with nothing remembered.

    Args:
        rows: the steps.
        policy: remembers.
        length: most steps of a segment; None: whole episodes.
    """

    def __init__(self, rows: Rows, policy: Policy, length: int | None) -> None:
        self._all, self._policy = rows, policy
        starts = np.cumsum(rows.lengths) - rows.lengths
        spans = [
            (start + first, min(length or count, count - first))
            for start, count in zip(starts.tolist(), rows.lengths.tolist(), strict=True)
            for first in range(0, count, length or max(count, 1))
        ]
        self._starts, self._lengths = np.array(spans, np.int64).reshape(-1, 2).T

    def __len__(self) -> int:
        return len(self._starts)

    def count_in(self, rows: int) -> int:
        """Return how many segments have about so many rows."""
        return max(1, round(rows * len(self) / max(len(self._all), 1)))

    def batch(self, numbers: np.ndarray, device: torch.device) -> Batch:
        """Return the rows of some segments, and their sequences."""
        lengths = self._lengths[numbers]
        within = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
        batch = self._all.batch(np.repeat(self._starts[numbers], lengths) + within, device)
        batch.sequences = Sequences(lengths, self._policy.initial_state(len(numbers)))
        return batch

    def chunks(self, device: torch.device) -> Iterator[Batch]:
        """Yield all segments in order, in chunks that bound memory."""
        size = self.count_in(CHUNK)
        for start in range(0, len(self), size):
            yield self.batch(np.arange(start, min(start + size, len(self))), device)


def split(episodes: int, percentage: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the training and of the validation episodes, each sorted.

    With a percentage above 0 and at least two episodes, both sets have at least one.
    """
    order = rng.permutation(episodes)
    held_out = min(max(round(episodes * percentage / 100), 1), episodes - 1) if percentage else 0
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def as_samples(policy: Policy, data: Trajectories, device: torch.device) -> TensorTree:
    """Return the recorded actions as samples of the policy's distribution, leaves [sum of L, …], on the CPU."""
    parts = []
    for start in range(0, data.steps, CHUNK):
        rows = np.arange(start, min(start + CHUNK, data.steps))
        obs_rows = data.observation_rows(rows)
        with torch.no_grad():
            obs = _tensors(data.obs, obs_rows, device)
            distribution = distribution_of(policy, obs, separate_rows(policy, len(rows)))
            samples = distribution.from_env_action(_tensors(data.actions, rows, device))
        parts.append(map_tree(lambda leaf: leaf.cpu(), samples))
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


def fingerprint(data: Trajectories) -> str:
    """Return a digest of the episodes' lengths and checksums: equal for equal data sets."""
    digest = hashlib.sha256()
    for episode in data.episodes:
        digest.update(repr((episode.length, sorted(episode.crc32.items()))).encode())
    return digest.hexdigest()


def _tensors(tree: Tree, rows: np.ndarray, device: torch.device) -> TensorTree:
    return to_tensors(take_rows(tree, rows), device)
