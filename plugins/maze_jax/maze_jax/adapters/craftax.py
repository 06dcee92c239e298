"""craftax: Crafter and NetHack in one, and Crafter itself (Classic), with symbols or pixels.

A step says `done` for a death as for its time limit, so the limit is looked up in the state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from maze_jax.adapters.asked import built, chosen, with_parameters
from maze_jax.names import IDS
from maze_jax.simulator import Simulator, Transition
from maze_jax.spaces import converted, of_arrays
from maze_jax.start import imported, jax_for


def simulator(name: str, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Simulator:
    """Return the environment; `params` are its parameters (`EnvParams`), such as `max_timesteps`.

    Raises:
        ConfigError: craftax is not installed, or has no such environment or parameter.
    """
    jax = jax_for("craftax")
    make = imported("craftax.craftax_env", "craftax").make_craftax_env_from_name
    known = re.sub("-AutoReset", "", name)
    env = built(
        "craftax",
        lambda name, **given: make(name, auto_reset=False, **given),
        chosen("craftax", known, IDS["craftax"]),
        kwargs,
    )
    own = with_parameters(env.default_params, params)

    def reset(key: Any) -> tuple[Any, Any]:
        observation, state = env.reset_env(key, own)
        return state, observation

    def step(key: Any, state: Any, action: Any) -> Transition:
        observation, after, reward, done, _ = env.step_env(key, state, action, own)
        # Who dies, or beats the game, in the last step has come to an end; lava kills in Classic without wounding.
        earlier = after.replace(timestep=own.max_timesteps - 1)
        terminated = env.is_terminal(earlier, own)
        return Transition(after, observation, reward, terminated, done & ~terminated)

    _, first = jax.eval_shape(reset, jax.ShapeDtypeStruct((2,), "uint32"))
    seen = of_arrays(first, converted(env.observation_space(own)))
    return Simulator(seen, converted(env.action_space(own)), reset, step)
