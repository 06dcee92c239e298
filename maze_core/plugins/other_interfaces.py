"""Recognises environments with interfaces other than gymnasium's; the errors say what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import gymnasium

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.terminal_text import shown
from maze_core.plugins.discovery import describe, missing

_OLD = "the environment uses the old API of gym"
_UPDATE = (
    "Let reset(seed, options) return (observation, info) and step return (observation, reward, terminated, truncated,"
    " info); or let Maze convert what it returns: --set env.old_api=true"
)
_CONVERTED = "maze_core.envs.interfaces.as_gymnasium(env)"
_DECLARE = "Set it in the environment's constructor: self.{} = gymnasium.spaces.Box(…), or Discrete(…), Dict(…), …"
_UNPACKED = re.compile(r"values to unpack \(expected [45](?:, got (\d+))?\)|cannot unpack non-iterable (\w+) object")


def foreign(env: object) -> ConfigError | None:
    """Return the error for a known kind of object that is not a single gymnasium environment; None for any other."""
    name = type(env).__name__
    if "envpool" in _packages(env):
        return _wrong(
            f"{name} is a batch of EnvPool's environments, but Maze vectorises single environments itself",
            "Name it instead, with the package maze-envpool: --env envpool:ID, with an ID of `maze envs list envpool`,"
            " and --num-envs for their number.",
            "envpool",
        )
    if is_of_pettingzoo(env):
        inner = type(getattr(env, "unwrapped", env))
        place = f"{inner.__module__}:{inner.__qualname__}"
        first = "" if "pettingzoo" in _packages(env) else "Derive it from pettingzoo.ParallelEnv or AECEnv. "
        return _wrong(
            f"{name} is a PettingZoo environment with several agents",
            f"{first}Name its class, with the package maze-pettingzoo: --env {place}, or annotate the function that"
            " makes it: def make() -> pettingzoo.ParallelEnv",
            "pettingzoo",
        )
    if isinstance(env, gymnasium.vector.VectorEnv):
        return _wrong(
            f"{name} is already vectorised, but Maze vectorises single environments itself",
            "Pass a function that builds one environment, or the class itself, which is called with num_envs."
            " A function def make(num_envs, **kwargs): … goes into a module my_envs, with"
            " gymnasium.register('My-v0', vector_entry_point=make) below it; then --env my_envs:My-v0.",
        )
    if is_of_dm_env(env) or is_of_gym(env):
        kind = "dm_env" if is_of_dm_env(env) else "gym"
        return _wrong(f"{name} is an environment of {kind}", f"Let the env source return {_CONVERTED}.")
    return None


def is_of_pettingzoo(env: object) -> bool:
    """Return True for an environment with several agents and PettingZoo's interface."""
    return "pettingzoo" in _packages(env) or _has(env, "possible_agents", "observation_space", "action_space")


def is_of_dm_env(env: object) -> bool:
    """Return True for an environment with dm_env's interface."""
    return _has(env, "observation_spec", "action_spec")


def is_of_gym(env: object) -> bool:
    """Return True for an environment of gym, gymnasium's predecessor."""
    return "gym" in _packages(env) and not isinstance(env, gymnasium.Env)


def check_spaces(env: gymnasium.Env[Any, Any]) -> None:
    """Check that an environment, or a wrapper, has spaces; whether Maze supports them is not checked.

    Raises:
        ConfigError: one is missing, or it is not a space.
        RunError: reading one raises.
    """
    for name in ("observation_space", "action_space"):
        try:
            space = getattr(env, name)
        except Exception as exc:
            from maze_core.base.blame import blame  # when something has failed

            if not isinstance(exc, AttributeError) or blame(exc):
                raise RunError(f"{name} of the environment raised {type(exc).__name__}: {exc}") from exc
            raise _wrong(f"{type(env.unwrapped).__name__} has no {name}", _DECLARE.format(name)) from exc
        if not isinstance(space, gymnasium.Space):
            role = name.replace("_", " ")
            raise _wrong(f"the {role} is {shown(space)}, which is not a gymnasium.Space", _DECLARE.format(name))


def check_reset(result: object) -> None:
    """Check what a reset returns.

    Raises:
        ConfigError: it is not a pair of observation and info.
    """
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], (dict, Mapping)):
        return
    if isinstance(result, tuple):
        info = f"returns an info that is no dict but {type(result[-1]).__name__}" if len(result) == 2 else ""
        raise _wrong(f"the environment's reset {info or f'returns {len(result)} values, not 2'}", _UPDATE)
    if result is None:
        raise _wrong("the environment's reset returns None", _UPDATE)
    raise _wrong(f"{_OLD}: its reset returns an observation alone", _UPDATE)


def old_api(error: BaseException) -> ConfigError | None:
    """Return the error for an environment whose `error` shows that it uses the old API; else None."""
    from maze_core.base.blame import blame

    text = describe(error)
    found = _UNPACKED.search(text) if isinstance(error, ValueError | TypeError) else None
    if found is not None and not blame(error):
        if found[1] == "4" or "too many values to unpack (expected 4)" in text:
            return _wrong(f"{_OLD}: its step returns 4 values", _UPDATE)
        got = f"{found[1]} values" if found[1] else found[2] or "more than 5 values"
        return _wrong(f"the environment's step returns {got}, not 5 values", _UPDATE)
    if isinstance(error, TypeError) and "reset() got an unexpected keyword argument" in text and not blame(error):
        return _wrong(f"{_OLD}: its reset takes no seed or no options", _UPDATE)
    return None


def _packages(env: object) -> set[str]:
    return {each.__module__.partition(".")[0] for each in type(env).__mro__}


def _has(env: object, *methods: str) -> bool:
    """Return True where these are methods (or the list of agents); gymnasium's environments have spaces there."""
    return all(name in dir(env) for name in methods) and all(
        callable(getattr(type(env), name, None)) for name in methods if name != "possible_agents"
    )


def _wrong(message: str, hint: str, source: str = "") -> ConfigError:
    """Return the error; `source`: the env source that the hint is about, which may not be installed."""
    advice = missing("env", source) if source else ""
    return ConfigError(message, "env", f"{hint}\n{advice}" if advice else hint)
