"""Maze's recorded trajectories as data for RLlib's offline algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.offline.offline_data import OfflineData
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch

from maze_core import take_rows, to_tensors

if TYPE_CHECKING:
    from maze_recordings.trajectories import Trajectories

    from maze_core import Policy, Tree
    from maze_rllib.own_model import PlainView

_MODULE = "default_policy"
_CHUNK = 4096


class RecordedData(OfflineData):  # type: ignore[misc]
    """Draws random episodes, and adds to each batch what RLlib's learner computes for it, such as advantages.

    `config.input_config` holds `data` (recorded trajectories), `policy` and `seed`.
    """

    def __init__(self, config: Any) -> None:
        # RLlib's constructor would read files with ray.data.
        self.config = config
        source = config.input_config
        self._data: Trajectories = source["data"]
        self._view: PlainView | None = getattr(source["policy"], "view", None)
        self._samples: Any = None if self._view else as_samples(source["policy"], self._data)
        self._random = np.random.default_rng(source["seed"])
        self.iter_batches_kwargs: dict[str, Any] = {}

    def sample(self, num_samples: int, return_iterator: bool = False, num_shards: int = 1, **kwargs: Any) -> Any:
        """Return a batch of `num_samples` rows; for CQL, which asks for rows and takes an iterator, this object."""
        if self.config.algo_class.__name__ == "CQL":
            return [self]
        return MultiAgentBatch({_MODULE: self._rows(num_samples)}, env_steps=num_samples)

    def iter_torch_batches(self, batch_size: int, **kwargs: Any) -> Iterator[dict[str, SampleBatch]]:
        """Yield batches without end, as an iterator of ray.data over the recordings would."""
        while True:
            yield {_MODULE: self._rows(batch_size)}

    def _rows(self, count: int) -> SampleBatch:
        episodes: list[SingleAgentEpisode] = []
        while sum(map(len, episodes)) < count:
            episodes.append(self._episode(int(self._random.integers(len(self._data)))))
        learner = self.learner_handles[0]
        batch = learner._learner_connector(
            rl_module=learner.module, batch={}, episodes=episodes, shared_data={}, metrics=None
        )
        return SampleBatch(batch[_MODULE]).slice(0, count)

    def _episode(self, number: int) -> SingleAgentEpisode:
        recorded, start = self._data[number], int(self._data.starts[number])
        if self._view is None:
            obs: Any = recorded.obs
            actions: Any = {key: leaf[start : start + len(recorded)] for key, leaf in self._samples.items()}
        else:
            obs, actions = self._view.seen(recorded.obs), self._view.given(recorded.actions)
        return SingleAgentEpisode(
            observations=[_row(obs, t) for t in range(len(recorded) + 1)],
            actions=[_row(actions, t) for t in range(len(recorded))],
            rewards=recorded.rewards.tolist(),
            terminated=recorded.terminated,
            truncated=not recorded.terminated,
            len_lookback_buffer=0,
        ).to_numpy()


def _row(values: Any, t: int) -> Any:
    return take_rows(values, t) if isinstance(values, dict) else values[t]


def as_samples(policy: Policy, data: Trajectories) -> Tree:
    """Return the recorded actions as samples of the policy's distributions, leaves [sum of L, …]."""
    chunks: list[dict[str, Any]] = []
    device = next(policy.parameters()).device
    with torch.no_grad():
        for first in range(0, data.steps, _CHUNK):
            rows = np.arange(first, min(first + _CHUNK, data.steps))
            seen = data.observation_rows(rows)
            obs = to_tensors(take_rows(data.obs, seen), device)
            actions = to_tensors(take_rows(data.actions, rows), device)
            chunks.append(policy.distribution(obs).from_env_action(actions))
    return {key: torch.cat([chunk[key] for chunk in chunks]).cpu().numpy() for key in chunks[0]}
