"""brax: robots by its own physics and by MuJoCo's in JAX (MJX).

Its environments say `done` where an episode ends by itself; brax's training cuts them after 1,000 steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from maze_jax.adapters.asked import built, chosen, no_parameters
from maze_jax.simulator import Simulator, Transition
from maze_jax.spaces import of_arrays
from maze_jax.start import imported, jax_for

_LIMIT = 1000
"""Steps of an episode in brax's own training."""


def simulator(name: str, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Simulator:
    """Return the environment; `kwargs` are arguments of its class, such as `backend`.

    Raises:
        ConfigError: brax is not installed, or has no such environment or argument.
    """
    jax_for("brax")
    envs = imported("brax.envs", "brax")
    no_parameters("brax", params)
    env = built("brax", envs.get_environment, chosen("brax", name, envs._envs), kwargs)
    return of_states(env, _LIMIT)


def of_states(env: Any, limit: int) -> Simulator:
    """Return an environment whose reset and step return states with `obs`, `reward` and `done`, as brax's do.

    Its observations may be a dict. Actions are from -1 to 1.
    """
    import jax

    def reset(key: Any) -> tuple[Any, Any]:
        state = env.reset(key)
        return state, state.obs

    def step(key: Any, state: Any, action: Any) -> Transition:
        after = env.step(state, action)
        truncated = after.info.get("truncation", np.float32(0))
        return Transition(after, after.obs, after.reward, (after.done > 0) & ~(truncated > 0), truncated > 0)

    _, first = jax.eval_shape(reset, jax.ShapeDtypeStruct((2,), "uint32"))
    actions = spaces.Box(-1, 1, (env.action_size,), np.float32)
    return Simulator(of_arrays(first), actions, reset, step, limit)
