"""Simulators in JAX for tests: a counter whose episodes are known in advance, and some that do not work."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from gymnasium import spaces

needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="JAX is an extra: make setup-jax")
needs_gymnax = pytest.mark.skipif(find_spec("gymnax") is None, reason="gymnax is an extra: make setup-jax")


def counter(goal=7):
    """Return a simulator that adds 0, 1 or 2 to a number from 0 to 2, and ends at `goal` or above.

    It observes the number and a noise of the step's key; the reward is what was added.
    """
    import jax
    import jax.numpy as jnp
    from maze_jax.simulator import Simulator, Transition

    def seen(number, key):
        return {"number": jnp.float32(number)[None], "noise": jax.random.uniform(key, (2,))}

    def reset(key):
        one, other = jax.random.split(key)
        number = jax.random.randint(one, (), 0, 3)
        return {"number": number, "key": key}, seen(number, other)

    def step(key, state, action):
        number = state["number"] + action
        after = {"number": number, "key": key}
        return Transition(after, seen(number, key), action, number >= goal, jnp.bool_(False))

    observation = spaces.Dict(
        {
            "number": spaces.Box(0, np.inf, (1,), np.float32),
            "noise": spaces.Box(0, 1, (2,), np.float32),
        }
    )
    return Simulator(observation, spaces.Discrete(3), reset, step)


def with_step(change):
    """Return the counter with a changed result of its step: `change` takes the transition and the step's key."""
    plain = counter()
    return replace(plain, step=lambda key, state, action: change(plain.step(key, state, action), key))
