"""Vectorised environments whose arrays are tensors on a device, as those that are simulated on a GPU have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

if TYPE_CHECKING:
    import torch

    NativeEnv = gymnasium.vector.VectorEnv[Any, Any, Any]


def device_of(env: NativeEnv) -> torch.device | None:
    """Return the device of an environment that takes and returns tensors; None: it has NumPy's arrays.

    Such an environment, or one of its wrappers, says it with the attribute `device`: a `torch.device` or its name.
    """
    layer: Any = env
    while not isinstance(layer, OnHost):
        device = _named(getattr(layer, "device", None))
        if device is not None:
            return device
        if not isinstance(layer, gymnasium.vector.VectorWrapper):
            return None
        layer = layer.env
    return None


def _named(device: Any) -> torch.device | None:
    """Return the device of that name; None: it is none of torch's, so the attribute says something else."""
    if device is None:
        return None
    import torch  # most environments do without it

    try:
        return torch.device(device) if isinstance(device, str | torch.device) else None
    except RuntimeError:
        return None


def on_host(env: NativeEnv) -> NativeEnv:
    """Return an environment with NumPy's arrays: the environment itself, unless it has tensors."""
    device = device_of(env)
    return env if device is None else OnHost(env, device)


class OnHost(gymnasium.vector.VectorWrapper):
    """An environment with tensors, as one with NumPy's arrays.

    Args:
        env: the environment. Where its observations turn out to be arrays, it takes arrays, too.
        device: the device of the actions that it takes.
    """

    def __init__(self, env: NativeEnv, device: torch.device) -> None:
        super().__init__(env)
        self.tensors_on = device
        self._has_tensors: bool | None = None

    @property
    def has_tensors(self) -> bool:
        """True where its observations are tensors; the environment is reset to see them."""
        if self._has_tensors is None:
            self.reset()
        return bool(self._has_tensors)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset; return arrays."""
        result: Any = self.env.reset(seed=seed, options=self._taken(options))
        self._has_tensors = is_tensors(result)
        return arrays(result)  # type: ignore[no-any-return]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step with arrays; return arrays."""
        result: Any = self.env.step(self._taken(actions))
        return arrays(result)  # type: ignore[no-any-return]

    def _taken(self, value: Any) -> Any:
        return to_device(value, self.tensors_on) if self._has_tensors else value


def is_tensors(value: Any) -> bool:
    """Return True for tensors, also in dicts, tuples and lists, where the first of them decides."""
    import torch

    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return bool(value) and is_tensors(value[0])
    return isinstance(value, torch.Tensor)


def arrays(value: Any) -> Any:
    """Return the tensors in dicts, tuples and lists as arrays; those on the CPU share their memory."""
    import torch

    if isinstance(value, torch.Tensor):
        narrow = value.dtype is torch.bfloat16  # NumPy has no such type
        return (value.float() if narrow else value).numpy(force=True)
    return _inside(arrays, value)


def to_device(value: Any, device: torch.device) -> Any:
    """Return the arrays in dicts, tuples and lists as tensors on a device."""
    import torch

    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return torch.from_numpy(np.ascontiguousarray(value).reshape(value.shape)).to(device)
    return _inside(lambda each: to_device(each, device), value)


def _inside(function: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: function(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([function(each) for each in value])
    return value
