"""Critics of states and actions, several in one batched computation."""

from __future__ import annotations

import copy
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from maze_core import ConfigError
from maze_core.envs.actors import is_for_critics
from maze_core.envs.spaces import is_image
from maze_core.models.blocks import activation_function, members
from maze_core.models.inputs import FlatInput, MlpEncoder, critic_spaces
from maze_offpolicy.models.critic_memories import CriticMemories
from maze_offpolicy.models.stacked_norms import StackedBatchRenorm, StackedLayerNorm, dropped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gymnasium import Space

    from maze_core import Policy, Sequences, TensorTree
    from maze_core.models.blocks import Activation
    from maze_core.models.memory import Memory
    from maze_offpolicy.models.stacked_norms import Norm


class StateActionCritics(nn.Module):
    """K critics with the same layers and different parameters: observations and actions → values [K, B, outputs].

    The parameters of a layer are stacked, `[K, in, out]`, so all critics are one batched multiplication.

    Args:
        observations: flattens the observations; or K encoders, one for each critic.
        box_size: dimensions d of the Box actions, which are inputs; 0: none.
        outputs: values that each critic returns, such as one for each choice of a Discrete action.
        hidden: units of each hidden layer.
        activation: of the hidden layers.
        count: K.
        norm: `layer`: layer normalisation before the activations; `batch`: batch renormalisation of the inputs and
            after the activations.
        dropout: share of the hidden units that are dropped, before normalisation.
        make_memory: builds a memory for features of a width, between observations and layers; None: no memory.
        share_memory: one memory for all critics; false: each has its own.
    """

    def __init__(
        self,
        observations: FlatInput | tuple[nn.Module, ...],
        box_size: int,
        outputs: int,
        hidden: Sequence[int],
        activation: Activation,
        count: int = 2,
        norm: Norm = "none",
        dropout: float = 0.0,
        make_memory: Callable[[int], Memory] | None = None,
        share_memory: bool = False,
    ) -> None:
        super().__init__()
        self.count = count
        self.encoders = nn.ModuleList(observations if isinstance(observations, tuple) else [observations])
        features = cast(int, self.encoders[0].out_features)
        memories = 1 if share_memory else count
        self.memories = None if make_memory is None else CriticMemories(make_memory, features, memories)
        features = features if self.memories is None else self.memories.out_features
        self._layers: list[tuple[str, str]] = []
        for number, sizes in enumerate(pairwise([features + box_size, *hidden, outputs])):
            self._add_layer(number, *sizes)
        self._activate = activation_function(activation)
        self._dropout = dropout
        layers = [StackedLayerNorm(count, size) for size in hidden] if norm == "layer" else []
        batches = [StackedBatchRenorm(count, n) for n in (features + box_size, *hidden)] if norm == "batch" else []
        self.norms = nn.ModuleList([*layers, *batches])
        self._norm = norm
        self._is_plain = norm == "none" and not dropout

    def _add_layer(self, number: int, inputs: int, outputs: int) -> None:
        # torch's own initialisation of a linear layer.
        bound = 1 / math.sqrt(inputs)
        weight, bias = f"weight_{number}", f"bias_{number}"
        self.register_parameter(weight, nn.Parameter(torch.empty(self.count, inputs, outputs).uniform_(-bound, bound)))
        self.register_parameter(bias, nn.Parameter(torch.empty(self.count, 1, outputs).uniform_(-bound, bound)))
        self._layers.append((weight, bias))

    def features(self, obs: TensorTree, sequences: Sequences | None = None) -> Tensor:
        """Return the critics' features of observations [B, …]: [K, B, F], or [1, B, F] where they are equal.

        `sequences`: those of the rows, with what the critics remember, where they have a memory.
        """
        features = self._encoded(obs)
        return features if self.memories is None else self.memories.forward(features, sequences)

    def _encoded(self, obs: TensorTree) -> Tensor:
        return torch.stack([encoder.forward(obs) for encoder in members(self, "encoders")])

    def initial_state(self, rows: int) -> TensorTree:
        """Return what the critics remember where episodes begin, leaves [rows, …]; empty without memory."""
        return {} if self.memories is None else self.memories.initial_state(rows)

    def state_after(self, obs: TensorTree, sequences: Sequences) -> TensorTree:
        """Return what the critics remember after each sequence of observations, leaves [S, …]; empty without memory."""
        if self.memories is None:
            return {}
        return self.memories.after(self._encoded(obs), sequences)

    def values(
        self,
        features: Tensor,
        box: Tensor | None,
        *,
        frozen: bool = False,
        batch: bool = False,
        chance: torch.Generator | None = None,
        first: int | None = None,
    ) -> Tensor:
        """Return values [K, B, outputs] for `features` and Box actions [B, d] in [-1, 1].

        Args:
            features: the result of `features`.
            box: the Box leaves of the actions; None if there are none.
            frozen: the parameters get no gradient.
            batch: batch normalisation uses the statistics of these rows and adds them to the running ones; otherwise it
                uses the running ones.
            chance: what dropout is drawn with; None: no dropout.
            first: how many critics are computed, in critics without norms; None: all.
        """
        if box is not None:
            features = torch.cat((features, box.expand(features.shape[0], -1, -1)), -1)
        values = features.expand(self.count, -1, -1)
        if first is not None:
            values = values[:first]
        if self._norm == "batch":
            values = cast(StackedBatchRenorm, self.norms[0]).forward(values, batch=batch, frozen=frozen)
        parameters = cast("dict[str, Tensor]", self._parameters)
        for number, (weight_name, bias_name) in enumerate(self._layers):
            weight, bias = parameters[weight_name], parameters[bias_name]
            if first is not None:
                weight, bias = weight[:first], bias[:first]
            if frozen:
                weight, bias = weight.detach(), bias.detach()
            if weight_name != self._layers[-1][0]:
                values = torch.baddbmm(bias, values, weight)
                values = (
                    self._activate(values) if self._is_plain else self._hidden(number, values, frozen, batch, chance)
                )
            elif weight.shape[-1] > 1:
                values = torch.baddbmm(bias, values, weight)
            else:
                # Five times faster than a batched multiplication by a single column.
                values = (values * weight.transpose(1, 2)).sum(-1, keepdim=True) + bias
        return values

    def _hidden(self, number: int, values: Tensor, frozen: bool, batch: bool, chance: torch.Generator | None) -> Tensor:
        """Return the units of a hidden layer, [K, B, F], from their sums.

        Dropout, layer norm, activation, batch norm, as far as there are any, in the order of DroQ (Hiraoka et al.,
        arXiv 2110.02034) and of CrossQ (Bhatt et al., arXiv 1902.05605).
        """
        if self._dropout and chance is not None:
            values = dropped(values, self._dropout, chance)
        if self._norm == "layer":
            values = cast(StackedLayerNorm, self.norms[number]).forward(values, frozen=frozen)
        values = self._activate(values)
        if self._norm == "batch":
            values = cast(StackedBatchRenorm, self.norms[number + 1]).forward(values, batch=batch, frozen=frozen)
        return values


