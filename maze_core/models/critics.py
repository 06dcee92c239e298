"""Critics of states and actions, several in one batched computation."""

from __future__ import annotations

import copy
import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from maze_core.errors import ConfigError
from maze_core.models.blocks import activation_function
from maze_core.models.encoders import MlpEncoder
from maze_core.models.inputs import FlatInput, critic_spaces, is_image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core.data.batch import TensorTree
    from maze_core.models.blocks import Activation
    from maze_core.models.policy import Policy


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
    """

    def __init__(
        self,
        observations: FlatInput | tuple[nn.Module, ...],
        box_size: int,
        outputs: int,
        hidden: Sequence[int],
        activation: Activation,
        count: int = 2,
    ) -> None:
        super().__init__()
        self.count = count
        self.encoders = nn.ModuleList(observations if isinstance(observations, tuple) else [observations])
        self._encoders = list(self.encoders)
        features = cast(int, self._encoders[0].out_features)
        self._layers: list[tuple[str, str]] = []
        for number, sizes in enumerate(pairwise([features + box_size, *hidden, outputs])):
            self._add_layer(number, *sizes)
        self._activate = activation_function(activation)

    def _add_layer(self, number: int, inputs: int, outputs: int) -> None:
        # torch's own initialisation of a linear layer.
        bound = 1 / math.sqrt(inputs)
        weight, bias = f"weight_{number}", f"bias_{number}"
        self.register_parameter(weight, nn.Parameter(torch.empty(self.count, inputs, outputs).uniform_(-bound, bound)))
        self.register_parameter(bias, nn.Parameter(torch.empty(self.count, 1, outputs).uniform_(-bound, bound)))
        self._layers.append((weight, bias))

    def features(self, obs: TensorTree) -> Tensor:
        """Return the critics' features of observations [B, …]: [K, B, F], or [1, B, F] where they are equal."""
        return torch.stack([encoder.forward(obs) for encoder in self._encoders])

    def values(self, features: Tensor, box: Tensor | None, *, frozen: bool = False) -> Tensor:
        """Return values [K, B, outputs] for `features` and Box actions [B, d] in [-1, 1].

        With `frozen` the parameters get no gradient.
        """
        if box is not None:
            features = torch.cat((features, box.expand(features.shape[0], -1, -1)), -1)
        values = features.expand(self.count, -1, -1)
        parameters = cast("dict[str, Tensor]", self._parameters)
        for weight_name, bias_name in self._layers:
            weight, bias = parameters[weight_name], parameters[bias_name]
            if frozen:
                weight, bias = weight.detach(), bias.detach()
            if weight_name != self._layers[-1][0]:
                values = self._activate(torch.baddbmm(bias, values, weight))
            elif weight.shape[-1] > 1:
                values = torch.baddbmm(bias, values, weight)
            else:
                # Five times faster than a batched multiplication by a single column.
                values = (values * weight.transpose(1, 2)).sum(-1, keepdim=True) + bias
        return values


def build_critics(
    policy: Policy, box_size: int, outputs: int, hidden: Sequence[int], activation: Activation, count: int = 2
) -> StateActionCritics:
    """Return critics for a policy's observations: flattened, or through copies of the policy's encoder.

    Arguments as for `StateActionCritics`.

    Encoders are copied where they are more than fully connected layers (images, a user's own module).

    Raises:
        ConfigError: an observation is an image and the policy has no encoder to copy.
    """
    leaves = critic_spaces(policy.observation_space, policy.action_space)
    encoder: Any = getattr(policy, "encoder", None)
    if encoder is None:
        images = [key for key, space in leaves.items() if is_image(space)]
        if images:
            raise ConfigError(
                f"the critics need an encoder for the image {images[0]!r}, but the policy has no `encoder`",
                "model",
                "Give the policy an attribute `encoder`, or pass only the encoder to Maze.",
            )
    if encoder is None or isinstance(encoder, MlpEncoder):
        return StateActionCritics(FlatInput(leaves), box_size, outputs, hidden, activation, count)
    encoders = tuple(copy.deepcopy(encoder) for _ in range(count))
    return StateActionCritics(encoders, box_size, outputs, hidden, activation, count)
