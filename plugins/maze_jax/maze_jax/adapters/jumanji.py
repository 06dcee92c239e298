"""jumanji: combinatorial problems, packing, routing and puzzles, with masks of the actions that are allowed.

Its steps have a type, of which the last one ends an episode; with a discount above 0 there, it was cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from maze_jax.adapters.asked import built, chosen, no_parameters
from maze_jax.adapters.masked import flat_mask, mask_of
from maze_jax.simulator import Simulator, Transition
from maze_jax.spaces import box, of_arrays
from maze_jax.start import imported, jax_for


def simulator(name: str, kwargs: Mapping[str, Any], params: Mapping[str, Any]) -> Simulator:
    """Return the environment; `kwargs` are arguments of its class.

    Raises:
        ConfigError: jumanji is not installed, or has no such environment or argument.
    """
    jax = jax_for("jumanji")
    jumanji = imported("jumanji", "jumanji")
    no_parameters("jumanji", params)
    env = built("jumanji", jumanji.make, chosen("jumanji", name, jumanji.registered_environments()), kwargs)
    actions = _space(env.action_spec)

    def seen(observation: Any) -> Any:
        parts = _parts(observation)
        return flat_mask(jax.numpy, actions, parts) if isinstance(parts, dict) else parts

    def reset(key: Any) -> tuple[Any, Any]:
        state, step = env.reset(key)
        return state, seen(step.observation)

    def step(key: Any, state: Any, action: Any) -> Transition:
        after, taken = env.step(state, action)
        over, discount = taken.step_type == 2, taken.discount
        return Transition(after, seen(taken.observation), taken.reward, over & (discount == 0), over & (discount > 0))

    _, first = jax.eval_shape(reset, jax.ShapeDtypeStruct((2,), "uint32"))
    return Simulator(mask_of(actions, of_arrays(first)), actions, reset, step)


def _parts(observation: Any) -> Any:
    """Return an observation of jumanji, named tuples or dataclasses of arrays, as dicts."""
    fields = getattr(observation, "_asdict", None)
    if fields is not None:
        return {key: _parts(each) for key, each in fields().items()}
    if hasattr(observation, "__dataclass_fields__"):
        return {key: _parts(getattr(observation, key)) for key in observation.__dataclass_fields__}
    if isinstance(observation, Mapping):
        return {str(key): _parts(each) for key, each in observation.items()}
    return observation


def _space(spec: Any) -> Space[Any]:
    """Return the space of an action."""
    counts = getattr(spec, "num_values", None)
    if counts is None:
        return box(spec.minimum, spec.maximum, spec.shape, spec.dtype)
    return spaces.Discrete(int(counts)) if np.ndim(counts) == 0 else spaces.MultiDiscrete(np.asarray(counts, np.int64))
