"""Turns observation leaves into features, and those that are masks into masks of actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core.base.errors import ConfigError
from maze_core.envs.actors import is_for_critics
from maze_core.envs.masks import masks_among
from maze_core.envs.spaces import MAX_ENTRIES, flatten_space, is_image, is_narrow
from maze_core.models.blocks import MLP, Activation, members

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gymnasium import Space

    from maze_core.base.tree import TensorTree


def input_spaces(observation_space: Space[Any], action_space: Space[Any]) -> dict[str, Space[Any]]:
    """Return the observation leaves that a policy sees: all but the action masks and what critics alone see."""
    leaves = critic_spaces(observation_space, action_space)
    return {key: space for key, space in leaves.items() if not is_for_critics(key)}


def critic_spaces(observation_space: Space[Any], action_space: Space[Any]) -> dict[str, Space[Any]]:
    """Return the observation leaves that a critic sees: all but the action masks."""
    leaves = flatten_space(observation_space, "observation")
    masks = masks_among(leaves, action_space)
    return {key: space for key, space in leaves.items() if key not in masks}


def flat_spaces(
    observation_space: Space[Any], action_space: Space[Any], model: str, summaries: Any = None
) -> tuple[dict[str, Space[Any]], dict[str, Space[Any]]]:
    """Return the results of `input_spaces` and `critic_spaces` for a model without convolutions.

    Args:
        observation_space: of a single environment.
        action_space: of a single environment.
        model: the model's name.
        summaries: what stands in the place of described choices; None: nothing does.

    Raises:
        ConfigError: an observation is an image.
    """
    seen_by_critic = critic_spaces(observation_space, action_space)
    if summaries is not None:
        seen_by_critic = summaries.among(seen_by_critic)
    for key, space in seen_by_critic.items():
        if is_image(space):
            raise ConfigError(
                f"the model {model} does not take images, but observation {key!r} has shape {space.shape}",
                where="model.name",
                hint=f"Next: --model {'cnn' if len(seen_by_critic) == 1 else 'template'}, or --wrappers flatten",
            )
    return {key: space for key, space in seen_by_critic.items() if not is_for_critics(key)}, seen_by_critic


class Flatten(nn.Module):
    """A Box or MultiBinary leaf [B, …] → float32 [B, d]; uint8 is divided by its largest value."""

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        shape = space.shape or ()
        self.out_features = int(np.prod(shape))
        self._vector = len(shape) == 1
        self._scale = pixel_scale(space)
        self.is_plain = self._vector and space.dtype in (np.float32, np.float64) and not is_narrow(space)
        """True for a float32 vector in storage, which passes unchanged."""

    def forward(self, leaf: Tensor) -> Tensor:
        """[B, …] → [B, d]."""
        rows = leaf.float() if self._vector else leaf.reshape(leaf.shape[0], -1).float()
        return rows if self._scale is None else rows * self._scale


class OneHot(nn.Module):
    """A Discrete or MultiDiscrete leaf → float32 [B, sum(nvec)].

    Raises:
        ConfigError: there are more values than Maze supports.
    """

    classes: Tensor
    position: Tensor

    def __init__(self, space: spaces.Discrete | spaces.MultiDiscrete) -> None:
        super().__init__()
        nvec = [int(space.n)] if isinstance(space, spaces.Discrete) else [int(n) for n in space.nvec]
        self.out_features = sum(nvec)
        if self.out_features > MAX_ENTRIES:
            raise ConfigError(
                f"an observation ({type(space).__name__}) has {self.out_features:,} values, too many for a network "
                "with one input per value",
                "env",
                "Next: use a wrapper that turns them into a Box, or reduces their number.",
            )
        self._scalar = isinstance(space, spaces.Discrete)
        position = np.repeat(np.arange(len(nvec)), nvec)
        self.register_buffer("position", torch.as_tensor(position), persistent=False)
        self.register_buffer("classes", torch.cat([torch.arange(n) for n in nvec]), persistent=False)

    def forward(self, leaf: Tensor) -> Tensor:
        """[B] or [B, k] → [B, sum(nvec)]."""
        values = leaf.unsqueeze(-1) if self._scalar else leaf.index_select(-1, self.position)
        return (values == self.classes).float()


class FlatInput(nn.Module):
    """Observation leaves → float32 rows [B, out_features]: flattened or one-hot, in key order."""

    def __init__(self, leaves: Mapping[str, Space[Any]]) -> None:
        super().__init__()
        self.keys = tuple(leaves)
        parts = [flat_part(space) for space in leaves.values()]
        self.parts = nn.ModuleList(parts)
        self.out_features = sum(part.out_features for part in parts)

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → [B, out_features]."""
        rows = [part.forward(obs[key]) for key, part in zip(self.keys, members(self, "parts"), strict=True)]
        return rows[0] if len(rows) == 1 else torch.cat(rows, -1)


def flat_part(space: Space[Any]) -> Flatten | OneHot:
    """Return the module that turns one leaf other than an image into rows of floats."""
    return OneHot(space) if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else Flatten(space)


def pixel_scale(space: Space[Any]) -> float | None:
    """Return the factor that scales a uint8 Box leaf to [0, 1]; None for other leaves."""
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return None
    return 1.0 / max(1.0, float(np.max(space.high)))


def joined_mask(obs: TensorTree, leaves: Sequence[str]) -> Tensor:
    """Return an action's mask [B, n], not 0 where a choice is allowed, from its leaves [B, …] in observations."""
    parts = [obs[key].flatten(1) for key in leaves]
    return parts[0] if len(parts) == 1 else torch.cat([part != 0 for part in parts], 1)


class MlpEncoder(nn.Module):
    """Leaves without images, flattened or one-hot → concatenated → fully connected layers."""

    def __init__(
        self,
        leaves: Mapping[str, Space[Any]],
        hidden: Sequence[int],
        activation: Activation,
        *,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.input = FlatInput(leaves)
        self.trunk = MLP(self.input.out_features, hidden, activation, layer_norm=layer_norm)
        self.out_features = self.trunk.out_features

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → [B, out_features]."""
        modules: Any = self._modules  # as attributes they cost a microsecond
        rows: Tensor = modules["trunk"].forward(modules["input"].forward(obs))
        return rows
