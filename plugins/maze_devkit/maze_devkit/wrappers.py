"""The checks of environment wrappers."""

from __future__ import annotations

import copy
import functools
from typing import Any

import gymnasium
import numpy as np

from maze_core import ConfigError, EnvBuilder
from maze_devkit import altered, stepping
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.probes import Walk
from maze_devkit.soundness import Env, action_of, equal
from maze_devkit.spaces import ACTIONS, OBSERVATIONS, environment
from maze_devkit.stepping import not_built
from maze_devkit.subject import MakeEnv, Subject

_LIMIT = 4


_CANDIDATES: tuple[MakeEnv, ...] = (
    Walk,
    functools.partial(Walk, True),
    *(environment(space, ACTIONS["a choice"][1]) for space in OBSERVATIONS.values()),
)


class _Cut(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Truncates or terminates episodes after `limit` steps, and records its last output."""

    def __init__(self, env: Env, limit: int, terminate: bool = False) -> None:
        super().__init__(env)
        self._limit, self._terminate, self._steps = limit, terminate, 0
        self.said = (False, False)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the count."""
        self._steps, self.said = 0, (False, False)
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Count."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        over = self._steps >= self._limit
        self.said = bool(terminated) or (over and self._terminate), bool(truncated) or (over and not self._terminate)
        return observation, reward, *self.said, info


def _around(subject: Subject, make: MakeEnv, index: int = 0) -> Env:
    """Return the plugin's wrapper around an environment that `make` builds."""
    subject.build()
    builder = EnvBuilder(subject.source(make), (subject.config,), seed=1)
    return builder(index)


def _base(subject: Subject) -> MakeEnv:
    """Return the environment that the plugin names, or the first of the kit's that it accepts."""
    if (named := subject.single_env) is not None:
        return named
    for make in _CANDIDATES:
        try:
            _around(subject, make).close()
        except ConfigError:
            continue
        except Exception:  # noqa: BLE001 — the check `makes` reports it
            return make
        return make
    return Walk


def _build(subject: Subject, index: int) -> Env:
    try:
        return _around(subject, _base(subject), index)
    except NotApplicable:
        raise
    except Exception as error:
        raise not_built(error) from error


def _cut(subject: Subject, limit: int, terminate: bool = False) -> tuple[Env, _Cut]:
    inner = _Cut(_base(subject)(), limit, terminate)
    try:
        return _around(subject, lambda: inner), inner
    except NotApplicable:
        raise
    except Exception as error:
        raise not_built(error) from error


def _makes(subject: Subject) -> None:
    made: list[Env] = []

    def make() -> Env:
        made.append(_base(subject)())
        return made[-1]

    env = _around(subject, make)
    if env.unwrapped is not made[0].unwrapped:
        raise Failed("the returned environment does not wrap the given environment")
    env.close()


def _ends(subject: Subject) -> None:
    for terminate in (False, True):
        env, inner = _cut(subject, _LIMIT, terminate)
        rng = np.random.default_rng(5)
        for episode in range(3):
            env.reset(seed=episode)
            for _ in range(20 * _LIMIT):
                _, _, terminated, truncated, _ = env.step(action_of(env, rng))
                _compare(inner.said, (bool(terminated), bool(truncated)))
                if terminated or truncated:
                    break
        env.close()


def _compare(inner: tuple[bool, bool], outer: tuple[bool, bool]) -> None:
    names = ("terminated", "truncated")
    if any(inner) and not any(outer):
        raise Failed(f"an episode that the environment ended ({names[not inner[0]]}) continues outside of the wrapper")
    if inner == (False, True) and outer[0]:
        raise Failed("an episode that the environment cut by a time limit (truncated) ends as terminated")
    if inner[0] and not outer[0]:
        raise Failed("an episode that the environment ended (terminated) is reported as truncated")


def _final_observation(subject: Subject) -> None:
    (short, inner), (long, _) = _cut(subject, _LIMIT), _cut(subject, 10 * _LIMIT)
    for seed in range(5):
        for env in (short, long):
            env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        for _ in range(20 * _LIMIT):
            action = action_of(short, rng)
            last, following = copy.deepcopy(short.step(action)), long.step(action)
            if any(inner.said) and not (following[2] or following[3]):
                if not equal(last[0], following[0]):
                    raise Failed(
                        f"the last observation of a truncated episode is {last[0]!r:.60}, that of the same step in an "
                        f"episode that goes on {following[0]!r:.60}"
                    )
                return
            if any(inner.said) or following[2] or following[3] or last[2] or last[3]:
                break
    raise NotApplicable("its episodes end sooner than the environment's")


CHECKS = (
    Check(
        "makes",
        "It returns an environment that wraps the given one.",
        "A wrapper that returns anything else breaks every run that uses it.",
        "Write `env = yield` and `return YourWrapper(env)`, and give `env` to gymnasium.Wrapper.__init__.",
        _makes,
    ),
    *stepping.checks(_build),
    altered.of_wrappers(_build),
    Check(
        "truncation",
        "The end of an episode keeps its kind: `truncated` stays truncated, `terminated` stays terminated.",
        "Values are bootstrapped at truncation, not at termination.",
        "Return both flags of the inner environment; set `truncated` for your own limits.",
        _ends,
    ),
    Check(
        "final_observation",
        "The last observation of an episode is transformed like any other.",
        "At a time limit its value is used for bootstrapping, so it must look like the training data.",
        "Transform every observation that `step` returns, and leave resets to Maze: do not reset inside `step`.",
        _final_observation,
    ),
)
"""The checks of wrappers."""
