"""Networks: fully connected layers with little overhead, their initialisation, and what is asked of every network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core.base.errors import ConfigError
from maze_core.base.free_ram import free_ram

if TYPE_CHECKING:
    from collections.abc import Sequence, ValuesView

N = TypeVar("N", bound=nn.Module)

Activation = Literal["tanh", "relu", "elu", "gelu", "silu"]

_FUNCTIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh_,
    "relu": torch.relu_,
    "elu": F.elu_,
    "gelu": F.gelu,
    "silu": F.silu,
}


class Dense(nn.Linear):
    """A linear layer whose `forward`, called directly, costs little more than its arithmetic.

    It reads the parameters at each call, so they can be moved, loaded, copied or swapped.

    Raises:
        ConfigError: the machine has no room for the parameters.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        check_room(in_features * out_features)
        super().__init__(in_features, out_features)

    def forward(self, features: Tensor) -> Tensor:
        """[…, in_features] → […, out_features]."""
        parameters = cast("dict[str, Tensor]", self._parameters)
        return F.linear(features, parameters["weight"], parameters["bias"])


class MLP(nn.Module):
    """Fully connected layers, an activation after each: [B, in_features] → [B, out_features].

    With `layer_norm` each layer's outputs are normalised before the activation (Ba et al., arXiv 1607.06450).

    For a batch of eight rows a module call costs as much as its arithmetic, so `forward` calls the layers' `forward`
    directly. Register hooks on the MLP: hooks on its layers are not called.
    """

    def __init__(
        self, in_features: int, hidden: Sequence[int], activation: Activation, *, layer_norm: bool = False
    ) -> None:
        super().__init__()
        sizes = [in_features, *hidden]
        self.layers = nn.ModuleList(Dense(*pair) for pair in pairwise(sizes))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for size in hidden if layer_norm)
        self.in_features, self.out_features = in_features, sizes[-1]
        self.activation: Activation = activation

    @property
    def dense_layers(self) -> list[Dense]:
        """The layers without norms and activations, from the inputs to the outputs."""
        return [*members(self, "layers")]

    def forward(self, features: Tensor) -> Tensor:
        """[B, in_features] → [B, out_features]."""
        layers, norms, activate = members(self, "layers"), members(self, "norms"), _FUNCTIONS[self.activation]
        if norms:
            for layer, norm in zip(layers, norms, strict=True):
                features = activate(norm(layer.forward(features)))
            return features
        for layer in layers:
            features = activate(layer.forward(features))
        return features


def members(module: nn.Module, name: str) -> ValuesView[Any]:
    """Return the modules of a list or dict of a module, by the name of its attribute.

    Read them at each call, so that a module put in the place of another takes effect. This costs a tenth of the
    attribute and its iterator.
    """
    of: Any = module._modules[name]
    found: ValuesView[Any] = of._modules.values()
    return found


def check_room(parameters: int) -> None:
    """Raise ConfigError where so many parameters, with gradients and two moments each, exceed the free memory.

    Call it before allocation: the system may grant memory that it does not have, and kill the process later.
    """
    needed = 16 * parameters  # float32: a parameter, its gradient, and the two moments of Adam
    free = free_ram() if needed > 100_000_000 else None
    if free is not None and needed > free:
        sizes = f"needs {needed / 1e9:.1f} GB to train, but only {free / 1e9:.1f} GB are free"
        raise ConfigError(
            f"a layer of {parameters:,} parameters {sizes}",
            "model",
            "Use smaller networks, or smaller spaces in the environment.",
        )


def activation_function(name: Activation) -> Callable[[Tensor], Tensor]:
    """Return the function of an activation; in place where its gradient needs the result only."""
    return _FUNCTIONS[name]


def initialize_orthogonal(module: nn.Module, gain: float = math.sqrt(2.0)) -> None:
    """Set orthogonal weights and zero biases in every linear and convolutional layer (Saxe et al. 2014)."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight, gain)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def parameter_counts(policy: nn.Module) -> dict[str, int]:
    """Return the parameters by block (the direct children), and in `total`, where shared ones count once."""
    counts = {name: count(child) for name, child in policy.named_children()}
    own = sum(parameter.numel() for parameter in policy.parameters(recurse=False))
    counts = {**counts, "other": own, "total": count(policy)}
    return {name: number for name, number in counts.items() if number or name == "total"}


def count(module: nn.Module) -> int:
    """Return the number of parameters, trainable and frozen."""
    return sum(parameter.numel() for parameter in module.parameters())


def for_evaluation(network: N) -> N:
    """Return a network in evaluation mode, in which it also learns.

    Recurrent networks without dropout stay in training mode: it makes no difference to what they compute, and on a GPU
    only that mode has gradients.
    """
    network.eval()
    for module in network.modules():
        if isinstance(module, nn.RNNBase) and not module.dropout:
            module.training = True
    return network


@contextmanager
def in_evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Hold a network in evaluation mode; its modules return to their previous modes."""
    modes = [(module, module.training) for module in network.modules()]
    for_evaluation(network)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
