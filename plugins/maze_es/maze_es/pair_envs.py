"""The environments of a population: two for each antithetic pair, with the same seed for both episodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import ConfigError, MazeError, RunError, take_rows
from maze_core.envs.checks import (
    MisfitError,
    all_finite,
    failure,
    first_bad_row,
    is_number,
    is_set,
    naming,
    non_finite,
    not_a_number,
)
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.interfaces import native
from maze_core.envs.parameters import EpisodeParameters, of_parameters
from maze_core.envs.vector import StepResult, begins_episodes
from maze_core.envs.wrappers import lasting_layers, name_of, remembering, says_so
from maze_core.plugins.closing import release
from maze_core.plugins.other_interfaces import check_reset

if TYPE_CHECKING:
    import gymnasium

    from maze_core import EnvBuilder, EpisodeSeeds, Tree, VectorEnv
    from maze_core.base.seeding import Values
    from maze_core.envs.wrappers import Memory


class PairEnvs(ABC):
    """Environments for at most `width` pairs, stepped together: rows 2i and 2i + 1 belong to pair i.

    After a reset the rows of the first `pairs` pairs play one episode each. Then a row rests: `valid` is False, and its
    reward 0.

    Args:
        observation_space: of a single environment.
        action_space: of a single environment.
        width: most pairs.
        max_steps: steps after which an episode is cut; 0: never.
    """

    def __init__(
        self, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], width: int, max_steps: int
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.num_envs, self.pairs = 2 * width, width
        self.parameters: Sequence[Values] = ()
        """Those of the environment in the next episodes of each pair; empty: environments stay as they are."""
        self._max_steps = max_steps
        self.play(np.zeros(self.num_envs, np.bool_))
        self._lengths = np.zeros(self.num_envs, np.int64)

    def reset(self, seeds: EpisodeSeeds, out: Tree) -> None:
        """Begin an episode in both rows of the first `pairs` pairs; pair i has the seed `seeds(i, 0)`."""
        self.play(np.arange(self.num_envs) < 2 * self.pairs)
        self._lengths[:] = 0
        self._begin(seeds, out)

    def play(self, playing: np.ndarray) -> None:
        """Set the rows whose episode has not ended, [2 width]."""
        self.playing, self.rows = playing, np.flatnonzero(playing)

    def step(self, actions: Tree, out: Tree) -> StepResult:
        """Step the rows that play; write their next observations into `out`, leaves [2 width, …].

        Raises:
            RunError: an environment raised, or returned a number that is not finite.
        """
        playing, rows = self.playing, self.rows
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        # Rows that rest are not marked as filler: agent and sink know them, and no other row begins an episode.
        result = StepResult(np.zeros(self.num_envs), terminated, truncated, playing, final_indices=rows[:0])
        self._play(rows, actions, out, result)
        self._lengths += playing
        if self._max_steps:
            truncated |= playing & ~terminated & (self._lengths >= self._max_steps)
        ended = terminated | truncated
        result.final_indices = np.flatnonzero(ended)
        if len(result.final_indices):
            self.play(playing & ~ended)
        return result

    @abstractmethod
    def _begin(self, seeds: EpisodeSeeds, out: Tree) -> None:
        """Reset the rows of the first `pairs` pairs."""

    @abstractmethod
    def _play(self, rows: np.ndarray, actions: Tree, out: Tree, result: StepResult) -> None:
        """Step some rows; write their next observations into `out`, and rewards and flags into `result`."""

    @abstractmethod
    def close(self) -> None:
        """Release the environments; safe to call twice."""

    # A population is evaluated from the start after every interruption.

    def state(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}

    def restore(self, seeds: EpisodeSeeds, state: dict[str, Any], out: Tree) -> None:
        """Begin anew."""
        self.reset(seeds, out)

    def memory(self) -> list[Memory]:
        """Return an empty list: wrappers that remember more than an episode are refused."""
        return []

    def load_memory(self, memory: list[Memory]) -> None:  # noqa: B027 — there is none
        """Do nothing."""


def pair_envs(builder: EnvBuilder, width: int, max_steps: int) -> PairEnvs:
    """Return environments for at most `width` pairs: native where the source is natively vectorised, else single."""
    first = builder.vector_env(width)
    if first is None:
        return SinglePairEnvs(builder, width, max_steps)
    for layer in filter(says_so, lasting_layers(first)):
        raise _remembers(name_of(layer))
    second = builder.vector_env(width)
    if second is None:
        raise RunError("the env source returned a natively vectorised environment at one call and none at another")
    return NativePairEnvs(native(first), native(second), max_steps)


def _remembers(name: str) -> ConfigError:
    return ConfigError(
        f"{name} keeps state from earlier episodes, but es compares single episodes",
        "wrappers",
        "Remove this wrapper; es uses only the ranks of returns, so their scale does not matter. Observations are "
        "normalised by --wrappers normalize_observations.",
    )


class SinglePairEnvs(PairEnvs):
    """An environment for each row, built when first needed and stepped in turn; rows that rest are not stepped."""

    def __init__(self, builder: EnvBuilder, width: int, max_steps: int = 0) -> None:
        self._builder = builder
        self._envs: list[gymnasium.Env[Any, Any]] = []
        self._grow(1)
        first = self._envs[0]
        super().__init__(first.observation_space, first.action_space, width, max_steps)
        self._given = EpisodeParameters(self.num_envs)
        self._observations = ObservationCodec(first.observation_space)
        self._actions = ActionCodec(first.action_space)

    def _grow(self, pairs: int) -> None:
        for row in range(len(self._envs), 2 * pairs):
            # Both rows of a pair have the same index, so that random choices at construction are equal.
            self._envs.append(self._builder(row // 2))
            if not row and (name := remembering(self._envs[0])) is not None:
                raise _remembers(name)

    def _begin(self, seeds: EpisodeSeeds, out: Tree) -> None:
        self._grow(self.pairs)
        for row in range(2 * self.pairs):
            with naming(f"{_place(row)} at its reset"):
                self._given.now[row] = self.parameters[row // 2] if self.parameters else None
                seed = self._given.give(row, self._envs, self._rebuild, seeds(row // 2, 0))
                given: Any = self._envs[row].reset(seed=seed)
            check_reset(given)
            self._observations.check(given[0])
            self._observations.write(out, row, given[0])
        self._check(out)

    def _rebuild(self, row: int, arguments: Mapping[str, Any]) -> None:
        old = self._envs[row]
        self._envs[row] = of_parameters("rebuilt")(
            self._builder, row // 2, arguments, old, lambda make, index: make(index)
        )
        release(old)

    def _play(self, rows: np.ndarray, actions: Tree, out: Tree, result: StepResult) -> None:
        kind, key, dtype, shape, _ = self._observations.plain
        target, write, envs = out[key], self._observations.write, self._envs
        row, given = 0, []
        chosen = take_rows(actions, rows)
        try:
            for row, action in zip(rows.tolist(), self._actions.rows(chosen), strict=True):
                observation, reward, terminates, truncates, _ = envs[row].step(action)
                if (
                    kind is np.ndarray  # as `write` does, without its call
                    and type(observation) is kind
                    and observation.dtype is dtype
                    and observation.shape == shape
                ):
                    target[row] = observation
                else:
                    write(out, row, observation)
                if not (type(reward) is float or is_number(reward)):
                    raise not_a_number(reward)
                given.append(float(reward))
                if terminates is not False and is_set("terminated", terminates):
                    result.terminated[row] = True
                elif truncates is not False and is_set("truncated", truncates):
                    result.truncated[row] = True
        except MisfitError as error:
            raise RunError(f"{_place(row)} returned {error}") from error
        except MazeError:
            raise
        except Exception as error:
            raise failure(_place(row), error) from error
        result.reward[rows] = given
        if not all_finite(result.reward):
            bad = first_bad_row(result.reward)
            raise non_finite("reward", _place(bad), result.reward[bad])
        self._check(out)

    def _check(self, out: Tree) -> None:
        rows = take_rows(out, np.s_[: 2 * self.pairs])
        wrong = self._observations.wrong(rows)
        if wrong:
            raise RunError(f"{_place(wrong[0])} returned {wrong[1]}")

    def close(self) -> None:
        """Close the environments."""
        envs, self._envs = self._envs, []
        release(*envs)


def _place(row: int) -> str:
    return f"environment {row} of the population"


class NativePairEnvs(PairEnvs):
    """Two natively vectorised environments, one for the first members of the pairs, one for the second.

    Such an environment has one seed for all its rows. With equal seeds, row i of both begins with the same state, as a
    pair needs. Only first episodes are played: the start of a row's next episode cannot be seeded. Rows whose episode
    has ended are still stepped, and ignored: they cost next to nothing.
    """

    def __init__(self, first: VectorEnv, second: VectorEnv, max_steps: int = 0) -> None:
        super().__init__(first.observation_space, first.action_space, first.num_envs, max_steps)
        self._sides = (first, second)

    def _begin(self, seeds: EpisodeSeeds, out: Tree) -> None:
        if self.parameters:
            raise begins_episodes()
        self._obs_of = [_side(out, side) for side in (0, 1)]
        for env, obs in zip(self._sides, self._obs_of, strict=True):
            env.reset(seeds, obs)

    def _play(self, rows: np.ndarray, actions: Tree, out: Tree, result: StepResult) -> None:
        for side, env in enumerate(self._sides):
            playing = self.playing[side::2]
            if playing.any():
                of_side = env.step(_side(actions, side), self._obs_of[side])
                result.reward[side::2] = of_side.reward * playing
                result.terminated[side::2] = of_side.terminated & playing
                result.truncated[side::2] = of_side.truncated & playing

    def close(self) -> None:
        """Close both."""
        release(*self._sides)


def _side(tree: Tree, side: int) -> Tree:
    """Return every second row, as a view."""
    return take_rows(tree, np.s_[side::2])
