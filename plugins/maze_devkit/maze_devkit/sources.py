"""The checks of env sources."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_core import EnvBuilder
from maze_devkit import stepping, vectorised
from maze_devkit.findings import Check, Failed
from maze_devkit.joint import JointEnv
from maze_devkit.soundness import STEPS, Env, action_of
from maze_devkit.stepping import not_built
from maze_devkit.subject import Subject

_EPISODES = 6


def _builder(subject: Subject) -> EnvBuilder:
    subject.build()
    return EnvBuilder(subject.config, seed=1)


def _build(subject: Subject, index: int) -> Env:
    builder = _builder(subject)
    try:
        return _single(builder, index)
    except Exception as error:
        raise not_built(error) from error


def _single(builder: EnvBuilder, index: int) -> Env:
    """Return environment `index`; where several agents act in it, all of them as one."""
    return JointEnv(builder.agents_env(index)) if builder.several_agents else builder.single(index)


def _makes(subject: Subject) -> None:
    from maze_core import vector_env

    builder = _builder(subject)
    make: Any = builder.agents_env if builder.several_agents else builder.single
    first, second = make(0), make(1)
    if first is second or getattr(first, "unwrapped", first) is getattr(second, "unwrapped", second):
        raise Failed("two calls of make_env return the same environment")
    first.close()
    second.close()
    vector_env(builder, 2).close()


def _time_limit(subject: Subject) -> None:
    env = _build(subject, 0)
    lengths: list[int] = []
    try:
        for seed in range(_EPISODES):
            length, truncated = _play(env, seed)
            if truncated or length >= STEPS:
                return
            lengths.append(length)
    finally:
        env.close()
    if len(set(lengths)) == 1 and lengths[0] > 1:
        raise Failed(f"{_EPISODES} episodes of random actions all end with terminated after exactly {lengths[0]} steps")


def _vectorised(subject: Subject) -> None:
    vectorised.conforms(_builder(subject))


def _play(env: Any, seed: int) -> tuple[int, bool]:
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    for length in range(1, STEPS + 1):
        _, _, terminated, truncated, _ = env.step(action_of(env, rng))
        if terminated or truncated:
            return length, bool(truncated)
    return STEPS, False


CHECKS = (
    Check(
        "makes",
        "`make_env`, or `make_agents_env`, returns a new environment at each call, with spaces that Maze supports.",
        "Training and evaluation step several environments in parallel.",
        "Return a new gymnasium.Env or MultiAgentEnv each time; docs/guide/environments.md lists the spaces.",
        _makes,
    ),
    *stepping.checks(_build),
    Check(
        "time_limit",
        "Episodes do not all end with `terminated` after the same number of steps.",
        "Treating a time limit as termination underestimates the value of every state.",
        "Set `truncated`, or wrap the environment in gymnasium.wrappers.TimeLimit. If the task really ends then, waive "
        "this check in `conformance`.",
        _time_limit,
    ),
    Check(
        "vector_env",
        "If it has vectorised environments, they equal those of `make_env`: the same spaces, transitions, ends and "
        "last observations; with a given seed they repeat, and they differ from each other.",
        "Otherwise a policy is trained in another environment than it is evaluated and used in.",
        "Correct `make_vector_env`: leave `terminated` and `truncated` apart, and with the autoreset mode SAME_STEP "
        "give an episode's last observation in `info['final_obs']`.",
        _vectorised,
    ),
)
"""The checks of env sources."""
