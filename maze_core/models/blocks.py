"""Network blocks: fully connected layers with little overhead, and their initialisation."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Activation = Literal["tanh", "relu", "elu", "gelu", "silu"]


class MLP(nn.Module):
    """Fully connected layers, an activation after each: [B, in_features] → [B, out_features].

    `forward` calls the layers' arithmetic directly: for a batch of eight rows a call of a module costs as
    much as its work. It reads the parameters from the layers at each call, so moving, loading, copying or
    swapping them (`torch.func.functional_call`) needs no care. Forward hooks belong on the MLP, not on its
    layers.
    """

    def __init__(self, in_features: int, hidden: Sequence[int], activation: Activation) -> None:
        super().__init__()
        sizes = [in_features, *hidden]
        layers = [nn.Linear(*pair) for pair in pairwise(sizes)]
        self.layers = nn.ModuleList(layers)
        self.in_features, self.out_features = in_features, sizes[-1]
        self.activation: Activation = activation
        # The layers' own dicts, whose entries stay current; deepcopy and pickle keep the identity.
        self._parameter_dicts = [current_parameters(layer) for layer in layers]
        self._activate = activation_function(activation)

    def forward(self, features: Tensor) -> Tensor:
        """[B, in_features] → [B, out_features]."""
        activate = self._activate
        for parameters in self._parameter_dicts:
            features = activate(F.linear(features, parameters["weight"], parameters["bias"]))
        return features


def linear(layer: nn.Linear, features: Tensor) -> Tensor:
    """A linear layer without the overhead of a module call."""
    parameters = current_parameters(layer)
    return F.linear(features, parameters["weight"], parameters["bias"])


def current_parameters(layer: nn.Linear) -> dict[str, Tensor]:
    """The layer's own dict of parameters: faster to read than its attributes, and always current."""
    return cast("dict[str, Tensor]", layer._parameters)


def activation_function(name: Activation) -> Callable[[Tensor], Tensor]:
    """The function of an activation; in place where its gradient needs the result only."""
    functions: dict[Activation, Callable[[Tensor], Tensor]] = {
        "tanh": torch.tanh_,
        "relu": torch.relu_,
        "elu": F.elu_,
        "gelu": F.gelu,
        "silu": F.silu,
    }
    return functions[name]


def initialize_orthogonal(module: nn.Module, gain: float = math.sqrt(2.0)) -> None:
    """Orthogonal weights and zero biases in every linear and convolutional layer (Saxe et al. 2014)."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight, gain)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
