"""gymnax: classic control, bsuite, MinAtar and others, after gym's interface.

Its steps say whether an episode ended by itself, and `is_truncated` whether its time limit cuts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maze_jax.adapters.asked import built, chosen, with_parameters
from maze_jax.simulator import Simulator, Transition
from maze_jax.spaces import converted, of_arrays
from maze_jax.start import imported, jax_for


def simulator(name: str, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Simulator:
    """Return the environment; `kwargs` are arguments of its class, `params` its parameters (`EnvParams`).

    Raises:
        ConfigError: gymnax is not installed, or has no such environment, argument or parameter.
    """
    jax = jax_for("gymnax")
    gymnax = imported("gymnax", "gymnax")
    env, default = built("gymnax", gymnax.make, chosen("gymnax", name, gymnax.registered_envs), kwargs)
    own = with_parameters(default, params)

    def reset(key: Any) -> tuple[Any, Any]:
        observation, state = env.reset_env(key, own)
        return state, observation

    def step(key: Any, state: Any, action: Any) -> Transition:
        observation, after, reward, terminated, _ = env.step_env(key, state, action, own)
        return Transition(after, observation, reward, terminated, env.is_truncated(after, own))

    _, first = jax.eval_shape(reset, jax.ShapeDtypeStruct((2,), "uint32"))
    seen = of_arrays(first, converted(env.observation_space(own)))
    return Simulator(seen, converted(env.action_space(own)), reset, step)
