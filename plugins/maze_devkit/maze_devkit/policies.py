"""The checks of policies that act without learning."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np

from maze_core import ActingPolicy, ConfigError, Tree
from maze_core.base.tree import concat_trees
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_devkit.findings import Check, Failed, NotApplicable
from maze_devkit.probes import Walk
from maze_devkit.process import left_alone
from maze_devkit.soundness import equal
from maze_devkit.subject import MakeEnv, Subject

KNOWN = ("CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1")
"""Environments that a policy may support, in addition to the kit's own."""
_STEPS = 200


def _candidates(subject: Subject) -> Iterator[MakeEnv]:
    if (named := subject.single_env) is not None:
        yield named
        return
    yield Walk
    yield functools.partial(Walk, True)
    for name in KNOWN:
        yield functools.partial(gymnasium.make, name)


def _environment(subject: Subject) -> gymnasium.Env[Any, Any]:
    """Return the first environment that the policy supports.

    Raises:
        NotApplicable: it supports none that the kit knows.
    """
    for make in _candidates(subject):
        env = make()
        policy = subject.build()
        try:
            policy.setup(env.observation_space, env.action_space)
        except ConfigError:
            env.close()
            continue
        return env
    raise NotApplicable("it takes no environment that the kit has, see the check `acts`")


def _fresh(subject: Subject, env: gymnasium.Env[Any, Any]) -> ActingPolicy:
    policy: ActingPolicy = subject.build()
    policy.setup(env.observation_space, env.action_space)
    return policy


def _play(policy: ActingPolicy, env: gymnasium.Env[Any, Any], seed: int) -> Iterator[tuple[Any, bool]]:
    """Yield actions of a few episodes, each with True if it is in the action space."""
    observe, act = ObservationCodec(env.observation_space), ActionCodec(env.action_space)
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    policy.begin(0)
    for _ in range(_STEPS):
        (action,) = act.rows(policy.act(observe.tree(observation), [rng]))
        yield action, env.action_space.contains(action)
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
            policy.begin(0)


def _acts(subject: Subject) -> None:
    try:
        env = _environment(subject)
    except NotApplicable as reason:
        if "kit knows" not in str(reason):
            raise
        raise Failed("it refuses every environment of the kit") from reason
    for number, (action, inside) in enumerate(_play(_fresh(subject, env), env, 1)):
        if not inside:
            raise Failed(f"action {number}, {action!r:.80}, is not in {env.action_space}")


def _repeats(subject: Subject) -> None:
    env = _environment(subject)
    first, second = ([action for action, _ in _play(_fresh(subject, env), env, 4)] for _ in range(2))
    if not equal(first, second):
        raise Failed("with the same seeds it acts differently the second time")


def _insist_on_repeats(subject: Subject) -> None:
    """Skip the check for a policy that is not reproducible."""
    try:
        _repeats(subject)
    except Failed as error:
        raise NotApplicable("it acts differently the second time, see the check `repeats`") from error


def _rows(subject: Subject) -> None:
    env = _environment(subject)
    observe = ObservationCodec(env.observation_space)
    trees = [observe.tree(env.reset(seed=seed)[0]) for seed in range(8)]
    together = _act(_fresh(subject, env), trees)
    for row, tree in enumerate(trees):
        alone = _act(_fresh(subject, env), [tree], first=row)
        if not all(np.array_equal(alone[key][0], leaf[row]) for key, leaf in together.items()):
            _insist_on_repeats(subject)
            raise Failed("it acts differently with other environments in the batch than alone")


def _act(policy: ActingPolicy, trees: list[Tree], first: int = 0) -> Tree:
    for row in range(len(trees)):
        policy.begin(row)
    obs = concat_trees(trees)
    return policy.act(obs, [np.random.default_rng(first + row) for row in range(len(trees))])


def _global_state(subject: Subject) -> None:
    env = _environment(subject)
    with left_alone("acting"):
        for _ in _play(_fresh(subject, env), env, 1):
            pass


CHECKS = (
    Check(
        "acts",
        "Its actions are in the action space.",
        "An environment may refuse other actions, or silently misinterpret them.",
        "Clip and round; discrete actions count from 0. If it needs a special environment, name one in `conformance`.",
        _acts,
    ),
    Check(
        "repeats",
        "With the same seeds it acts the same way again.",
        "Otherwise recorded episodes cannot be repeated.",
        "Draw all random numbers from the generators in `rngs`; reset the memory of the last episode in `begin`.",
        _repeats,
    ),
    Check(
        "rows",
        "Its actions in one environment do not depend on the other environments of the batch.",
        "Otherwise an episode depends on the number of workers.",
        "Use each row's generator for that row only, and compute rows one by one.",
        _rows,
    ),
    Check(
        "global_state",
        "Acting leaves random states, threads, signal handlers, environment variables and the working directory alone.",
        "It acts in the learner's process if an algorithm uses it for the first steps.",
        "Use the generators in `rngs`; restore what you must change.",
        _global_state,
        alone=True,
    ),
)
"""The checks of policies."""
