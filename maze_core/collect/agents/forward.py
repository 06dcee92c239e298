"""The forward pass of acting: observations and noise of N environments → samples and actions, as arrays."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from maze_core.base.tree import map_tree, to_arrays
from maze_core.collect.agents.agent import Choice
from maze_core.data.tensors import to_tensors
from maze_core.models.encoders import MlpEncoder
from maze_core.models.heads import LOG_STD_RANGE, CategoricalHead, GaussianHead
from maze_core.models.inputs import Flatten
from maze_core.models.normalizer import ObservationNormalizer
from maze_core.models.plain import ACTIVATIONS, are_plain, has_hooks, is_plain_trunk
from maze_core.models.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from maze_core.base.tree import TensorTree, Tree
    from maze_core.collect.agents.memory import RowMemory
    from maze_core.models.blocks import Dense

_FEW = 131_072
# Multiplications of a layer up to which numpy is the faster; from twice as many its BLAS may use several threads.


class Forward(Protocol):
    """Chooses actions for B observations at a time, with the parameters of the moment."""

    def by_step(self, noise: TensorTree) -> Sequence[dict[str, Any]]:
        """Split the result of `Policy.draw_noise` for (steps, B) into steps, as `act` takes them."""

    def act(self, obs: Tree, noise: dict[str, Any]) -> Choice:
        """Choose actions for B observations (leaves [B, …])."""


def fastest_forward(policy: Policy, rows: int, memory: RowMemory | None = None) -> Forward:
    """Return the fastest way for a policy and so many rows; numpy's and torch's differ by rounding."""
    return NumpyForward(policy, rows) if _is_simple(policy, rows) else TorchForward(policy, memory=memory)


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

    The arrays share the parameters' memory. Only for policies of which `_is_simple` holds.
    """

    def __init__(self, policy: Policy, rows: int) -> None:
        encoder: Any = policy.encoder
        self._inputs = [_input(key, policy) for key in encoder.input.keys]
        self._activate = ACTIVATIONS[encoder.trunk.activation]
        self._layers = [_Layer(dense, rows) for dense in encoder.trunk.dense_layers]
        self._heads = [(key, _HEADS[type(head)](head, rows)) for key, _, head in policy.action_heads]

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
            samples[key], actions[key] = head.sample(features, noise[key])
        return Choice(samples, actions)


def _input(key: str, policy: Policy) -> Callable[[Tree], np.ndarray]:
    """Return what reads a leaf of observations, [B, d], normalised as by `ObservationNormalizer.forward`."""
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


class _Categorical:
    """The Gumbel-max trick of `Categorical.sample`."""

    def __init__(self, head: CategoricalHead, rows: int) -> None:
        self._layer, self._inverse_temperature = _Layer(head.linear, rows), head.inverse_temperature

    def sample(self, features: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits = self._layer.forward(features)
        if self._inverse_temperature != 1:
            logits *= self._inverse_temperature
        logits += noise
        sample = logits.argmax(-1)
        return sample, sample


class _Normal:
    """Mean plus std times noise, as `DiagonalGaussian.sample` and `SquashedGaussian.sample`."""

    def __init__(self, head: GaussianHead, rows: int) -> None:
        self._layer, self._head = _Layer(head.linear, rows), head
        self._log_std = None if head.state_dependent else head.log_std.detach().numpy()

    def sample(self, features: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        head, mean = self._head, self._layer.forward(features)
        log_std = self._log_std
        if log_std is None:
            mean, spread = mean[:, : head.scale.size], mean[:, head.scale.size :]
            log_std = (spread + np.float32(head.log_std_init)).clip(*LOG_STD_RANGE)
        elif head.squashed:
            log_std = log_std.clip(*LOG_STD_RANGE)
        sample = mean + np.exp(log_std) * noise
        canonical = np.tanh(sample) if head.squashed else sample
        return sample, head.scale.to_env(torch.from_numpy(canonical)).numpy()


_HEADS: dict[type, Callable[..., _Categorical | _Normal]] = {CategoricalHead: _Categorical, GaussianHead: _Normal}


def _is_simple(policy: Policy, rows: int) -> bool:
    """Whether numpy does what the policy does: small layers on flat floats, plain heads without masks or memory, on the
    CPU."""
    if (
        type(policy) is not Policy
        or policy.remembers
        or type(policy.normalizer) not in (ObservationNormalizer, type(None))
        or type(policy.encoder) is not MlpEncoder
        or not all(mask is None and type(head) in _HEADS for _, mask, head in policy.action_heads)
    ):
        return False
    encoder = policy.encoder
    layers = [*encoder.trunk.dense_layers, *(head.linear for _, _, head in policy.action_heads)]
    parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
    return (
        is_plain_trunk(encoder.trunk)
        and all(type(part) is Flatten and part.is_plain for part in encoder.input.parts)
        and all(rows * layer.weight.numel() <= _FEW for layer in layers)
        and are_plain(parameters)
        and not has_hooks(policy)
    )
