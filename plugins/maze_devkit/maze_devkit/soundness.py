"""Checks that an environment can be trained on: it is reproducible under a seed and keeps to its spaces."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_core import EpisodeSeeds, MazeError, PluginConfig, Purpose, Tree
from maze_core.collect.policies.random import RandomPolicy
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.masks import mask_leaves
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.closing import releasing

Env = gymnasium.Env[Any, Any]
Make = Callable[[int], Env]
"""Builds a new copy of the environment, by number."""
STEPS = 1000


class Failed(Exception):  # noqa: N818 — a finding, not an error of the program
    """A failed check, with what is wrong."""


class Unusable(Failed):
    """What a run would refuse too."""


class NotApplicable(Exception):  # noqa: N818
    """A check that does not apply, with the reason."""


WHY: Mapping[str, str] = {
    "seeds": "Runs cannot be repeated or resumed exactly.",
    "chance": "Parallel environments would all play the same episodes, and more seeds would add no information.",
    "honesty": "Networks are built for the declared space: values outside are clipped, refused or learned wrongly.",
    "replay": "A resumed run replays its unfinished episodes, so everything else that they depend on must be saved.",
}
"""The consequence for training when a check fails."""


def same_seed(make: Make) -> None:
    """Raise Failed unless the same seed and actions produce the same episodes in every copy."""
    with releasing(make(0)) as first, releasing(make(1)) as second:
        for one, two in zip(random_steps(first, 7), random_steps(second, 7), strict=True):
            if not (equal(one[1], two[1]) and np.array_equal(one[2:], two[2:], equal_nan=True)):
                raise Failed(f"two environments with the same seed and actions differ at step {one[0]}")


def other_seed(make: Make) -> None:
    """Raise Failed unless another seed produces other episodes."""
    with releasing(make(0)) as first, releasing(make(1)) as second:
        pairs = zip(random_steps(first, 7), random_steps(second, 8), strict=False)
        if all(equal(one[1], two[1]) and np.array_equal(one[2:], two[2:], equal_nan=True) for one, two in pairs):
            raise Failed("with another seed and the same actions the episodes are identical")


def honest(make: Make, steps: int = STEPS) -> None:
    """Raise Failed unless observations are in the declared space, rewards are finite numbers and flags booleans."""
    with releasing(make(0)) as env:
        for number, observation, reward, *flags in random_steps(env, 3, steps):
            _check_observation(env.observation_space, observation, number, "observation")
            if np.shape(reward) != () or not np.isfinite(float(reward)):
                raise Unusable(f"the reward of step {number} is {reward!r:.80}, not a finite number")
            if not all(isinstance(flag, bool | np.bool_) for flag in flags):
                raise Failed(f"step {number} returns terminated={flags[0]!r}, truncated={flags[1]!r}, not booleans")


def replays(make: Make) -> None:
    """Raise Failed unless a new copy repeats an episode from its seed, its actions and the `state` before it.

    Raises:
        NotApplicable: it cannot be stepped, or is not reproducible under a seed.
    """
    try:
        same_seed(make)
        with releasing(SerialVectorEnv(lambda _: make(0), 1)) as env:
            state = _in_the_middle_of_an_episode(env)
        with releasing(SerialVectorEnv(lambda _: make(0), 1)) as env, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            env.restore(_SEEDS, state, _observations(env))
    except (MazeError, Failed) as error:
        raise NotApplicable(f"it cannot be stepped, see the other checks ({error})") from error
    if any("not reproducible" in str(each.message) for each in caught):
        raise Failed(
            f"episode {state['episode'][0]} has other rewards or observations in a new copy, from the same seed, "
            "the same actions and the `state` before it"
        )


def action_of(env: Env, rng: np.random.Generator) -> Any:
    """Return a random action that depends on `rng` only."""
    env.action_space.seed(int(rng.integers(2**31)))
    return env.action_space.sample()


class _Actions:
    """Draws random actions that depend on a generator, and on the action masks of what is observed, if it has some."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._policy: RandomPolicy | None = None
        if _has_masks(env):
            self._seen = ObservationCodec(env.observation_space)
            self._policy = RandomPolicy(PluginConfig(name="random"))
            self._policy.setup(env.observation_space, env.action_space)

    @cached_property
    def _codec(self) -> ActionCodec:
        return ActionCodec(self._env.action_space)  # built late: it refuses spaces that can be sampled

    def tree(self, rng: np.random.Generator, obs: Tree) -> Tree:
        """Return an action for an observation, both with leaves [1, …]."""
        if self._policy is None:
            return self._codec.tree(action_of(self._env, rng))
        return self._policy.act(obs, [rng])

    def single(self, rng: np.random.Generator, observation: Any) -> Any:
        """Return an action for an observation, both as the environment has them."""
        if self._policy is None:
            return action_of(self._env, rng)
        return self._codec.rows(self._policy.act(self._seen.tree(observation), [rng]))[0]


