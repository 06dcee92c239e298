"""The network that is exported: from observations in the environment's units to actions in the environment's units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core import ConfigError, Policy, flatten_space, remembers
from maze_core.base.terminal_text import plain
from maze_core.envs.actors import acting_space
from maze_core.envs.spaces import space_specs, start_of
from maze_core.models.building import batchable
from maze_core.models.memory import hears
from maze_export.interface import Interface, Leaf
from maze_export.noise import NoiseLeaves, joined, noise_leaves

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import TensorTree, TreeDistribution


_LARGEST = math.nextafter(2.0**63, 0)
"""The largest float64 that fits into an int64."""


class ExportedPolicy(nn.Module):
    """A policy as a function of named tensors, [B, …] each, to named tensors.

    Args:
        policy: a network on the CPU, in evaluation mode.
        stochastic: sample actions with noise, which is an input; else take the most likely ones.

    Raises:
        ConfigError: the policy cannot sample with noise from outside.
    """

    def __init__(self, policy: Policy, *, stochastic: bool) -> None:
        super().__init__()
        self.policy = policy
        observations, actions = policy.observation_space, policy.action_space
        self.noise: NoiseLeaves = noise_leaves(policy) if stochastic else {}
        noise = tuple(leaf for leaves in self.noise.values() for leaf in leaves.inputs.values())
        self.interface = Interface(acting_space(observations), actions, noise, _state(policy))
        self._observations = {key: leaf.name for key, leaf in self.interface.observations.items()}
        self._actions = {key: leaf.name for key, leaf in self.interface.actions.items()}
        specs = space_specs(observations, "observation")
        self._hidden = {key: spec for key, spec in specs.items() if key not in self._observations}
        # torch forbids submodules named like a method, and dots in names; a list has no names.
        seen = flatten_space(self.interface.observation_space, "observation")
        self.starts = nn.ModuleList(Start(space) for space in seen.values())
        self.units = nn.ModuleList(Units(space) for space in flatten_space(actions, "action").values())

    def forward(self, inputs: TensorTree) -> TensorTree:
        """Return the actions for the inputs of the interface."""
        starts = zip(self._observations.items(), self.starts, strict=True)
        obs = {key: start(inputs[name]) for (key, name), start in starts}
        obs |= self._unseen(next(iter(inputs.values())).shape[0])
        state = {leaf.name: inputs[leaf.name] for leaf in self.interface.state}
        distribution, after = self._step(obs, state) if state else (self.policy.distribution(obs), {})
        samples = distribution.sample(joined(inputs, self.noise)) if self.noise else distribution.mode()
        actions = distribution.env_action(samples)
        units = zip(self._actions.items(), self.units, strict=True)
        return {**{name: unit(actions[key]) for (key, name), unit in units}, **after}

    def _step(self, obs: TensorTree, state: TensorTree) -> tuple[TreeDistribution, TensorTree]:
        """Return the distribution, and what the policy remembers afterwards by the names of outputs."""
        distribution, after = self.policy.step(obs, {name.removeprefix("state/"): v for name, v in state.items()})
        names = [leaf.name for leaf in self.interface.next_state]
        return distribution, {name: after[name.removeprefix("next_state/")] for name in names}

    def _unseen(self, rows: int) -> TensorTree:
        """Return zeros for the leaves that critics alone see, [rows, …]; no action depends on them."""
        return {
            key: torch.zeros((rows, *spec.shape), dtype=getattr(torch, spec.dtype.name))
            for key, spec in self._hidden.items()
        }

    def example(self, rows: int) -> TensorTree:
        """Return inputs of zeros, of the shapes and dtypes that `forward` takes."""
        zeros = {leaf.name: np.zeros((rows, *leaf.shape), leaf.dtype) for leaf in self.interface.inputs}
        return {name: torch.from_numpy(array) for name, array in zeros.items()}


def _state(policy: Policy) -> tuple[Leaf, ...]:
    """Return the inputs of what a policy remembers."""
    if not remembers(policy):
        return ()
    if hears(policy):
        raise ConfigError(
            "this policy decides by past actions and rewards, too, which an exported file does not take",
            "model",
            "Next: act with it in Python: agent = RunContext(…).load(RUN).agent()",
        )
    remembered = policy.initial_state(1)
    if any(bool(leaf.any()) for leaf in remembered.values()):
        raise ConfigError("the memory of this policy does not begin with zeros, so it cannot be exported", "model")
    return tuple(
        Leaf(f"state/{key}", tuple(leaf.shape[1:]), leaf.numpy().dtype.name) for key, leaf in remembered.items()
    )


class Start(nn.Module):
    """Discrete values of the environment → those from 0 on that policies see; other leaves pass unchanged."""

    start: Tensor | None

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        start = start_of(space)
        self.register_buffer("start", None if start is None else torch.as_tensor(start))

    def forward(self, leaf: Tensor) -> Tensor:
        """[B, …] → [B, …]."""
        return leaf if self.start is None else leaf - self.start


class Units(nn.Module):
    """Actions of a distribution → those that the environment executes: from `start` on, rounded and within bounds."""

    start: Tensor | None
    low: Tensor
    high: Tensor

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        start, box = start_of(space), isinstance(space, spaces.Box)
        self._dtype = getattr(torch, np.dtype(space.dtype).name)
        self._limit = (_float if self._dtype.is_floating_point else _whole) if box else None
        self.register_buffer("start", None if start is None else torch.as_tensor(start))
        if isinstance(space, spaces.Box):
            dtype = np.float32 if space.dtype == np.float16 else space.dtype
            self.register_buffer("low", torch.as_tensor(np.asarray(space.low, dtype)))
            self.register_buffer("high", torch.as_tensor(np.asarray(space.high, dtype)))

    def forward(self, action: Tensor) -> Tensor:
        """[B, …] → [B, …] in the dtype of the space."""
        if self._limit is not None:
            return self._limit(action, self.low, self.high, self._dtype)
        return (action if self.start is None else action + self.start).to(self._dtype)


def _float(action: Tensor, low: Tensor, high: Tensor, dtype: torch.dtype) -> Tensor:
    # Cast before clipping: values must stay within a bound that float32 rounds outwards.
    return action.to(dtype).to(low.dtype).clamp(low, high).to(dtype)


def _whole(action: Tensor, low: Tensor, high: Tensor, dtype: torch.dtype) -> Tensor:
    # Clipped as float64 first, since casting a float beyond an integer's range is undefined; then as integers, which
    # are exact beyond 2^53.
    whole = action.double().clamp(low.double(), high.double().clamp(max=_LARGEST)).round().to(torch.int64)
    return whole.clamp(low.to(torch.int64), high.to(torch.int64)).to(dtype)


def actor(policy: Policy) -> Policy:
    """Return a copy of a policy on the CPU, in evaluation mode and without its critic.

    Raises:
        ConfigError: the policy cannot be copied.
    """
    try:
        copied: Policy = batchable(policy).cpu().eval()
    except Exception as error:
        raise ConfigError(f"the network cannot be copied: {plain(error)}", "model") from error
    if isinstance(copied, Policy) and copied.has_critic:
        copied.critic_encoder, copied.critic_memory, copied.has_critic = None, None, False
        del copied.value_head
    return copied.requires_grad_(False)
