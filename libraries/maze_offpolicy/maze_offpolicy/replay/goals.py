"""Environments with goals: observations that hold them, and rewards that can be computed for other ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_core import ConfigError, RunError
from maze_core.base.terminal_text import shown
from maze_core.envs.spaces import start_of
from maze_core.envs.wrappers import layers

if TYPE_CHECKING:
    from gymnasium import Space

    Env = gymnasium.Env[Any, Any]

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"
_TRIAL_STEPS = 20


class GoalRewards:
    """The rewards of an environment for any goals, by its `compute_reward(achieved_goal, desired_goal, info)`.

    The environment is reset, and some random steps are taken, to compare. `info` is an empty dict, or a list of empty
    dicts where the environment computes many rewards at a time.

    Args:
        env: a single environment with the run's wrappers. The outermost layer that has `compute_reward` counts.
        where: the setting that errors name.
        seed: of the episode and the actions.

    Raises:
        ConfigError: its observations have no goals, or its rewards are not those of `compute_reward`.
    """

    def __init__(self, env: Env, where: str, seed: int = 0) -> None:
        self._where = where
        self._goal = _goal_space(env.observation_space, where)
        layer = next((each for each in layers(env) if callable(getattr(each, "compute_reward", None))), None)
        if layer is None:
            raise ConfigError(
                "needs an environment with compute_reward(achieved_goal, desired_goal, info), which "
                f"{type(env.unwrapped).__name__} has not",
                where,
                "Set it to 0, or add the method to the environment or to a wrapper.",
            )
        own = layer.observation_space
        if own != env.observation_space and any(
            _leaf(own, key) != _leaf(env.observation_space, key) for key in (ACHIEVED, DESIRED)
        ):
            raise ConfigError(
                f"a wrapper changes the goals that compute_reward of {type(layer).__name__} expects",
                where,
                "Set it to 0, or define compute_reward in the outermost wrapper that changes the goals.",
            )
        steps = _trial(env, seed)
        self._reward = _GoalFunction(layer.compute_reward, self._goal.dtype)
        self._check(steps)
        achieved, desired = (np.stack([step[key] for step, _ in steps]) for key in (ACHIEVED, DESIRED))
        pairs = np.concatenate((achieved, achieved)), np.concatenate((desired, achieved))
        self._reward.find_out(*pairs)
        self._terminated = None
        if callable(function := getattr(layer, "compute_terminated", None)):
            self._terminated = _GoalFunction(function, self._goal.dtype)
            self._terminated.find_out(*pairs)

    def _check(self, steps: list[tuple[dict[str, np.ndarray], float]]) -> None:
        """Compare the rewards of steps with those that are computed."""
        for observation, reward in steps:
            try:
                computed = float(self._reward.single(observation[ACHIEVED], observation[DESIRED]))
            except Exception as error:
                raise ConfigError(
                    "compute_reward of the environment fails, both for one pair of goals with an empty info and for "
                    f"many with a list of them: {type(error).__name__}: {error}",
                    self._where,
                    "Set it to 0: the reward depends on more than the goals.",
                ) from error
            if not np.isclose(computed, reward, rtol=1e-3, atol=1e-5):
                raise ConfigError(
                    f"a step had the reward {reward:g}, but compute_reward returns {computed:g} for its goals",
                    self._where,
                    "Set it to 0, or let the wrapper that changes rewards define compute_reward too.",
                )

    def __call__(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Return the rewards [B] float32 of steps that achieved some goals, leaves [B, …], for desired ones.

        Raises:
            RunError: `compute_reward` failed, or a reward is not finite.
        """
        rewards = self._reward(achieved, desired).astype(np.float32)
        if not np.isfinite(rewards).all():
            raise RunError("compute_reward of the environment returned a reward that is not finite")
        return rewards

    def terminated(self, achieved: np.ndarray, desired: np.ndarray, recorded: np.ndarray) -> np.ndarray:
        """Return whether steps terminate their episodes, [B] bool: by `compute_terminated`, else as `recorded`."""
        return recorded if self._terminated is None else self._terminated(achieved, desired).astype(np.bool_)


