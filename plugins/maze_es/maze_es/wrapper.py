"""Policy wrappers: rules that may change the actions of the searched policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from maze_core import ActingPolicy, ConfigError, distribution_of, map_tree, remembers, to_arrays
from maze_core.base.tree import copy_tree
from maze_core.collect.policies.base import build_policy_plugin
from maze_core.plugins.config.assembly import policy_part

if TYPE_CHECKING:
    from maze_core import Policy, Sequences, TensorTree, Tree, TreeDistribution
    from maze_es.config import ESConfig


class PolicyWrapper(ActingPolicy):
    """A policy plugin between the searched policy and the environment.

    It receives the searched policy's actions, one row per environment, and returns the actions to take:

        class Brake(PolicyWrapper):
            def adapt(self, obs, actions):
                actions["action"][obs["observation"][:, 0] > 2.0] = 0
                return actions

    It must be stateless and deterministic: rows may belong to any episode.
    """

    def adapt(self, obs: Tree, actions: Tree) -> Tree:
        """Return the actions to take for observations [N, …] and the searched policy's actions; env units, [N, …]."""
        raise NotImplementedError

    def act(self, obs: Tree, rngs: Sequence[np.random.Generator]) -> Tree:
        """Raise ConfigError: a wrapper cannot act alone."""
        raise ConfigError(f"the policy {self.config.name!r} only wraps another policy", "policy")


class WrappedPolicy(nn.Module):
    """A policy whose actions pass through a wrapper, in training, evaluation and deployment.

    Its distribution is the searched policy's; `mode` and `sample` return adapted actions in environment units.
    """

    def __init__(self, policy: Policy, wrapper: PolicyWrapper) -> None:
        super().__init__()
        self.searched = policy
        self._wrapper = wrapper
        self.observation_space, self.action_space = policy.observation_space, policy.action_space
        self.has_critic = policy.has_critic
        self.remembers = remembers(policy)

    @property
    def normalizer(self) -> Any:
        """The searched policy's normaliser."""
        return self.searched.normalizer

    @property
    def described(self) -> Any:
        """The choices that the searched policy scores by their features."""
        return self.searched.described

    def distribution(self, obs: TensorTree, sequences: Sequences | None = None) -> WrappedDistribution:
        """Return the distribution of adapted actions for B observations, leaves [B, …]."""
        return WrappedDistribution(distribution_of(self.searched, obs, sequences), obs, self._wrapper)

    def initial_state(self, rows: int) -> TensorTree:
        """Return what the searched policy remembers where episodes begin, leaves [rows, …]."""
        return self.searched.initial_state(rows)

    def step(self, obs: TensorTree, state: TensorTree) -> tuple[WrappedDistribution, TensorTree]:
        """Return the distribution for the next row of B streams, and what is remembered after it."""
        distribution, after = self.searched.step(obs, state)
        return WrappedDistribution(distribution, obs, self._wrapper), after

    def value(self, obs: TensorTree) -> Tensor:
        """Return the value by the searched policy's critic, [B]."""
        return self.searched.value(obs)

    def forward(self, obs: TensorTree) -> tuple[WrappedDistribution, Tensor]:
        """Return the distribution of adapted actions, and the critic's value [B]."""
        return self.distribution(obs), self.value(obs)

    def draw_noise(self, shape: tuple[int, ...], generator: torch.Generator) -> TensorTree:
        """Return noise for `sample`."""
        return self.searched.draw_noise(shape, generator)


class WrappedDistribution:
    """The searched policy's distribution, whose actions pass through the wrapper."""

    def __init__(self, searched: TreeDistribution, obs: TensorTree, wrapper: PolicyWrapper) -> None:
        self.parts = searched.parts
        self._searched, self._obs, self._wrapper = searched, obs, wrapper

    def sample(self, noise: TensorTree) -> TensorTree:
        """Return a sample of the searched policy, adapted."""
        return self._adapted(self._searched.sample(noise))

    def mode(self) -> TensorTree:
        """Return the searched policy's most likely actions, adapted."""
        return self._adapted(self._searched.mode())

    def env_action(self, samples: TensorTree) -> TensorTree:
        """Return the samples: they are in environment units already."""
        return samples

    def _adapted(self, samples: TensorTree) -> TensorTree:
        actions = self._searched.env_action(samples)
        device = next(iter(actions.values())).device
        adapted = self._wrapper.adapt(_arrays(self._obs), _arrays(actions))
        return map_tree(lambda leaf: torch.from_numpy(np.ascontiguousarray(leaf)).to(device), adapted)


def wrap(policy: Policy, algorithm: ESConfig) -> WrappedPolicy:
    """Return the policy in the wrapper that the algorithm names.

    Raises:
        ConfigError: there is no such policy plugin, or it is not a `PolicyWrapper`.
    """
    config = policy_part(algorithm.policy_wrapper, "algorithm.policy_wrapper", algorithm)
    wrapper = build_policy_plugin(config, policy.observation_space, policy.action_space)
    if not isinstance(wrapper, PolicyWrapper):
        raise ConfigError(
            f"the policy {config.name!r} is not a PolicyWrapper and cannot wrap the policy", "algorithm.policy_wrapper"
        )
    return WrappedPolicy(policy, wrapper)


def _arrays(tree: TensorTree) -> Tree:
    return copy_tree(to_arrays(tree))