def build_critics(
    policy: Policy,
    box_size: int,
    outputs: int,
    hidden: Sequence[int],
    activation: Activation,
    count: int = 2,
    norm: Norm = "none",
    dropout: float = 0.0,
    make_memory: Callable[[int], Memory] | None = None,
    share_memory: bool = False,
) -> StateActionCritics:
    """Return critics for a policy's observations: flattened, or through copies of the policy's encoder.

    Arguments as for `StateActionCritics`.

    Encoders are copied where they are more than fully connected layers (images, a user's own module). Leaves that
    critics alone see, which these do not take, are flattened beside their features.

    Raises:
        ConfigError: an observation is an image and the policy has no encoder to copy, or choices are scored by their
            features.
    """
    if getattr(policy, "described", None) and outputs > 1:
        raise ConfigError(
            "the critics of this algorithm value choices by their numbers, not by their features",
            "model.choice_features",
            "Next: leave it out, or use ppo or dqn.",
        )
    copies = 1 if make_memory is not None and share_memory else count  # what one memory reads is the same for all
    encoder = getattr(policy, "encoder", None)
    observations = critic_encoders(policy.observation_space, policy.action_space, encoder, copies)
    return StateActionCritics(
        observations, box_size, outputs, hidden, activation, count, norm, dropout, make_memory, share_memory
    )


def critic_encoders(
    observation_space: Space[Any], action_space: Space[Any], encoder: nn.Module | None, count: int
) -> FlatInput | tuple[nn.Module, ...]:
    """Return what turns observations into features for `count` critics: one module for all, or a copy for each.

    Args:
        observation_space: of a single environment; critics also see the leaves for critics alone.
        action_space: of a single environment.
        encoder: the policy's; None: it has none.
        count: number of copies.

    Raises:
        ConfigError: an observation is an image and the policy has no encoder to copy.
    """
    leaves = critic_spaces(observation_space, action_space)
    if encoder is None:
        images = [key for key, space in leaves.items() if is_image(space)]
        if images:
            raise ConfigError(
                f"the critics need an encoder for the image {images[0]!r}, but the policy has no `encoder`",
                "model",
                "Give the policy an attribute `encoder`, or pass only the encoder to Maze.",
            )
    if encoder is None or isinstance(encoder, MlpEncoder):
        return FlatInput(leaves)
    unseen = {key: space for key, space in leaves.items() if is_for_critics(key)}
    return tuple(_with_leaves(copy.deepcopy(encoder), unseen) for _ in range(count))


class _WithLeaves(nn.Module):
    """The features of an encoder, and those of leaves that it does not see."""

    def __init__(self, encoder: nn.Module, leaves: FlatInput) -> None:
        super().__init__()
        self.encoder, self.leaves = encoder, leaves
        self.out_features = cast(int, encoder.out_features) + leaves.out_features

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → [B, out_features]."""
        return torch.cat((self.encoder(obs), self.leaves.forward(obs)), -1)


def _with_leaves(encoder: nn.Module, leaves: dict[str, Space[Any]]) -> nn.Module:
    return _WithLeaves(encoder, FlatInput(leaves)) if leaves else encoder
