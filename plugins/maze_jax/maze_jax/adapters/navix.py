"""navix: MiniGrid's grids in JAX.

A step has a type, which tells an episode's end from a cut; a step after it would reset, which is done here instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from maze_jax.adapters.asked import built, chosen, no_parameters
from maze_jax.simulator import Simulator, Transition
from maze_jax.spaces import of_arrays
from maze_jax.start import imported, jax_for


def simulator(name: str, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Simulator:
    """Return the environment; `kwargs` are arguments of its constructor, such as `max_steps`.

    `observation` is the name of one of navix's observations, such as `symbolic_first_person` or `rgb`.

    Raises:
        ConfigError: navix is not installed, or has no such environment or argument.
    """
    jax = jax_for("navix")
    navix = imported("navix", "navix")
    no_parameters("navix", params)
    given = dict(kwargs)
    if (observation := given.pop("observation", None)) is not None:
        known = [each for each in vars(navix.observations) if callable(getattr(navix.observations, each))]
        given["observation_fn"] = getattr(navix.observations, chosen("navix.observations", str(observation), known))
    env = built("navix", navix.make, chosen("navix", name, navix.registry()), given)

    def reset(key: Any) -> tuple[Any, Any]:
        timestep = env.reset(key)
        return timestep, timestep.observation

    def step(key: Any, timestep: Any, action: Any) -> Transition:
        after = env._step(timestep, action)
        return Transition(after, after.observation, after.reward, after.is_termination(), after.is_truncation())

    _, first = jax.eval_shape(reset, jax.ShapeDtypeStruct((2,), "uint32"))
    return Simulator(of_arrays(first), spaces.Discrete(int(env.action_space.maximum) + 1), reset, step)
