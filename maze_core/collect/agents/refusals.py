"""Observations that are not acted on: what training refuses, outside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.envs.checks import check_finite

if TYPE_CHECKING:
    from maze_core.base.tree import Tree
    from maze_core.envs.masks import MaskCheck


_RETURNED = {2: "env.reset()", 5: "env.step(action)"}
# Calls by the number of values that they return.


def value_problem(tree: Tree, floats: tuple[str, ...], masks: MaskCheck) -> tuple[str, str] | None:
    """Return the leaf of an observation, leaves [1, …], that training would refuse, and why; None: there is none.

    Args:
        tree: the observation.
        floats: the leaves that can hold NaN or infinity.
        masks: finds masks that leave no choice.
    """
    bad = check_finite(tree, floats)
    if bad is not None:
        row = np.asarray(tree[bad[0]][0])
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(row))[0])
        return bad[0], f"it holds {row[place]}" + (f" at {list(place)}" if place else "")
    if masks.leaves and (closed := masks.find(tree)) is not None:
        return closed.leaf, closed.problem
    return None


def wrong_argument(observation: Any, space: gymnasium.Space[Any]) -> ConfigError | None:
    """Return the error for an argument that is more than one observation; None where it is something else.

    It is what `reset` or `step` of an environment returns, or a batch.
    """
    pair = isinstance(observation, tuple) and len(observation) in _RETURNED and isinstance(observation[-1], dict)
    if pair and not isinstance(space, gymnasium.spaces.Tuple):
        returned = _RETURNED[len(observation)]
        return ConfigError(f"is all that {returned} returns", "observation", f"Next: pass the first: {returned}[0]")
    shape = np.shape(observation) if isinstance(observation, np.ndarray | list) else ()
    if isinstance(space, gymnasium.spaces.Box) and len(shape) == len(space.shape) + 1 and shape[1:] == space.shape:
        problem = f"is a batch of {shape[0]}, of shape {shape}; it must be one observation, of shape {space.shape}"
        return ConfigError(problem, "observation", "Next: context.compute_actions(observations)")
    return None


def refused(leaf: str, problem: str, agent: str | None = None, *, checks: bool = True) -> ConfigError:
    """Return the error for an observation that is not acted on; `checks`: where values are looked at, too."""
    whose = "" if agent is None else f" of {agent!r}"
    hint = "The policy needs an observation with the structure, shapes and dtypes of its observation space."
    if checks:
        hint = (
            "The policy needs finite values of its observation space, with a choice left by each mask. "
            "With check=False it acts without looking."
        )
    return ConfigError(f"the observation{whose} is refused at {leaf!r}: {problem}", None, hint)