def _has_masks(env: Env) -> bool:
    try:
        return bool(mask_leaves(env.observation_space, env.action_space))
    except MazeError:  # spaces that Maze refuses, which another check reports
        return False


def equal(first: Any, second: Any) -> bool:
    """Return True when two observations are equal."""
    if isinstance(first, dict):
        return (
            isinstance(second, dict)
            and first.keys() == second.keys()
            and all(equal(first[k], second[k]) for k in first)
        )
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(equal, first, second))
    return np.array_equal(np.asarray(first), np.asarray(second))


def random_steps(env: Env, seed: int, count: int = 60) -> Iterator[tuple[int, Any, Any, Any, Any]]:
    """Yield the results of random actions that masks allow, else the same for all seeds; begins episodes anew.

    Yields the step's number, observation (also that of a reset), reward, terminated and truncated.
    """
    rng, actions = np.random.default_rng(3), _Actions(env)
    observation, _ = env.reset(seed=seed)
    yield 0, observation, 0.0, False, False
    for number in range(1, count + 1):
        observation, reward, terminated, truncated, _ = env.step(actions.single(rng, observation))
        yield number, observation, reward, terminated, truncated
        if terminated or truncated:
            observation, _ = env.reset()
            yield number, observation, 0.0, False, False


_SEEDS = EpisodeSeeds(5, Purpose.TRAIN_EPISODES)


def _observations(env: SerialVectorEnv) -> Tree:
    return allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))


def _in_the_middle_of_an_episode(env: SerialVectorEnv) -> dict[str, Any]:
    """Take random steps through some episodes; return the state in the middle of one, preferably not the first."""
    rng, actions, out = np.random.default_rng(3), _Actions(env.envs[0]), _observations(env)
    env.reset(_SEEDS, out)
    state: dict[str, Any] = {}
    for _ in range(60):
        env.step(actions.tree(rng, out), out)
        now = env.state()
        if not state or now["length"][0] > min(1, state["length"][0]):
            state = now
    return state


def _check_observation(space: spaces.Space[Any], value: Any, number: int, place: str) -> None:
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            raise Unusable(f"step {number}: {place} does not have the keys {sorted(space.spaces)}")
        for key, child in space.spaces.items():
            _check_observation(child, value[key], number, f"{place}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        for index, child in enumerate(space.spaces):
            _check_observation(child, value[index], number, f"{place}[{index}]")
    elif isinstance(space, spaces.Box):
        array = np.asarray(value)
        if array.dtype != space.dtype or array.shape != space.shape:
            raise Failed(
                f"step {number}: {place} is {array.dtype} of shape {array.shape}, declared is {space.dtype} of shape "
                f"{space.shape}"
            )
        if not np.isfinite(array).all():
            raise Unusable(f"step {number}: {place} {array!r:.80} is not finite")
        if (array < space.low).any() or (array > space.high).any():
            raise Failed(f"step {number}: {place} {array!r:.80} is outside of {space}")
    elif not space.contains(value):
        raise Failed(f"step {number}: {place} {value!r:.80} is not in {space}")
