"""Fully connected layers with their gradients written out, as arrays.

For small layers numpy takes half of torch's time, and its tanh a fifth. The arrays share the parameters' memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core.models.plain import ACTIVATIONS

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core import Dense
    from maze_core.models.blocks import MLP

_SMALL = 262_144
# Multiplications of a product up to which numpy's BLAS uses a single thread. Torch's threads take larger ones.
_NARROW = 8_192
# Entries of a matrix up to which the same holds for its product with a vector.


class Linear:
    """One layer: [B, in] → [B, out]."""

    def __init__(self, dense: Dense) -> None:
        self.parameters: list[Tensor] = [dense.weight, dense.bias]

    def forward(self, inputs: np.ndarray) -> np.ndarray:
        """Return the outputs [B, out] for inputs [B, in]."""
        weight, bias = self.parameters
        out = product(inputs, weight.numpy().T)
        out += bias.numpy()
        return out

    def gradients(self, inputs: np.ndarray, slope: np.ndarray) -> list[np.ndarray]:
        """Return the gradients of weights and biases; `slope` is that of the outputs, [B, out]."""
        return [product(slope.T, inputs), column_sums(slope)]

    def input_slope(self, slope: np.ndarray) -> np.ndarray:
        """Return the gradient of the inputs, [B, in]; `slope` is that of the outputs."""
        return product(slope, self.parameters[0].numpy())


class Trunk:
    """Layers with an activation after each: [B, in] → [B, out]."""

    def __init__(self, trunk: MLP) -> None:
        self._layers = [Linear(dense) for dense in trunk.dense_layers]
        self._activate, self._through = ACTIVATIONS[trunk.activation], _BACK[trunk.activation]
        self.parameters = [parameter for layer in self._layers for parameter in layer.parameters]

    def forward(self, inputs: np.ndarray) -> list[np.ndarray]:
        """Return the inputs and what each layer makes of them; the last are the features, [B, out]."""
        seen = [inputs]
        for layer in self._layers:
            out = layer.forward(seen[-1])
            self._activate(out, out)
            seen.append(out)
        return seen

    def gradients(self, seen: list[np.ndarray], slope: np.ndarray) -> list[np.ndarray]:
        """Return the gradients of the parameters.

        `seen` is the result of `forward`; `slope` is the features' gradient, and is overwritten.
        """
        found: list[list[np.ndarray]] = []
        for number in reversed(range(len(self._layers))):
            slope = self._through(slope, seen[number + 1])
            found.append(self._layers[number].gradients(seen[number], slope))
            if number:
                slope = self._layers[number].input_slope(slope)
        return [gradient for gradients in reversed(found) for gradient in gradients]


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the matrix product [n, m] of [n, k] and [k, m]."""
    if len(left) * right.size <= _SMALL:
        small: np.ndarray = np.dot(left, right)  # cheaper than matmul
        return small
    if 2 * right.shape[1] <= len(left):  # few rows by many columns take a fraction of many by few
        return product(right.T, left.T).T
    large: np.ndarray = torch.mm(torch.from_numpy(left), torch.from_numpy(right)).numpy()
    return large


def column_sums(rows: np.ndarray) -> np.ndarray:
    """Return the sums [n] of the columns of [B, n]."""
    if rows.size > _NARROW:
        wide: np.ndarray = torch.from_numpy(rows).sum(0).numpy()
        return wide
    sums: np.ndarray = np.dot(np.ones(len(rows), rows.dtype), rows)  # a third of reduce's time
    return sums


def _through_tanh(slope: np.ndarray, out: np.ndarray) -> np.ndarray:
    gradient = torch.from_numpy(slope)  # one pass in the place of three
    torch.ops.aten.tanh_backward.grad_input(gradient, torch.from_numpy(out), grad_input=gradient)
    return slope


def _through_relu(slope: np.ndarray, out: np.ndarray) -> np.ndarray:
    gradient = torch.from_numpy(slope)  # half of numpy's time
    torch.ops.aten.threshold_backward.grad_input(gradient, torch.from_numpy(out), 0, grad_input=gradient)
    return slope


_BACK: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {"tanh": _through_tanh, "relu": _through_relu}
# Of each activation: what turns the gradient of its outputs [B, d], which may be overwritten, into that of its inputs,
# given the outputs.
