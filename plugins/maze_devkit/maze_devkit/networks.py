"""A small network for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_core.models.inputs import MlpEncoder, input_spaces

if TYPE_CHECKING:
    from gymnasium import Space


def small_encoder(observation_space: Space[Any], action_space: Space[Any]) -> MlpEncoder:
    """Return an encoder of one layer for any observation."""
    return MlpEncoder(input_spaces(observation_space, action_space), (16,), "tanh")
