"""Observations that are not acted on: what training refuses, outside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.envs.checks import check_finite

if TYPE_CHECKING:
    from maze_core.base.tree import Tree
    from maze_core.envs.masks import MaskCheck


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
