"""Applies the plugins of wrappers to environments in which several agents act."""

from __future__ import annotations

import inspect
from typing import Any

from maze_core.base.errors import ConfigError
from maze_core.envs.several.agents import MultiAgentEnv
from maze_core.envs.several.wrapped import Env, WrappedParts

FOR_AGENTS = ("wrap_agents", "make_agents_env", "make_env")
"""The methods of a wrapper that change environments with several agents."""


def idle(wrapper: Any, *methods: str) -> bool:
    """Return True for a wrapper that changes environments, and by none of these methods."""
    changing = {name for name in (*FOR_AGENTS, "make_vector_env") if hasattr(wrapper, name)}
    return bool(changing) and changing.isdisjoint(methods)


def around_agents(env: MultiAgentEnv, wrapper: Any, index: int) -> MultiAgentEnv:
    """Return an environment as a plugin of the kind wrapper wraps it.

    A plugin that changes the whole environment has a method `wrap_agents(env)`; the hook `make_env` of any other one
    wraps the part of each agent. One without `make_env` changes the policy alone.
    """
    if hasattr(wrapper, "wrap_agents"):
        whole: MultiAgentEnv = wrapper.wrap_agents(env)
        return whole
    if not hasattr(wrapper, "make_env"):
        return env
    return WrappedParts(env, lambda part: _wrapped(wrapper, part, index))


def _wrapped(wrapper: Any, part: Env, index: int) -> Env:
    """Return an agent's part, as the hook `make_env` of a wrapper wraps it."""
    known = {"config": wrapper.config, "seed": index, "index": index, "purpose": "training"}
    taken = inspect.signature(wrapper.make_env).parameters
    hook = wrapper.make_env(**{name: value for name, value in known.items() if name in taken})
    next(hook)
    try:
        hook.send(part)
    except StopIteration as end:
        made: Env = end.value
        return made
    raise ConfigError(f"the hook make_env of {wrapper.config.name!r} yields twice", "wrappers")
