"""What actions mean, and in which units they are, where an environment declares it.

    class Crane(gymnasium.Env):
        metadata = {"render_modes": [], "action_meanings": ["trolley", "hoist"], "action_units": "m/s"}

Discrete actions have a meaning for each value; those of a Box, a MultiDiscrete or a MultiBinary one for each number,
or one for all. In a mapping the keys are those of a Dict action. A method `get_action_meanings` counts, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from math import prod
from typing import TYPE_CHECKING, Any

import gymnasium
from gymnasium import spaces

from maze_core import ConfigError
from maze_core.envs.spaces import leaves

if TYPE_CHECKING:
    from maze_core import Run
    from maze_export.interface import Interface

_KEYS = {"meanings": "action_meanings", "units": "action_units"}
_LONGEST = 200


def declared_actions(run: Run, interface: Interface) -> dict[str, dict[str, Any]]:
    """Return `meanings` and `units` of each output that is an action, where the environment declares them.

    Raises:
        ConfigError: there are more or fewer of them than the action has values.
    """
    builder = run.env_builder("acting")
    if builder.several_agents:
        return {}
    with closing(builder.single(0)) as env:
        declared = _declared(env, interface.action_space)
    found: dict[str, dict[str, Any]] = {}
    for leaf in leaves(interface.action_space, "action"):
        name = interface.actions[leaf.key].name
        for what, key in _KEYS.items():
            said = declared.get(key)
            its = said.get(leaf.key) if isinstance(said, Mapping) else said
            if its is not None:
                found.setdefault(name, {})[what] = _checked(its, what, key, leaf.key, leaf.space)
    return found


def _declared(env: gymnasium.Env[Any, Any], action_space: spaces.Space[Any]) -> Mapping[str, Any]:
    """Return what the environment, or a wrapper, declares; a wrapper that makes other actions hides what is below."""
    for layer in _layers(env):
        if layer.action_space != action_space:
            return {}
        own = layer._metadata if isinstance(layer, gymnasium.Wrapper) else layer.metadata
        if isinstance(own, Mapping) and own.keys() & set(_KEYS.values()):
            return own
    return _of_method(env.unwrapped, action_space)


def _of_method(env: Any, action_space: spaces.Space[Any]) -> Mapping[str, Any]:
    """Return what the method `get_action_meanings` says; nothing where another package means something else by it."""
    try:
        meanings = list(env.get_action_meanings())
    except Exception:  # noqa: BLE001 — there is none, or whatever the code of others raises
        return {}
    fits = isinstance(action_space, spaces.Discrete) and len(meanings) == action_space.n
    return {"action_meanings": meanings} if fits and all(isinstance(each, str) for each in meanings) else {}


def _layers(env: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
    yield env
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        yield env


def _checked(said: Any, what: str, key: str, leaf: str, space: spaces.Space[Any]) -> Any:
    """Return the declaration of one action."""
    count = int(space.n) if isinstance(space, spaces.Discrete) and what == "meanings" else prod(space.shape or ())
    texts = [said] if isinstance(said, str) else said
    if not isinstance(texts, list | tuple) or not all(
        isinstance(each, str) and len(each) <= _LONGEST for each in texts
    ):
        raise ConfigError(f"{key!r} in the environment's metadata must hold texts, got {said!r:.80}", "env")
    if not isinstance(said, str) and len(texts) != count:
        problem = f"{key!r} in the environment's metadata has {len(texts)} texts for {leaf!r}, which needs {count}"
        raise ConfigError(problem, "env")
    return said if isinstance(said, str) else list(said)
