"""Whether an environment is a function of its state and action alone: computed twice, compared bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import ConfigError
from maze_jax.stepping import Stepping

if TYPE_CHECKING:
    from maze_jax.simulator import Simulator

_STEPS = 8


def check_repeats(simulator: Simulator) -> None:
    """Reset and step an environment, then compile it anew and do the same: every array has to be the same.

    What Python code remembers, or draws from random numbers of its own, enters a program when it is compiled, so that
    two programs differ.

    Raises:
        ConfigError: an array differs.
    """
    import jax

    runs = []
    for _ in range(2):
        jax.clear_caches()  # a function that was compiled before would not be looked at again
        runs.append(_played(jax, simulator))
    for moment, (one, other) in enumerate(zip(*runs, strict=True)):
        for path, leaf in jax.tree_util.tree_leaves_with_path(one):
            again = dict(jax.tree_util.tree_leaves_with_path(other))[path]
            if not np.array_equal(leaf, again, equal_nan=np.asarray(leaf).dtype.kind == "f"):
                what = "its reset" if moment == 0 else f"step {moment}"
                raise ConfigError(
                    f"the environment is not pure: {what}, from the same state, key and action, gave another result "
                    f"when it was compiled again, at {jax.tree_util.keystr(path)}",
                    "env",
                    "Next: keep all that changes in its state, and draw random numbers from the keys that it is given.",
                )


def _played(jax: Any, simulator: Simulator) -> list[Any]:
    """Return what a reset and some steps of a newly compiled environment give, each step taken twice."""
    stepping = Stepping(simulator, 1, None)
    seeds, numbers = np.arange(64, dtype=np.uint32)[None], np.zeros(1, np.int32)
    running = stepping.begin(seeds[:, 0], numbers)
    moments = [_arrays(jax, running)]
    rng = np.random.default_rng(0)
    space = simulator.action_space
    space.seed(int(rng.integers(2**31)))
    for _ in range(_STEPS):
        action = jax.tree.map(lambda leaf: np.asarray(leaf)[None], space.sample())
        first, again = (stepping.step(running, action, seeds, numbers) for _ in range(2))
        moments += [_arrays(jax, first), _arrays(jax, again)]
        running = first[0]
    return moments


def _arrays(jax: Any, tree: Any) -> Any:
    def array(leaf: Any) -> np.ndarray:
        keys = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if keys else leaf)

    return jax.tree.map(array, tree)
