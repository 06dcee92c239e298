"""Recorded steps in a replay buffer: what algorithms that learn from recordings draw."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from maze_offpolicy import TRIED, FrameStack, ReplayBuffer, find_stacks

from maze_core import ConfigError, Purpose, generator, take_rows, varies
from maze_core.base.saved_state import Anything
from maze_core.base.seeding import load_random_state, random_state
from maze_core.base.tree import to_device
from maze_core.envs.spaces import space_specs
from maze_recordings.demonstrations import in_units_of
from maze_recordings.loader import load_trajectories
from maze_recordings.obeyed_masks import check_masks, row_chunks, row_tensors
from maze_recordings.progress import progress_bar

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Batch, Run, RunConfig
    from maze_recordings.trajectories import Trajectories


def check_without_steps(config: RunConfig) -> None:
    """Raise ConfigError for a run counted in environment steps."""
    if config.steps is not None:
        raise ConfigError(
            f"{config.algorithm.name} learns from recorded data and takes no environment steps",
            "steps",
            "Next: --epochs",
        )


def load_recorded(run: Run, dataset: str, workers: int = 1, *, rewards: bool = True) -> Trajectories:
    """Return the episodes that a run learns from; the statistics of its policy's normaliser are computed from them.

    Args:
        run: provides policy, spaces and device.
        dataset: the folder that `algorithm.dataset` names.
        workers: number of reading threads.
        rewards: whether they are learnt from. False: they need not be in the units of the run.

    Raises:
        TrajectoryError: the data is missing, damaged, of other spaces, or has an action that its mask forbids.
        ConfigError: the run normalises rewards, and those were not recorded.
    """
    with progress_bar(f"loading {dataset}", shown="console" in run.config.callbacks) as report:
        data = load_trajectories(Path(dataset), workers, report)
    data.check_fits(run.observation_space, run.action_space, f"algorithm.dataset: {dataset}")
    check_masks(data, dataset)
    if rewards:
        data = in_units_of(run, data, "algorithm.dataset")
    if run.policy.normalizer is not None and run.init_from is None:
        for chosen in row_chunks(data.steps):
            obs = row_tensors(data.obs, data.observation_rows(chosen))
            run.policy.normalizer.update(to_device(obs, run.device))
    return data


class RecordedOrder:
    """The random generator with which a data set is drawn. Its state knows the data: other data is refused."""

    def __init__(self, run: Run, data: Trajectories) -> None:
        self._run, self._fingerprint = run, _fingerprint(data)
        self.rng = generator(run.seed, Purpose.REPLAY)

    def state(self) -> dict[str, Any]:
        """Return the state of the draw, and what the data was."""
        return {"order": random_state(self.rng), "data_set": varies(self._fingerprint, Anything())}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`.

        Raises:
            ConfigError: the data set is not the one with which the run began.
        """
        if state["data_set"] != self._fingerprint:
            algorithm: Any = self._run.config.algorithm
            raise ConfigError(
                f"{algorithm.dataset} no longer contains the episodes that this run started with",
                "algorithm.dataset",
                f"To learn from other data, start a new run: maze train {algorithm.name} --init-from RUN",
            )
        load_random_state(self.rng, state["order"])


class RecordedSteps:
    """The steps of a data set, drawn with replacement. They are copied into memory.

    Arguments as for `load_recorded`.

    Raises:
        TrajectoryError: as for `load_recorded`.
        ConfigError: likewise; or the data does not fit into memory.
    """

    def __init__(self, run: Run, dataset: str, workers: int = 1, *, rewards: bool = True) -> None:
        data = load_recorded(run, dataset, workers, rewards=rewards)
        rows = data.steps + len(data)
        stacks = _frame_stacks(data, run.observation_space)
        spaces, told = (run.observation_space, run.action_space), run.algorithm.info_columns
        self._buffer = ReplayBuffer(*spaces, rows, "algorithm.dataset", stacks=stacks, info_columns=told)
        for episode in data:
            self._buffer.add_episode(episode)
        self.returns = np.add.reduceat(data.rewards, data.starts[:-1], dtype=np.float64)
        """The sum of each episode's rewards, as the run's wrappers make them of the recorded ones, [E]."""
        self._device, self._order = run.device, RecordedOrder(run, data)

    def __len__(self) -> int:
        return self._buffer.steps

    def sample(self, batch_size: int, gamma: float) -> Batch:
        """Return a batch as `ReplayBuffer.sample` does, on the run's device."""
        return self._buffer.sample(self._order.rng, batch_size, gamma, device=self._device)

    def state(self) -> dict[str, Any]:
        """Return the state of the draw, and what the data was."""
        return self._order.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`; errors as for `RecordedOrder`."""
        self._order.load_state(state)


def _frame_stacks(data: Trajectories, space: Space[Any]) -> dict[str, FrameStack]:
    """Return the leaves that are stacks of frames, judged by the first episode."""
    first = data[0]
    count = min(TRIED, len(first) + 1)
    seen = [take_rows(first.obs, i) for i in range(count)]
    return find_stacks(space_specs(space, "observation"), seen)


def _fingerprint(data: Trajectories) -> str:
    """Return a digest of the episodes' lengths and checksums: equal for equal data sets.

    Flags count too: they decide what a step bootstraps from.
    """
    digest = hashlib.sha256()
    for episode in data.episodes:
        flags = episode.terminated, episode.truncated
        digest.update(repr((episode.length, *flags, sorted(episode.crc32.items()))).encode())
    return digest.hexdigest()
