"""MuJoCo Playground: robots and dm_control's tasks by MuJoCo in JAX (MJX).

Its states are like brax's; an episode has the length that the environment's configuration names. What it calls the
privileged state is for critics alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from maze_jax.adapters.asked import built, chosen, no_parameters
from maze_jax.adapters.brax import of_states
from maze_jax.simulator import Simulator, Transition
from maze_jax.start import imported, jax_for, on_cpu

_LIMIT = 1000
_CRITIC = {"state": "observation", "privileged_state": "critic"}
"""Maze's names of the parts of an observation; policies do not see `critic`."""


def simulator(name: str, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Simulator:
    """Return the environment; `kwargs` are entries of its configuration, such as `ctrl_dt`.

    Raises:
        ConfigError: playground is not installed, or has no such environment or entry.
    """
    jax_for("playground")
    registry = imported("mujoco_playground", "playground").registry
    no_parameters("playground", params)
    known = chosen("playground", name, registry.ALL_ENVS)
    default, given = registry.get_default_config(known), dict(kwargs)
    if "impl" in default and on_cpu():
        given.setdefault("impl", "jax")  # the other way of simulating, Warp, needs a GPU
    env = built("playground", lambda name, **given: registry.load(name, config_overrides=given), known, given)
    limit = default.get("episode_length", _LIMIT)
    return _with_critic(of_states(env, int(kwargs.get("episode_length", limit))))


def _with_critic(plain: Simulator) -> Simulator:
    """Return a simulator whose privileged observations are those of critics alone."""
    space = plain.observation_space
    if not isinstance(space, spaces.Dict) or "privileged_state" not in space.spaces:
        return plain

    def named(observation: Any) -> dict[str, Any]:
        return {_CRITIC.get(key, key): each for key, each in observation.items()}

    def reset(key: Any) -> tuple[Any, Any]:
        state, observation = plain.reset(key)
        return state, named(observation)

    def step(key: Any, state: Any, action: Any) -> Transition:
        outcome = plain.step(key, state, action)
        return outcome._replace(observation=named(outcome.observation))

    return dataclasses.replace(plain, observation_space=spaces.Dict(named(space.spaces)), reset=reset, step=step)
