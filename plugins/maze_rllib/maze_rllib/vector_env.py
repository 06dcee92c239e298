"""Maze's environments as a vector environment for RLlib's runners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from maze_core import MazeError, RunError, flatten_space
from maze_core.envs.checks import (
    MisfitError,
    failure,
    first_bad_row,
    is_number,
    is_set,
    naming,
    non_finite,
    not_a_number,
    place,
)
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.spaces import LeafSpec, allocate, space_specs
from maze_core.envs.vector import Episode
from maze_core.plugins.closing import release
from maze_core.plugins.other_interfaces import check_reset
from maze_rllib.own_model import PlainView

if TYPE_CHECKING:
    from maze_core import EnvBuilder, EpisodeSeeds, Tree


class TreeVectorEnv(VectorEnv[Any, Any, Any]):
    """Environments stepped in turn, with observations and actions as trees of leaves.

    After the end of an episode, the next step begins another and ignores the action (gymnasium's `NEXT_STEP`).
    Episode k of environment i begins with `reset(seed=seeds(i, k))`.

    Args:
        builder: builds the environments.
        num_envs: number of environments.
        first_index: the first one's number in the whole run.
        seeds: seeds of the episodes.
        plain: use the observations and actions of RLlib's own networks.

    Raises:
        RunError: an environment raised, or returned a non-finite number; names the environment.
    """

    def __init__(
        self, builder: EnvBuilder, num_envs: int, first_index: int, seeds: EpisodeSeeds, *, plain: bool
    ) -> None:
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = num_envs
        self._first_index, self._seeds = first_index, seeds
        self._envs = [builder(first_index + i) for i in range(num_envs)]
        observation_space, action_space = self._envs[0].observation_space, self._envs[0].action_space
        self._observations = ObservationCodec(observation_space)
        self._actions = ActionCodec(action_space)
        self._view = PlainView(observation_space, action_space) if plain else None
        self._action_key = single_key(action_space, "action")
        self.single_observation_space, self.single_action_space = shown_spaces(
            observation_space, action_space, self._view
        )
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._episodes, self._steps = [-1] * num_envs, [0] * num_envs
        self._returns, self._over = np.zeros(num_envs), np.zeros(num_envs, np.bool_)
        self.finished: list[Episode] = []
        """Finished episodes; the reader empties the list."""

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in all environments with the run's own seeds; `seed` is ignored."""
        out = allocate(self._observations.specs, (self.num_envs,))
        self._over[:] = False
        for i in range(self.num_envs):
            self._write(out, i, self._first_observation(i))
        self._check(out)
        return self._shown(out), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step every environment once, or begin its next episode."""
        out = allocate(self._observations.specs, (self.num_envs,))
        rewards = np.zeros(self.num_envs, np.float64)
        flags = np.zeros((2, self.num_envs), np.bool_)
        for i, action in enumerate(self._actions.rows(self._tree(actions))):
            if self._over[i]:
                observation = self._first_observation(i)
            else:
                observation, rewards[i], *flags[:, i] = self._step_one(i, action)
            self._write(out, i, observation)
        self._over[:] = flags.any(0)
        self._returns += rewards
        for i in np.flatnonzero(self._over).tolist():
            ended = Episode(self._first_index + i, self._episodes[i], float(self._returns[i]), self._steps[i])
            self.finished.append(ended)
        if not np.isfinite(rewards).all():
            row = first_bad_row(rewards)
            raise non_finite("reward", self._place(row), rewards[row])
        self._check(out)
        return self._shown(out), rewards, flags[0], flags[1], {}

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments."""
        envs, self._envs = self._envs, []
        release(*envs)

    def _step_one(self, i: int, action: Any) -> tuple[Any, float, bool, bool]:
        self._steps[i] += 1
        try:
            observation, reward, terminated, truncated, _ = self._envs[i].step(action)
            if not is_number(reward):
                raise not_a_number(reward)
            return observation, float(reward), is_set("terminated", terminated), is_set("truncated", truncated)
        except MazeError:
            raise
        except Exception as error:
            raise failure(self._place(i), error) from error

    def _first_observation(self, i: int) -> Any:
        self._episodes[i], self._steps[i], self._returns[i] = self._episodes[i] + 1, 0, 0.0
        with naming(self._place(i)):
            result = self._envs[i].reset(seed=self._seeds(self._first_index + i, self._episodes[i]))
        check_reset(result)
        return result[0]

    def _write(self, out: Tree, i: int, observation: Any) -> None:
        try:
            self._observations.write(out, i, observation)
        except MisfitError as error:
            raise RunError(f"{self._place(i)} returned {error}") from error

    def _check(self, out: Tree) -> None:
        if wrong := self._observations.wrong(out):
            raise RunError(f"{self._place(wrong[0])} returned {wrong[1]}")

    def _shown(self, tree: Tree) -> Any:
        return tree if self._view is None else self._view.seen(tree)

    def _tree(self, actions: Any) -> Tree:
        if self._view is not None:
            return self._view.taken(actions)
        return actions if self._action_key is None else {self._action_key: np.asarray(actions)}

    def _place(self, i: int) -> str:
        return place(self._first_index + i, self._episodes[i], self._steps[i])


def single_key(space: gymnasium.Space[Any], role: Any) -> str | None:
    """Return the key of the only leaf of a space; None if there are several."""
    keys = list(flatten_space(space, role))
    return keys[0] if len(keys) == 1 else None


def shown_spaces(
    observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any], view: PlainView | None = None
) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Return the spaces shown to RLlib: observations always as a dict, a single action as itself."""
    if view is not None:
        return view.observation_space, view.action_space
    return leaf_tree(observation_space, "observation", whole=True), leaf_tree(action_space, "action")


def leaf_tree(space: gymnasium.Space[Any], role: Any, *, whole: bool = False) -> gymnasium.Space[Any]:
    """Return a flat dict of the leaves of a space as they are stored, counted from 0.

    A single leaf is returned as itself unless `whole` is set.
    """
    leaves, specs = flatten_space(space, role), space_specs(space, role)
    stored = {key: _stored(leaf, specs[key]) for key, leaf in leaves.items()}
    return next(iter(stored.values())) if len(stored) == 1 and not whole else spaces.Dict(stored)


def _stored(space: gymnasium.Space[Any], spec: LeafSpec) -> gymnasium.Space[Any]:
    if isinstance(space, spaces.Box):
        low, high = (np.asarray(bound).astype(spec.dtype) for bound in (space.low, space.high))
        return spaces.Box(low, high, space.shape, spec.dtype.type)
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    return spaces.MultiDiscrete(space.nvec) if isinstance(space, spaces.MultiDiscrete) else space
