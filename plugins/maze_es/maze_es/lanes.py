"""The environments of a population: two for each antithetic pair, whose episodes begin with the same seed."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from maze_core.envs.checks import check_finite, first_bad_row, non_finite
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.native import NativeVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.errors import RunError

if TYPE_CHECKING:
    import gymnasium

    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import Tree
    from maze_core.training.seeding import EpisodeSeeds


class Lanes(Protocol):
    """Environments of `width` pairs: lane i is that of pair i's first member, lane width + i that of its second."""

    width: int
    obs: Tree
    """The current observation of each lane, leaves [2 * width, …]."""

    def start(self, seeds: EpisodeSeeds, pairs: int) -> None:
        """Begin an episode in both lanes of the first `pairs` pairs, that of pair i with the seed `seeds(i, 0)`."""

    def step(self, lanes: np.ndarray, actions: Tree) -> tuple[np.ndarray, np.ndarray]:
        """Step R lanes (ascending) with actions, leaves [R, …]. Rewards [R] float64; whether episodes ended [R] bool.

        Raises:
            RunError: an environment raised, or gave a number that is not finite.
        """

    def close(self) -> None:
        """Release the environments; safe to call twice."""


def make_lanes(builder: EnvBuilder, width: int) -> Lanes:
    """Native lanes where the source is natively vectorised, single environments otherwise."""
    first = builder.vector_env(width)
    if first is None:
        return SingleLanes(builder, width)
    second = builder.vector_env(width)
    if second is None:
        raise RunError("the env source was natively vectorised once, but not twice")
    return NativeLanes(NativeVectorEnv(first), NativeVectorEnv(second))


class SingleLanes:
    """One environment for each lane, stepped in turn; where the episode is over, nothing is stepped."""

    def __init__(self, builder: EnvBuilder, width: int) -> None:
        self.width = width
        self._envs: list[gymnasium.Env[Any, Any]] = []
        try:
            # Both of a pair have the same index: choices made at construction are the same as well.
            self._envs.extend(builder(lane % width) for lane in range(2 * width))
        except BaseException:
            self.close()
            raise
        self._observations = ObservationCodec(self._envs[0].observation_space)
        self._actions = ActionCodec(self._envs[0].action_space)
        self._write = self._observations.write
        self.obs = allocate(self._observations.specs, (2 * width,))

    def start(self, seeds: EpisodeSeeds, pairs: int) -> None:
        """Begin an episode in both lanes of the first `pairs` pairs."""
        for lane in (*range(pairs), *range(self.width, self.width + pairs)):
            try:
                observation, _ = self._envs[lane].reset(seed=seeds(lane % self.width, 0))
            except Exception as error:
                raise RunError(f"{_place(lane)} raised {type(error).__name__} at its reset: {error}") from error
            self._observations.check(observation)
            self._write(self.obs, lane, observation)
        self._check()

    def step(self, lanes: np.ndarray, actions: Tree) -> tuple[np.ndarray, np.ndarray]:
        """Step some lanes."""
        rewards: list[float] = []
        ended: list[bool] = []
        lane = 0
        try:
            for lane, action in zip(lanes.tolist(), self._actions.rows(actions), strict=True):
                observation, reward, terminated, truncated, _ = self._envs[lane].step(action)
                self._write(self.obs, lane, observation)
                rewards.append(float(reward))
                ended.append(bool(terminated or truncated))
        except Exception as error:
            raise RunError(f"{_place(lane)} raised {type(error).__name__}: {error}") from error
        if not isfinite(sum(rewards)):
            bad = first_bad_row(np.array(rewards))
            raise non_finite("reward", _place(lanes[bad]), rewards[bad])
        self._check()
        return np.array(rewards), np.array(ended)

    def close(self) -> None:
        """Close the environments."""
        envs, self._envs = self._envs, []
        for env in envs:
            env.close()

    def _check(self) -> None:
        bad = check_finite(self.obs, self._observations.float_keys)
        if bad:
            key, lane = bad
            raise non_finite(f"value of observation '{key}'", _place(lane), self.obs[key][lane])


def _place(lane: int) -> str:
    return f"environment {lane} of the population"


class NativeLanes:
    """Two natively vectorised environments side by side, one for the first members and one for the second.

    Such an environment takes a single seed for all its rows. With the same one, row i of both begins alike, which is
    what a pair needs; only first episodes are played, for a row that begins another one draws its start by itself.
    Rows whose episode is over are stepped on and ignored: they cost next to nothing.
    """

    def __init__(self, first: NativeVectorEnv, second: NativeVectorEnv) -> None:
        self._sides = (first, second)
        self.width = first.num_envs
        self.obs = allocate(space_specs(first.observation_space, "observation"), (2 * self.width,))
        self._obs_of_side = [{key: leaf[part] for key, leaf in self.obs.items()} for part in self._parts()]
        self._actions = allocate(space_specs(first.action_space, "action"), (2 * self.width,))

    def _parts(self) -> tuple[slice, slice]:
        return slice(0, self.width), slice(self.width, 2 * self.width)

    def start(self, seeds: EpisodeSeeds, pairs: int) -> None:
        """Begin an episode in all lanes."""
        for side, obs in zip(self._sides, self._obs_of_side, strict=True):
            side.reset(seeds, obs)

    def step(self, lanes: np.ndarray, actions: Tree) -> tuple[np.ndarray, np.ndarray]:
        """Step some lanes, and with them every lane of their side."""
        for key, leaf in self._actions.items():
            leaf[lanes] = actions[key]
        rewards, ended = np.zeros(2 * self.width), np.zeros(2 * self.width, np.bool_)
        in_first = int(np.searchsorted(lanes, self.width))
        wanted = (in_first > 0, in_first < len(lanes))
        for side, obs, part, needed in zip(self._sides, self._obs_of_side, self._parts(), wanted, strict=True):
            if needed:
                result = side.step({key: leaf[part] for key, leaf in self._actions.items()}, obs)
                rewards[part], ended[part] = result.reward, result.terminated | result.truncated
        return rewards[lanes], ended[lanes]

    def close(self) -> None:
        """Close both."""
        for side in self._sides:
            side.close()
