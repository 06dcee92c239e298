"""The state of environments as a checkpoint records it: the unfinished episodes, to be replayed."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.base.tree import map_tree, take_rows


def check_state(state: dict[str, Any], num_envs: int) -> np.ndarray:
    """Return the lengths [num_envs] of the unfinished episodes in a recorded state."""
    lengths: np.ndarray = np.asarray(state["length"])
    if len(lengths) != num_envs:
        raise ConfigError(
            f"the saved run steps {len(lengths)} environments in parallel, this one {num_envs}",
            where="algorithm.num_envs",
            hint=f"Set algorithm.num_envs to {len(lengths)}.",
        )
    return lengths


def share_of_state(state: dict[str, Any], envs: slice, agent_rows: int = 1) -> dict[str, Any]:
    """Return the part of a recorded state for some environments, cut to their longest episode.

    `agent_rows`: rows of each environment.
    """
    share: dict[str, Any] = {name: state[name][envs] for name in ("episode", "length", "memory") if name in state}
    rows = slice(envs.start * agent_rows, envs.stop * agent_rows)
    if "acting" in state:
        share["acting"] = state["acting"][rows]
    longest = int(max(share["length"], default=0))
    share["actions"] = map_tree(lambda array: array[len(array) - longest :, rows], state["actions"])
    if "rewards" in state:
        share["rewards"] = state["rewards"][len(state["rewards"]) - longest :, rows]
    share["observation"] = take_rows(state["observation"], rows)
    return share


def same_rewards(state: dict[str, Any], row: int, rewards: list[float]) -> bool:
    """Return True if these are the last rewards that a state records of a row, as far as it records them."""
    if "rewards" not in state:  # an older version did not write them
        return True
    recorded = state["rewards"][len(state["rewards"]) - len(rewards) :, row]
    return bool(np.all(np.isnan(recorded) | (recorded == np.asarray(rewards, np.float32))))
