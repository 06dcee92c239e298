"""Action masks: find their leaves, and check that they fit and allow a choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from maze_core.envs.actors import actors_of, mask_place
from maze_core.envs.spaces import flatten_space
from maze_core.errors import ConfigError, RunError

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.data.batch import TensorTree


def mask_keys(observation_space: Space[Any], action_space: Space[Any]) -> dict[str, str]:
    """Return action key → observation leaf `<action key>_mask`, for the actions that have a mask.

    Raises:
        ConfigError: a mask for a Box action, or of the wrong size.
    """
    leaves = flatten_space(observation_space, "observation")
    several = actors_of(observation_space) is not None
    found = {}
    for key, space in flatten_space(action_space, "action").items():
        place = mask_place(key, leaves, several_actors=several)
        mask = leaves.get(place)
        if mask is None:
            continue
        wanted, got = mask_size(space), int(np.prod(mask.shape or ()))
        if wanted != got or isinstance(mask, spaces.Discrete):
            fix = f"it needs {wanted} entries" if wanted else "a Box action cannot be masked"
            raise ConfigError(
                f"observation {place!r} ({mask}) masks action {key!r} ({space}), but {fix}",
                where="env",
                hint="Give it one entry per choice (1: allowed), for example MultiBinary; or rename the key.",
            )
        found[key] = place
    return found


def mask_size(space: Space[Any]) -> int:
    """Return the entries of an action leaf's mask: one per choice (flat for MultiDiscrete) or bit; 0: no mask."""
    if isinstance(space, spaces.Discrete | spaces.MultiBinary):
        return int(np.prod(space.n))
    return int(space.nvec.sum()) if isinstance(space, spaces.MultiDiscrete) else 0


def check_masks(observation_space: Space[Any], action_space: Space[Any], obs: TensorTree) -> None:
    """Refuse observations whose masks forbid every choice. Call it once per rollout: it waits for the device.

    `obs`: leaves with any leading dimensions; only masks are read. MultiBinary actions always allow 0.

    Raises:
        RunError: a mask forbids every choice of a Discrete action or of a member of a MultiDiscrete one.
    """
    actions = flatten_space(action_space, "action")
    for key, mask_key in mask_keys(observation_space, action_space).items():
        space = actions[key]
        if isinstance(space, spaces.MultiBinary):
            continue
        sizes = [int(n) for n in space.nvec] if isinstance(space, spaces.MultiDiscrete) else [mask_size(space)]
        rows = (obs[mask_key] != 0).reshape(-1, sum(sizes))
        free = torch.stack([part.any(-1) for part in torch.split(rows, sizes, -1)], -1)
        if not bool(free.all()):
            row, member = (int(i) for i in (~free).nonzero()[0])
            place = f", member {member}" if len(sizes) > 1 else ""
            raise RunError(
                f"the mask {mask_key!r} forbids every choice of action {key!r}{place} (row {row} of "
                f"{len(rows)}).\n"
                "An environment must leave at least one action allowed, or end the episode."
            )