class _GoalFunction:
    """A function of achieved goal, desired goal and info, called for many pairs of goals at a time.

    Args:
        function: the environment's.
        dtype: of the goals, as it knows them.
    """

    def __init__(self, function: Callable[..., Any], dtype: np.dtype[Any] | None) -> None:
        self._function, self._dtype, self._vectorised = function, dtype, False

    def single(self, achieved: np.ndarray, desired: np.ndarray) -> Any:
        """Return its value for one pair; by a call with many rows where it takes nothing else."""
        try:
            return self._function(achieved, desired, {})
        except Exception:
            with suppress(Exception):  # the first error is the one to show
                return np.asarray(self._function(achieved[None], desired[None], [{}])).reshape(())[()]
            raise

    def find_out(self, achieved: np.ndarray, desired: np.ndarray) -> None:
        """Call it once for all these rows; if the values are those of single calls, it is called so from now on."""
        try:
            values = np.asarray(self._function(achieved, desired, [{} for _ in achieved]))
        except Exception:  # noqa: BLE001 - it was not written for several rows
            return
        single = self(achieved, desired)
        self._vectorised = values.shape == single.shape and bool(np.allclose(values, single, rtol=1e-4, atol=1e-6))

    def __call__(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Return its values, [B], for leaves [B, …]."""
        achieved, desired = (goals.astype(self._dtype, copy=False) for goals in (achieved, desired))
        try:
            if self._vectorised:
                return np.asarray(self._function(achieved, desired, [{} for _ in achieved])).reshape(len(achieved))
            pairs = zip(achieved, desired, strict=True)
            return np.array([float(self.single(one, other)) for one, other in pairs])
        except Exception as error:
            name = getattr(self._function, "__name__", "compute_reward")
            raise RunError(f"{name} of the environment failed: {type(error).__name__}: {error}") from error


def _leaf(space: Space[Any], key: str) -> Space[Any] | None:
    return space.spaces.get(key) if isinstance(space, spaces.Dict) else None


def _goal_space(space: Space[Any], where: str) -> Space[Any]:
    """Return the space of goals. Raises ConfigError where observations have none that can be exchanged."""
    achieved, desired = _leaf(space, ACHIEVED), _leaf(space, DESIRED)
    problem = ""
    if achieved is None or desired is None:
        problem = f"but the observations are {shown(space)}"
    elif isinstance(achieved, spaces.Dict | spaces.Tuple):
        problem = f"and {ACHIEVED!r} is a {type(achieved).__name__}"
    elif type(achieved) is not type(desired) or achieved.shape != desired.shape or achieved.dtype != desired.dtype:
        problem = f"and {ACHIEVED!r} is {shown(achieved)}, but {DESIRED!r} is {shown(desired)}"
    elif start_of(achieved) is not None or start_of(desired) is not None:
        problem = f"and {ACHIEVED!r} does not count from 0"
    if problem or achieved is None:
        raise ConfigError(
            f"needs Dict observations with the single leaves {ACHIEVED!r} and {DESIRED!r} of equal shape, {problem}",
            where,
            "Set it to 0, or use an environment with goals, such as those of gymnasium-robotics.",
        )
    return achieved


def _trial(env: Env, seed: int) -> list[tuple[dict[str, np.ndarray], float]]:
    """Return the observations and rewards of the first random steps of an episode."""
    env.action_space.seed(seed)
    steps: list[tuple[dict[str, np.ndarray], float]] = []
    env.reset(seed=seed)
    for _ in range(_TRIAL_STEPS):
        try:
            observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        except Exception:
            if steps:  # an action that is not allowed here: what was seen is enough
                break
            raise
        steps.append(({key: np.array(observation[key]) for key in (ACHIEVED, DESIRED)}, float(reward)))
        if terminated or truncated:
            break
    return steps
