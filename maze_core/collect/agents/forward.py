"""The forward pass of acting: observations and noise of N environments → samples and actions, as arrays."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from maze_core.base.tree import map_tree, to_arrays
from maze_core.collect.agents.agent import Choice
from maze_core.data.batch import to_tensors
from maze_core.models.blocks import Dense
from maze_core.models.families import LOG_STD_RANGE, CategoricalHead, GaussianHead
from maze_core.models.inputs import Flatten, MlpEncoder
from maze_core.models.plain import ACTIVATIONS, Look, PlainLogits, are_plain, has_hooks, is_plain_trunk
from maze_core.models.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn

    from maze_core.base.tree import TensorTree, Tree
    from maze_core.collect.agents.row_memory import RowMemory

_FEW = 131_072
# Multiplications of a layer up to which numpy is the faster; from twice as many its BLAS may use several threads.


class Forward(Protocol):
    """Chooses actions for B observations at a time, with the parameters of the moment."""

    def is_current(self) -> bool:
        """Return True if nothing has changed that would make another way, or another look, necessary."""

    def by_step(self, noise: TensorTree) -> Sequence[dict[str, Any]]:
        """Split the result of `Policy.draw_noise` for (steps, B) into steps, as `act` takes them."""

    def act(self, obs: Tree, noise: dict[str, Any]) -> Choice:
        """Choose actions for B observations (leaves [B, …])."""


def fastest_forward(
    policy: Policy, rows: int | None, memory: RowMemory | None = None, *, most_likely: bool = False
) -> Forward:
    """Return the fastest way for a policy and so many rows; numpy's and torch's differ by rounding.

    `rows` None: torch's in any case. `most_likely`: as for `TorchForward`.
    """
    if rows is not None and (heads := _simple_heads(policy, rows)) is not None:
        return NumpyForward(policy, heads, rows, most_likely=most_likely)
    return TorchForward(policy, most_likely=most_likely, memory=memory)


class TorchForward:
    """Torch's, for any policy, on the device where its parameters are.

    Args:
        policy: the policy.
        most_likely: choose the most likely actions instead of samples, and ignore the noise.
        memory: what the policy remembers of the rows; None: it remembers nothing.
    """

    def __init__(self, policy: Policy, *, most_likely: bool = False, memory: RowMemory | None = None) -> None:
        self._policy, self._most_likely = policy, most_likely
        self._memory = memory
        self._device = next(policy.parameters()).device
        self._elsewhere = self._device.type != "cpu"

    def is_current(self) -> bool:
        """Return False: it is built anew as quickly as it is compared."""
        return False

    def by_step(self, noise: TensorTree) -> Sequence[dict[str, Any]]:
        """A dict of tensors for each step."""
        # Unbinding once is cheaper than indexing a tensor at every step.
        leaves = zip(*[leaf.unbind() for leaf in self._moved(noise).values()], strict=True)
        return [dict(zip(noise, step, strict=True)) for step in leaves]

    def act(self, obs: Tree, noise: dict[str, Any]) -> Choice:
        """Choose actions for B observations."""
        if not torch.is_inference_mode_enabled():  # entering it costs as much as a small layer
            with torch.inference_mode():
                return self.act(obs, noise)
        drawn, actions = self.choose(self._moved(to_tensors(obs)), noise)
        samples = to_arrays(drawn)
        return Choice(samples, {k: samples[k] if a is drawn[k] else a.numpy(force=True) for k, a in actions.items()})

    def choose(self, obs: TensorTree, noise: dict[str, Any]) -> tuple[TensorTree, TensorTree]:
        """Return samples and actions in environment units for observations, all leaves [B, …] on the device."""
        memory = self._memory
        distribution = self._policy.distribution(obs) if memory is None else memory.step(obs)
        drawn = distribution.mode() if self._most_likely else distribution.sample(noise)
        return drawn, distribution.env_action(drawn)

    def _moved(self, tree: TensorTree) -> TensorTree:
        if self._elsewhere:
            return map_tree(lambda leaf: leaf.to(self._device, non_blocking=True), tree)
        return tree


class NumpyForward:
    """Numpy's, for a small fully connected policy: for a few rows torch's overhead is four times the arithmetic.

    The arrays share the parameters' memory. Only for what `_simple_heads` returns.
    """

    def __init__(
        self, policy: Policy, heads: Sequence[tuple[str, Any]], rows: int, *, most_likely: bool = False
    ) -> None:
        encoder: Any = policy.encoder
        trunk = encoder.trunk
        self._policy, self._given, self._look = policy, heads, Look(policy)
        self._inputs = [_input(key, policy) for key in encoder.input.keys]
        self._trunk, self._dense = trunk, list(trunk.dense_layers)
        layers = [_Layer(dense, rows) for dense in self._dense]
        normed = [_NormedLayer(layer, norm) for layer, norm in zip(layers, trunk.norms, strict=False)]
        self._layers = normed or layers  # all layers are normalised, or none
        self._activate = ACTIVATIONS[trunk.activation]
        self._heads = [(key, _HEADS[type(head)](head, rows)) for key, head in heads]
        self._most_likely = most_likely

    def is_current(self) -> bool:
        """Return True while the arrays are those of the policy, and torch would compute the same."""
        same = self._policy.plain_heads() == self._given and self._trunk.dense_layers == self._dense
        return same and self._look.holds()

    def by_step(self, noise: TensorTree) -> Sequence[dict[str, Any]]:
        """A dict of arrays for each step."""
        leaves = zip(*(list(leaf.numpy()) for leaf in noise.values()), strict=True)
        return [dict(zip(noise, step, strict=True)) for step in leaves]

    def act(self, obs: Tree, noise: dict[str, Any]) -> Choice:
        """Choose actions for B observations."""
        inputs = [read(obs) for read in self._inputs]
        features = inputs[0] if len(inputs) == 1 else np.concatenate(inputs, -1)
        for layer in self._layers:
            features = layer.forward(features)
            self._activate(features, features)
        samples, actions = {}, {}
        for key, head in self._heads:
            samples[key], actions[key] = head.choose(features, None if self._most_likely else noise[key])
        return Choice(samples, actions)


def _input(key: str, policy: Policy) -> Callable[[Tree], np.ndarray]:
    """Return what reads a leaf of observations, [B, d], normalised as by maze-normalizers."""
    normalizer: Any = policy.normalizer
    if normalizer is None or key not in normalizer.keys:
        return operator.itemgetter(key)
    shift, scale = (normalizer.get_buffer(f"{key}_{name}").numpy() for name in ("shift", "scale"))

    def read(obs: Tree) -> np.ndarray:
        leaf: np.ndarray = obs[key] - shift
        leaf *= scale
        np.minimum(leaf, normalizer.clip, out=leaf)  # cheaper than clip
        np.maximum(leaf, -normalizer.clip, out=leaf)
        return leaf

    return read


class _Layer:
    """[B, in] → [B, out], into an array that the next call overwrites."""

    def __init__(self, dense: Dense, rows: int) -> None:
        self._weight, self._bias = dense.weight.detach().numpy().T, dense.bias.detach().numpy()
        self._out = np.empty((rows, dense.out_features), np.float32)

    def forward(self, features: np.ndarray) -> np.ndarray:
        out = np.dot(features, self._weight, self._out)  # for a few rows cheaper than matmul
        out += self._bias
        return out


class _NormedLayer:
    """A layer and layer norm, for which torch is faster than numpy: [B, in] → [B, out]."""

    def __init__(self, layer: _Layer, norm: nn.LayerNorm) -> None:
        self._layer, self._shape, self._eps = layer, norm.normalized_shape, norm.eps
        self._weight, self._bias = norm.weight.detach(), norm.bias.detach()

    def forward(self, features: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(self._layer.forward(features))
        normalized: np.ndarray = torch.layer_norm(
            given, self._shape, self._weight, self._bias, self._eps, cudnn_enable=False
        ).numpy()
        return normalized


class _Categorical:
    """The Gumbel-max trick of `Categorical.sample`; without noise the most likely choice."""

    def __init__(self, head: CategoricalHead | PlainLogits, rows: int) -> None:
        self._layer, self._head = _Layer(head.linear, rows), head

    def choose(self, features: np.ndarray, noise: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        logits = self._layer.forward(features)
        if noise is not None:
            if self._head.inverse_temperature != 1:
                logits *= self._head.inverse_temperature
            logits += noise
        sample = logits.argmax(-1)
        return sample, sample


class _Normal:
    """Mean plus std times noise, as `DiagonalGaussian.sample` and `SquashedGaussian.sample`; without noise the mean."""

    def __init__(self, head: GaussianHead, rows: int) -> None:
        self._layer, self._head = _Layer(head.linear, rows), head
        self._log_std = None if head.state_dependent else head.log_std.detach().numpy()

    def choose(self, features: np.ndarray, noise: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        head, out = self._head, self._layer.forward(features)
        mean = out[:, : head.scale.size]
        sample = mean.copy() if noise is None else mean + self._std(out[:, head.scale.size :]) * noise
        canonical = np.tanh(sample) if head.squashed else sample
        return sample, head.scale.to_env(torch.from_numpy(canonical)).numpy()

    def _std(self, spread: np.ndarray) -> np.ndarray:
        """Return the standard deviation; `spread`, [B, d]: what the layer says of it, if it does."""
        head, log_std = self._head, self._log_std
        if log_std is None:
            log_std = (spread + np.float32(head.log_std_init)).clip(*LOG_STD_RANGE)
        elif head.squashed:
            log_std = log_std.clip(*LOG_STD_RANGE)
        std: np.ndarray = np.exp(log_std)
        return std


_HEADS: dict[type, Callable[..., _Categorical | _Normal]] = {
    CategoricalHead: _Categorical,
    PlainLogits: _Categorical,
    GaussianHead: _Normal,
}


def _normalizes_plainly(policy: Policy) -> bool:
    """Return True for a policy that normalises no observations, or as `_input` does."""
    return policy.normalizer is None or "scales_plainly" in vars(type(policy.normalizer))


def _simple_heads(policy: Policy, rows: int) -> list[tuple[str, Any]] | None:
    """Return the heads of a policy whose actions numpy computes: small layers on flat floats, on the CPU.

    None: it is another one, has masks or a memory, or is of a class that may compute something else.
    """
    if not (isinstance(policy, Policy) and "plain_heads" in vars(type(policy))):
        return None
    heads = policy.plain_heads()
    if (
        heads is None
        or not _normalizes_plainly(policy)
        or type(policy.encoder) is not MlpEncoder
        or not is_plain_trunk(policy.encoder.trunk)
        or not all(type(head) in _HEADS and type(head.linear) is Dense for _, head in heads)
    ):
        return None
    encoder = policy.encoder
    layers = [*encoder.trunk.dense_layers, *(head.linear for _, head in heads)]
    parameters = [p for layer in (*layers, *encoder.trunk.norms) for p in (layer.weight, layer.bias)]
    simple = (
        all(type(part) is Flatten and part.is_plain for part in encoder.input.parts)
        and all(rows * layer.weight.numel() <= _FEW for layer in layers)
        and are_plain(parameters)
        and not has_hooks(policy)
    )
    return heads if simple else None
