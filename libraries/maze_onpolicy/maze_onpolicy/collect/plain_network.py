"""Fully connected policies as arrays and their form, from which other libraries compute the same actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from maze_normalizers.normalizer import ObservationNormalizer
from torch import nn

from maze_core import Dense, Policy
from maze_core.envs.spaces import flatten_space, is_narrow
from maze_core.models.families import LOG_STD_RANGE, CategoricalHead, GaussianHead, MultiCategoricalHead
from maze_core.models.inputs import Flatten, MlpEncoder
from maze_core.models.plain import Look, PlainLogits, are_plain, has_hooks, is_plain_trunk

if TYPE_CHECKING:
    from gymnasium import Space
    from torch import Tensor

ACTIVATIONS = ("tanh", "relu", "elu", "gelu", "silu")
"""The activations that a form may name, as `maze_core.models.blocks` computes them."""


class Choices(NamedTuple):
    """A head for choices: the arg max of logits times `inverse_temperature`, an array (), plus Gumbel noise."""

    key: str
    sizes: tuple[int, ...]
    """The number of choices, of each of several: the logits of the layer, one after the other."""
    shape: tuple[int, ...]
    """Of the noise: [n], or [k, max(sizes)] for k choices, where logits of choices that do not exist are -1e9."""


class Normals(NamedTuple):
    """A head for a Box: mean plus standard deviation times noise [N, d], the sample; `centre + radius * sample` acts.

    Arrays: `centre` and `radius` [d], and `log_std` [d] unless it is `state_dependent`.
    """

    key: str
    shape: tuple[int, ...]
    """Of the action."""
    squashed: bool
    """True: the tanh of the sample acts."""
    state_dependent: bool
    """True: the second half of the layer's outputs plus `log_std_init`, within `limits`, is the log deviation."""
    log_std_init: float
    limits: tuple[float, float]
    """Bounds of a log deviation that depends on the observation, or is squashed."""


class Form(NamedTuple):
    """What a network computes: it can be hashed, and two networks of one form differ by their arrays alone."""

    inputs: tuple[tuple[str, float | None], ...]
    """The observations, [N, d] each, side by side, each with the bound after normalisation; None: it has none."""
    activation: str
    eps: tuple[float, ...]
    """Of the layer norm before each activation; empty without."""
    heads: tuple[Any, ...]
    """`Choices` or `Normals`, by action leaf; None: another kind, which no `PlainNetwork` has."""


@dataclass(frozen=True)
class PlainNetwork:
    """The form of a policy, and its arrays of the moment, which share the memory of its parameters.

    `arrays`: `inputs` (shift and scale, or nothing), `layers` (weight [out, in] and bias), `norms` (weight and bias)
    and `heads` (dicts: weight, bias, and what the head's form names), a list each.
    """

    form: Form
    arrays: dict[str, Any]
    given: list[tuple[str, Any]]
    """The result of `plain_heads`."""
    dense: list[Dense]
    look: Look

    def holds(self, policy: Policy) -> bool:
        """Return True while this is the policy's network."""
        if not self.look.holds() or policy.plain_heads() != self.given:
            return False
        encoder: Any = policy.encoder
        return encoder.trunk.dense_layers == self.dense and self._is_formed_alike(policy)

    def _is_formed_alike(self, policy: Policy) -> bool:
        heads = zip(self.given, self.arrays["heads"], strict=True)
        same = all(_temperature(head) == own.get("inverse_temperature") for (_, head), own in heads)
        return same and _form(policy, self.given) == self.form


def plain_network(policy: nn.Module) -> PlainNetwork | str:
    """Return a policy as a plain network; or why it is none, as a sentence without its end."""
    if not isinstance(policy, Policy) or "plain_heads" not in vars(type(policy)):
        return "the policy is of a class of its own"
    if policy.remembers:
        return "the policy has a memory"
    if (heads := policy.plain_heads()) is None:
        return "actions have masks"
    encoder: Any = policy.encoder
    if type(encoder) is not MlpEncoder or not is_plain_trunk(encoder.trunk, ACTIVATIONS):
        return "the policy's layers are not fully connected ones alone"
    if not all(type(part) is Flatten and part.is_plain for part in encoder.input.parts):
        return "observations are no vectors of floats"
    if policy.normalizer is not None and type(policy.normalizer) is not ObservationNormalizer:
        return "the normaliser is of a class of its own"
    form = _form(policy, heads)
    if None in form.heads:
        return "a head of the policy is of another kind than those for Discrete, MultiDiscrete and Box"
    if has_hooks(policy) or not are_plain(policy.parameters()):
        return "the policy has hooks, or is not in float32 on the CPU"
    arrays = {
        "inputs": [_normalizing(policy, key) for key in encoder.input.keys],
        "layers": [_weights(layer) for layer in encoder.trunk.dense_layers],
        "norms": [_weights(norm) for norm in encoder.trunk.norms],
        "heads": [_arrays(head) for _, head in heads],
    }
    return PlainNetwork(form, arrays, heads, encoder.trunk.dense_layers, Look(policy))


def _form(policy: Policy, heads: list[tuple[str, Any]]) -> Form:
    """Return the form of a policy; with None for heads of another kind."""
    encoder: Any = policy.encoder
    spaces = flatten_space(policy.action_space, "action")
    normalizer = policy.normalizer
    normalized = () if normalizer is None else normalizer.keys
    bounds = tuple((key, normalizer.clip if key in normalized else None) for key in encoder.input.keys)
    eps = tuple(norm.eps for norm in encoder.trunk.norms)
    return Form(bounds, encoder.trunk.activation, eps, tuple(_head(key, head, spaces[key]) for key, head in heads))


def _head(key: str, head: Any, space: Space[Any]) -> Choices | Normals | None:
    """Return the form of a head; None: it is of another kind."""
    if type(getattr(head, "linear", None)) is not Dense:
        return None
    if type(head) in (CategoricalHead, PlainLogits):
        choices = int(space.n)  # type: ignore[attr-defined]
        return Choices(key, (choices,), (choices,))
    if type(head) is MultiCategoricalHead:
        sizes = tuple(int(n) for n in space.nvec)  # type: ignore[attr-defined]
        return Choices(key, sizes, tuple(head.shape))
    if type(head) is GaussianHead and not is_narrow(space):
        options = head.squashed, head.state_dependent, float(head.log_std_init)
        return Normals(key, tuple(space.shape or ()), *options, LOG_STD_RANGE)
    return None


def _normalizing(policy: Policy, key: str) -> tuple[np.ndarray, ...]:
    normalizer = policy.normalizer
    if normalizer is None or key not in normalizer.keys:
        return ()
    return tuple(_array(normalizer.get_buffer(f"{key}_{name}")) for name in ("shift", "scale"))


def _weights(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    return _array(layer.weight), _array(layer.bias)


def _arrays(head: Any) -> dict[str, np.ndarray]:
    weight, bias = _weights(head.linear)
    found = {"weight": weight, "bias": bias}
    if (temperature := _temperature(head)) is not None:
        found["inverse_temperature"] = temperature
    else:
        found |= {"centre": _array(head.scale.centre), "radius": _array(head.scale.radius)}
        if not head.state_dependent:
            found["log_std"] = _array(head.log_std)
    return found


def _temperature(head: Any) -> np.ndarray | None:
    """Return what multiplies logits, an array (); None for a Gaussian."""
    return None if isinstance(head, GaussianHead) else np.array(head.inverse_temperature, np.float32)


def _array(tensor: Tensor) -> np.ndarray:
    """Return a tensor as an array that shares its memory."""
    array: np.ndarray = tensor.detach().numpy()
    return array
