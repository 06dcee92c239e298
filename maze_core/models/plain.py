"""Fully connected networks that numpy computes as torch does: which they are, and their activations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from maze_core.models.blocks import MLP, Dense

if TYPE_CHECKING:
    from torch import Tensor

_FEW = 2_048
# Features up to which numpy's maximum is as fast as torch's; of 65,000 it takes six times as long.


def _relu(features: np.ndarray, out: np.ndarray) -> None:
    if features.size <= _FEW:
        np.maximum(features, 0, out=out)
    else:
        torch.clamp_min(torch.from_numpy(features), 0, out=torch.from_numpy(out))


ACTIVATIONS: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {"tanh": np.tanh, "relu": _relu}
"""What computes an activation of the first array into the second."""


_METHODS = frozenset(("distribution", "value", "normalized", "draw_noise", "plain_heads"))
"""Methods of policies that are computed without a call, as `forward` is of modules; one set on an object shadows it."""


@dataclass(frozen=True, slots=True)
class PlainLogits:
    """Logits of a Discrete leaf that are a layer's outputs times a number, where there is no `CategoricalHead`."""

    linear: Dense
    inverse_temperature: float


def is_plain_trunk(trunk: nn.Module, activations: Container[str] = ACTIVATIONS) -> bool:
    """Return True for an `MLP` as it is built, also with other layers of the same kind, and a known activation."""
    return (
        type(trunk) is MLP
        and trunk.activation in activations
        and all(type(norm) is nn.LayerNorm and norm.elementwise_affine for norm in trunk.norms)
        and all(type(layer) is Dense for layer in trunk.dense_layers)
    )


def are_plain(parameters: Iterable[Tensor]) -> bool:
    """Return True where all parameters are float32 on the CPU, and nothing is called with their gradients."""
    return all(
        p.device.type == "cpu"
        and p.dtype == torch.float32
        and not p._backward_hooks
        and not getattr(p, "_post_accumulate_grad_hooks", None)
        for p in parameters
    )


def has_hooks(network: nn.Module) -> bool:
    """Return True if some module calls a hook in its forward or backward pass, or was given a method of its own."""
    return any(map(_is_hooked, network.modules())) or _has_methods(network)


def _has_methods(network: nn.Module) -> bool:
    return not vars(network).keys().isdisjoint(_METHODS)


def _is_hooked(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__
    )


class Look:
    """What was found when somebody looked at a network: whether the same still holds costs a tenth of another look."""

    def __init__(self, network: nn.Module) -> None:
        self._modules = list(network.modules())
        self._parts, self._activations = self._found()
        self._tensors = [part for part in self._parts if isinstance(part, torch.Tensor)]
        self._places = [tensor.data_ptr() for tensor in self._tensors]

    def holds(self) -> bool:
        """Return True if the network has the same modules and activations, tensors at the same places, no hooks."""
        parts, activations = self._found()
        return (
            len(parts) == len(self._parts)
            and all(map(operator.is_, parts, self._parts))
            and [tensor.data_ptr() for tensor in self._tensors] == self._places
            and activations == self._activations
            and not any(map(_is_hooked, self._modules))
            and not _has_methods(self._modules[0])
        )

    def _found(self) -> tuple[list[object], list[str]]:
        """Return what is registered in the modules, and the activations."""
        kinds: list[Any] = [kind for m in self._modules for kind in (m._modules, m._parameters, m._buffers)]
        activations: list[str] = [module.activation for module in self._modules if isinstance(module, MLP)]
        return list(chain.from_iterable(kind.values() for kind in kinds)), activations
