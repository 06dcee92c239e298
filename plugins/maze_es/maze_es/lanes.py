"""The environments of a population: two for each antithetic pair, with the same seed for both episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from maze_core.envs.checks import all_finite, check_finite, first_bad_row, non_finite
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.native import NativeVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.wrapper_memory import lasting_layers
from maze_core.errors import ConfigError, RunError

if TYPE_CHECKING:
    import gymnasium

    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import Tree
    from maze_core.seeding import EpisodeSeeds


class Lanes(Protocol):
    """Environments stepped together: lanes 2i and 2i + 1 belong to pair i."""

    obs: Tree
    """The current observation of each lane, leaves [lanes, …]."""

    def start(self, seeds: EpisodeSeeds, pairs: int) -> None:
        """Begin an episode in both lanes of the first `pairs` pairs; pair i has the seed `seeds(i, 0)`."""

    def step(self, lanes: np.ndarray, actions: Tree) -> tuple[np.ndarray, np.ndarray]:
        """Step R lanes with actions, leaves [R, …]. Return rewards [R] float64 and ended episodes [R] bool.

        Raises:
            RunError: an environment raised, or returned a number that is not finite.
        """

    def close(self) -> None:
        """Release the environments; safe to call twice."""


def make_lanes(builder: EnvBuilder, width: int) -> Lanes:
    """Return lanes for at most `width` pairs: native where the source is natively vectorised, else single ones."""
    first = builder.vector_env(width)
    if first is None:
        return SingleLanes(builder)
    second = builder.vector_env(width)
    if second is None:
        raise RunError("the env source returned a natively vectorised environment at one call and none at another")
    return NativeLanes(NativeVectorEnv(first), NativeVectorEnv(second))


class SingleLanes:
    """An environment for each lane, stepped in turn; lanes whose episode has ended are not stepped."""

    def __init__(self, builder: EnvBuilder) -> None:
        self._builder = builder
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._grow(1)
        self._observations = ObservationCodec(self._envs[0].observation_space)
        self._actions = ActionCodec(self._envs[0].action_space)
        self.obs: Tree = {}

    def _grow(self, pairs: int) -> None:
        for lane in range(len(self._envs), 2 * pairs):
            # Both lanes of a pair have the same index, so that random choices at construction are equal.
            self._envs.append(self._builder(lane // 2))
            lasting = lasting_layers(self._envs[-1])
            if lasting:
                raise ConfigError(
                    f"{type(lasting[0]).__name__} keeps state from earlier episodes, but es compares single episodes",
                    "wrappers",
                    "Remove this wrapper; es uses only the ranks of returns, so their scale does not matter.",
                )

    def start(self, seeds: EpisodeSeeds, pairs: int) -> None:
        """Begin an episode in both lanes of the first `pairs` pairs; build missing environments."""
        self._grow(pairs)
        self.obs = allocate(self._observations.specs, (2 * pairs,))
        for lane in range(2 * pairs):
            try:
                observation, _ = self._envs[lane].reset(seed=seeds(lane // 2, 0))
            except Exception as error:
                raise RunError(f"{_place(lane)} raised {type(error).__name__} in reset: {error}") from error
            self._observations.check(observation)
            self._observations.write(self.obs, lane, observation)
        self._check()

    def step(self, lanes: np.ndarray, actions: Tree) -> tuple[np.ndarray, np.ndarray]:
        """Step some lanes."""
        write, obs = self._observations.write, self.obs
        given: list[float] = []
        ended: list[bool] = []
        lane = 0
        try:
            for lane, action in zip(lanes.tolist(), self._actions.rows(actions), strict=True):
                observation, reward, terminated, truncated, _ = self._envs[lane].step(action)
                write(obs, lane, observation)
                given.append(float(reward))
                ended.append(bool(terminated or truncated))
        except Exception as error:
            raise RunError(f"{_place(lane)} raised {type(error).__name__}: {error}") from error
        rewards = np.array(given)
        if not all_finite(rewards):
            bad = first_bad_row(rewards)
            raise non_finite("reward", _place(lanes[bad]), rewards[bad])
        self._check()
        return rewards, np.array(ended)

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
    """Two natively vectorised environments, one for the first members of the pairs, one for the second.

    Such an environment has one seed for all its rows. With equal seeds, row i of both begins with the same state, as a
    pair needs. Only first episodes are played: the start of a row's next episode cannot be seeded. Rows whose episode
    has ended are still stepped, and ignored: they cost next to nothing.
    """

    def __init__(self, first: NativeVectorEnv, second: NativeVectorEnv) -> None:
        self._sides = (first, second)
        self._lanes = 2 * first.num_envs
        self.obs = allocate(space_specs(first.observation_space, "observation"), (self._lanes,))
        self._obs_of = [{key: leaf[side::2] for key, leaf in self.obs.items()} for side in (0, 1)]
        self._actions = allocate(space_specs(first.action_space, "action"), (self._lanes,))
        self._actions_of = [{key: leaf[side::2] for key, leaf in self._actions.items()} for side in (0, 1)]

    def start(self, seeds: EpisodeSeeds, pairs: int) -> None:
        """Begin an episode in all lanes."""
        for side, env in enumerate(self._sides):
            env.reset(seeds, self._obs_of[side])

    def step(self, lanes: np.ndarray, actions: Tree) -> tuple[np.ndarray, np.ndarray]:
        """Step all lanes of the environments concerned; return the results of `lanes`."""
        for key, leaf in self._actions.items():
            leaf[lanes] = actions[key]
        rewards, ended = np.zeros(self._lanes), np.zeros(self._lanes, np.bool_)
        for side in (0, 1):
            if not (lanes % 2 == side).any():
                continue
            result = self._sides[side].step(self._actions_of[side], self._obs_of[side])
            rewards[side::2], ended[side::2] = result.reward, result.terminated | result.truncated
        return rewards[lanes], ended[lanes]

    def close(self) -> None:
        """Close both."""
        for env in self._sides:
            env.close()
