"""The actions of fully connected policies, computed in JAX from a form and arrays as maze-onpolicy describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Space, spaces

from maze_core.envs.codecs import follow, nest
from maze_core.envs.spaces import leaves, start_of

if TYPE_CHECKING:
    from jax import Array
    from maze_onpolicy.collect.plain_network import Choices, Form, Normals

    Act = Callable[[Mapping[str, Any], Any, Mapping[str, Array]], tuple[dict[str, Array], Any]]

_NO_CHOICE = -1e9
"""The logit of a choice that does not exist."""


def acting(form: Form, observations: Space[Any], actions: Space[Any]) -> Act:
    """Return the function from arrays, observations and noise to samples and actions.

    It takes observations as environments give them, leaves [N, …], and noise by action leaf; it returns the samples by
    action leaf, and the actions as environments take them.
    """
    import jax

    paths = {leaf.key: leaf.path for leaf in leaves(observations, "observation")}
    boxes = {leaf.key: leaf.space for leaf in leaves(actions, "action")}

    def act(arrays: Mapping[str, Any], observation: Any, noise: Mapping[str, Array]) -> tuple[dict[str, Array], Any]:
        read = [
            _normalized(jax, follow(observation, paths[key]), clip, own)
            for (key, clip), own in zip(form.inputs, arrays["inputs"], strict=True)
        ]
        features = _features(jax, form, arrays, jax.numpy.concatenate(read, -1))
        samples, taken = {}, {}
        for head, own in zip(form.heads, arrays["heads"], strict=True):
            outputs = _linear(jax, features, own["weight"], own["bias"])
            choose: Any = _drawn if hasattr(head, "squashed") else _chosen
            samples[head.key], action = choose(jax, head, own, outputs, noise[head.key])
            taken[head.key] = _executed(jax, boxes[head.key], action)
        return samples, nest(actions, taken, "action")

    return act


def executes(space: Space[Any]) -> bool:
    """Return True for an action space whose actions `acting` makes: all but Boxes of other numbers than float32."""
    return all(
        isinstance(leaf.space, spaces.Discrete | spaces.MultiDiscrete) or leaf.space.dtype == np.float32
        for leaf in leaves(space, "action")
    )


def _linear(jax: Any, features: Array, weight: Array, bias: Array) -> Array:
    # On a GPU the default precision is lower than torch's.
    outputs: Array = jax.numpy.matmul(features, weight.T, precision="highest") + bias
    return outputs


def _normalized(jax: Any, leaf: Array, clip: float | None, statistics: tuple[Array, ...]) -> Array:
    """Return an observation [N, d] as a normaliser with `shift` and `scale` does; as it is where `clip` is None."""
    if clip is None:
        return leaf
    shift, scale = statistics
    clipped: Array = jax.numpy.clip((leaf - shift) * scale, -clip, clip)
    return clipped


def _features(jax: Any, form: Form, arrays: Mapping[str, Any], features: Array) -> Array:
    """Return what the last layer before the heads makes of inputs [N, d]."""
    functions = {
        "tanh": jax.numpy.tanh,
        "relu": jax.nn.relu,
        "elu": jax.nn.elu,
        "gelu": partial(jax.nn.gelu, approximate=False),
        "silu": jax.nn.silu,
    }
    for number, layer in enumerate(arrays["layers"]):
        features = _linear(jax, features, *layer)
        if form.eps:
            weight, bias = arrays["norms"][number]
            centred = features - features.mean(-1, keepdims=True)
            variance = (centred * centred).mean(-1, keepdims=True)
            features = centred * jax.lax.rsqrt(variance + form.eps[number]) * weight + bias
        features = functions[form.activation](features)
    return features


def _chosen(jax: Any, head: Choices, own: Mapping[str, Array], logits: Array, noise: Array) -> tuple[Array, Array]:
    """Return choices int32 [N], or [N, k], by the Gumbel-max trick; they act."""
    jnp = jax.numpy
    logits = logits * own["inverse_temperature"]
    if len(head.shape) > 1:
        ends = np.cumsum(head.sizes)[:-1]
        widest = head.shape[-1]
        parts = jnp.split(logits, ends, -1)
        padded = [jnp.pad(part, ((0, 0), (0, widest - part.shape[-1])), constant_values=_NO_CHOICE) for part in parts]
        logits = jnp.stack(padded, 1)
    sample = (logits + noise).argmax(-1)
    return sample, sample


def _drawn(jax: Any, head: Normals, own: Mapping[str, Array], outputs: Array, noise: Array) -> tuple[Array, Array]:
    """Return mean plus standard deviation times noise [N, d], and the action [N, *shape] that it stands for."""
    jnp = jax.numpy
    mean = outputs
    if head.state_dependent:
        mean, spread = jnp.split(outputs, 2, -1)
        log_std = jnp.clip(spread + head.log_std_init, *head.limits)
    else:
        log_std = jnp.clip(own["log_std"], *head.limits) if head.squashed else own["log_std"]
    sample = mean + jnp.exp(log_std) * noise
    canonical = jnp.tanh(sample) if head.squashed else sample
    action = own["centre"] + own["radius"] * canonical
    return sample, action.reshape(-1, *head.shape)


def _executed(jax: Any, space: Space[Any], action: Array) -> Array:
    """Return actions in the units of a space: choices from its start on, numbers within its bounds."""
    if isinstance(space, spaces.Box):
        clipped: Array = jax.numpy.clip(action, np.asarray(space.low), np.asarray(space.high))
        return clipped
    start = start_of(space)
    return action if start is None else action + np.asarray(start, np.int32)
