"""Stepping an environment under examination: the checks that sources and wrappers share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from maze_core.envs.codecs import ActionCodec
from maze_core.envs.layers import lasting_layers
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import Tree
from maze_core.errors import MazeError
from maze_core.testing.findings import Check, Failed, NotApplicable
from maze_core.testing.process import left_alone
from maze_core.testing.subject import Subject
from maze_core.training.seeding import EpisodeSeeds, Purpose

Env = gymnasium.Env[Any, Any]
Build = Callable[[Subject, int], Env]
"""Builds an environment of the plugin under examination, by number.

Raises:
    NotApplicable: it cannot be built, which another check reports.
"""
STEPS = 1000


def action_of(env: Env, rng: np.random.Generator) -> Any:
    """A random action that only `rng` decides."""
    env.action_space.seed(int(rng.integers(2**31)))
    return env.action_space.sample()


def equal(first: Any, second: Any) -> bool:
    """Whether two observations are the same."""
    if isinstance(first, dict):
        return (
            isinstance(second, dict)
            and first.keys() == second.keys()
            and all(equal(first[k], second[k]) for k in first)
        )
    if isinstance(first, tuple | list):
        return len(first) == len(second) and all(map(equal, first, second))
    return np.array_equal(np.asarray(first), np.asarray(second))


def _steps(env: Env, seed: int, count: int = 60) -> Iterator[tuple[int, Any, Any, Any, Any]]:
    """Random steps, the same for all seeds, and new episodes as they end.

    Gives the number of the step, observation (that of a reset as well), reward, terminated and truncated.
    """
    rng = np.random.default_rng(3)
    observation, _ = env.reset(seed=seed)
    yield 0, observation, 0.0, False, False
    for number in range(1, count + 1):
        observation, reward, terminated, truncated, _ = env.step(action_of(env, rng))
        yield number, observation, reward, terminated, truncated
        if terminated or truncated:
            observation, _ = env.reset()
            yield number, observation, 0.0, False, False


def checks(build: Build, steps: int = STEPS) -> tuple[Check, ...]:
    """The checks of what steps, around a function that builds it; `steps`: how long honesty is watched."""

    @contextmanager
    def built(subject: Subject, index: int = 0) -> Iterator[Env]:
        with closing(build(subject, index)) as env:
            yield env

    def interface(subject: Subject) -> None:
        with built(subject) as env:
            env.unwrapped.spec = None  # with one, the checker would make the environment again by its id
            try:
                check_env(env, skip_render_check=True)
            except Exception as error:
                if "step rewards" in str(error) and lasting_layers(env):
                    raise NotApplicable("what it remembers beyond an episode may change its rewards") from error
                raise Failed(f"gymnasium's checker: {type(error).__name__}: {error}") from error

    def seeds(subject: Subject) -> None:
        with built(subject) as first, built(subject, 1) as second:
            for one, two in zip(_steps(first, 7), _steps(second, 7), strict=True):
                if not (equal(one[1], two[1]) and np.array_equal(one[2:], two[2:], equal_nan=True)):
                    raise Failed(f"two environments with the same seed and actions differ at step {one[0]}")

    def chance(subject: Subject) -> None:
        with built(subject) as first, built(subject, 1) as second:
            pairs = zip(_steps(first, 7), _steps(second, 8), strict=False)
            if all(equal(one[1], two[1]) and np.array_equal(one[2:], two[2:], equal_nan=True) for one, two in pairs):
                raise Failed("with another seed and the same actions everything is the same")

    def honesty(subject: Subject) -> None:
        with built(subject) as env:
            for number, observation, reward, *flags in _steps(env, 3, steps):
                _check_observation(env.observation_space, observation, number, "observation")
                if (not np.isscalar(reward) and np.shape(reward) != ()) or not np.isfinite(float(reward)):
                    raise Failed(f"the reward of step {number} is {reward!r:.80}, not a finite number")
                if not all(isinstance(flag, bool | np.bool_) for flag in flags):
                    raise Failed(f"step {number} says terminated={flags[0]!r}, truncated={flags[1]!r}, not booleans")

    def _alone(subject: Subject) -> closing[SerialVectorEnv]:
        return closing(SerialVectorEnv(lambda _: build(subject, 0), 1))

    def replay(subject: Subject) -> None:
        try:
            seeds(subject)
            with _alone(subject) as env:
                state = _in_the_middle_of_an_episode(env)
            with _alone(subject) as env, warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                env.restore(_SEEDS, state, _observations(env))
        except (MazeError, Failed) as error:
            raise NotApplicable(f"it cannot be stepped, see the other checks ({error})") from error
        if any("not reproducible" in str(each.message) for each in said):
            raise Failed(
                f"episode {state['episode'][0]} gives other rewards or observations in a new copy, from the same seed, "
                "the same actions and the `state` before it"
            )

    def state(subject: Subject) -> None:
        with left_alone("building and stepping it"), built(subject) as env:
            for _ in _steps(env, 3):
                pass

    return (
        Check(
            "gymnasium",
            "gymnasium's own `check_env` finds nothing.",
            "Whatever is written for gymnasium relies on its interface.",
            "Read the message; https://gymnasium.farama.org/api/env tells what an environment keeps.",
            interface,
        ),
        Check(
            "seeds",
            "The same seed and actions give the same episodes in every copy.",
            "Runs could not be repeated, and not be resumed exactly.",
            "Draw all chance from `self.np_random`, which `super().reset(seed=seed)` seeds; let copies share nothing.",
            seeds,
        ),
        Check(
            "chance",
            "Another seed gives other episodes.",
            "Environments side by side would all show the same, and evaluations on several seeds say nothing.",
            "Draw all chance from `self.np_random`, which the seed decides. Where the environment has no chance, "
            "waive this check in `conformance`.",
            chance,
        ),
        Check(
            "honesty",
            f"In {steps} random steps every observation is in the declared space, with its dtype; rewards are finite "
            "numbers, flags are booleans.",
            "Networks are built for the declared space: what is outside of it is cut, refused, or learnt wrongly.",
            "Correct the bounds, the shape or the dtype of the space, or clip and convert observations.",
            honesty,
        ),
        Check(
            "replay",
            "A new copy repeats an episode from its seed, its actions and the `state` before it, rewards included.",
            "A resumed run replays the episodes that were under way; what they depend on beside must not be lost.",
            "Let everything follow from `reset(seed=…)`. A wrapper that remembers more has `state` and `load_state`; "
            "an environment that remembers more is waived, and its runs are not resumed exactly.",
            replay,
        ),
        Check(
            "global_state",
            "Building and stepping it leaves random states, threads, signal handlers, environment variables and the "
            "working directory alone.",
            "Environments live in the process that learns, and beside each other.",
            "Use `self.np_random`; put back what you must change.",
            state,
            alone=True,
        ),
    )


_SEEDS = EpisodeSeeds(5, Purpose.TRAIN_EPISODES)


def _observations(env: SerialVectorEnv) -> Tree:
    return allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))


def _in_the_middle_of_an_episode(env: SerialVectorEnv) -> dict[str, Any]:
    """Step through some episodes; return the state in the middle of one that is not the first, where there is one."""
    rng, codec, out = np.random.default_rng(3), ActionCodec(env.action_space), _observations(env)
    env.reset(_SEEDS, out)
    state: dict[str, Any] = {}
    for _ in range(60):
        env.step(codec.tree(action_of(env.envs[0], rng)), out)
        now = env.state()
        if not state or now["length"][0] > min(1, state["length"][0]):
            state = now
    return state


def _check_observation(space: spaces.Space[Any], value: Any, number: int, place: str) -> None:
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            raise Failed(f"step {number}: {place} has not the keys {sorted(space.spaces)}")
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
        if not np.isfinite(array).all() or (array < space.low).any() or (array > space.high).any():
            raise Failed(f"step {number}: {place} {array!r:.80} is outside of {space}")
    elif not space.contains(value):
        raise Failed(f"step {number}: {place} {value!r:.80} is not in {space}")


def not_built(error: Exception) -> NotApplicable:
    """What a check says of an environment that cannot be built."""
    return NotApplicable(f"no environment can be built, see the check `makes` ({type(error).__name__}: {error})")
