"""The storage of a replay row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import flatten_space
from maze_core.envs.spaces import LeafSpec, Specs, choices_of, space_specs
from maze_offpolicy.replay.frames import FrameStack

if TYPE_CHECKING:
    from gymnasium import Space

Stacks = Mapping[str, FrameStack]
"""The leaves of observations that are stacks of frames, by key."""
NO_STACKS: Stacks = MappingProxyType({})
_BOOKKEEPING = {
    "reward": LeafSpec((), np.dtype(np.float32)),
    "terminated": LeafSpec((), np.dtype(np.bool_)),
    "truncated": LeafSpec((), np.dtype(np.bool_)),
    "ahead": LeafSpec((), np.dtype(np.int32)),
}


def row_specs(
    observation_space: Space[Any],
    action_space: Space[Any],
    stacks: Stacks = NO_STACKS,
    info_columns: Sequence[str] = (),
) -> Specs:
    """Return the storage of each column of a replay row: `obs/KEY`, `action/KEY`, `info/NAME`, reward, flags, `ahead`.

    Of leaves that are stacks of frames, rows hold the numbers of the frames.
    """
    obs, actions = space_specs(observation_space, "observation"), space_specs(action_space, "action")
    numbers = {key: LeafSpec((stack.frames,), np.dtype(np.int64)) for key, stack in stacks.items()}
    return {
        **{f"obs/{key}": numbers.get(key, spec) for key, spec in obs.items()},
        **{f"action/{key}": spec for key, spec in actions.items()},
        **{f"info/{name}": _BOOKKEEPING["reward"] for name in info_columns},
        **_BOOKKEEPING,
    }


def row_limits(observation_space: Space[Any], action_space: Space[Any], stacks: Stacks) -> dict[str, Any]:
    """Return what the whole numbers of a row's columns stay below, by name."""
    obs, actions = flatten_space(observation_space, "observation"), flatten_space(action_space, "action")
    found = {f"obs/{key}": choices_of(space) for key, space in obs.items() if key not in stacks}
    found |= {f"action/{key}": choices_of(space) for key, space in actions.items()}
    return {name: below for name, below in found.items() if below is not None}
