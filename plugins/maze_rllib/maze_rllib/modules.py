"""Maze's policies as modules of RLlib.

Each module holds a complete policy under the name `policy`, so that Maze can load its weights unchanged. Actions in
RLlib's episodes are samples (for a squashed Gaussian the value before tanh), which keeps log-probabilities exact; the
environments also get them in their own units.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS, TargetNetworkAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor

from maze_core import to_tensors
from maze_core.envs.spaces import allocate, space_specs
from maze_rllib.distribution import adapter, parameters
from maze_rllib.vector_env import single_key

if TYPE_CHECKING:
    from maze_core import Policy, TensorTree


class ActorCriticModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]
    """Policy and critic for PPO, IMPALA, BC and MARWIL."""

    def setup(self) -> None:
        """Copy the policy that the run has built."""
        self.policy = own_policy(self)
        self.action_dist_cls = adapter(self.policy, zeros(self.policy))
        self._key = single_key(self.policy.action_space, "action")

    def train(self, mode: bool = True) -> ActorCriticModule:
        """Keep the policy in evaluation mode, so that acting and learning use the same network."""
        super().train(mode)
        self.policy.eval()
        return self

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            distribution = self.policy.distribution(batch[Columns.OBS])
            rows = len(next(iter(batch[Columns.OBS].values())))
            samples = distribution.sample(self.policy.draw_noise((rows,), torch.default_generator))
            return {
                Columns.ACTIONS: samples,
                Columns.ACTIONS_FOR_ENV: shown(distribution.env_action(samples), self._key),
                Columns.ACTION_LOGP: distribution.log_prob(samples),
                Columns.ACTION_DIST_INPUTS: parameters(distribution),
            }

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            return best_actions(self.policy, batch[Columns.OBS], self._key)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: parameters(self.policy.distribution(batch[Columns.OBS]))}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Return the critic's values, [B]."""
        return self.policy.value(batch[Columns.OBS])


class TargetedActorCriticModule(ActorCriticModule, TargetNetworkAPI):  # type: ignore[misc]
    """Policy and critic for APPO, with the old policy."""

    def make_target_networks(self) -> None:
        """Copy the policy."""
        self.old_policy = make_target_network(self.policy)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        """Return the policy and its copy."""
        return [(self.policy, self.old_policy)]

    def forward_target(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return the parameters of the old policy's distribution."""
        old = parameters(self.old_policy.distribution(batch[Columns.OBS]))
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: old}


class NoCatalog:
    """RLlib's SAC requires a catalogue of networks, which is not needed here."""

    def __init__(self, **kwargs: Any) -> None:
        pass

    def get_action_dist_cls(self, **kwargs: Any) -> None:
        """Return None: the module has its own distributions."""


def on_cpu(policy: Policy) -> Policy:
    """Return a copy of a policy that any process can load."""
    return copy.deepcopy(policy).cpu()


def own_policy(module: TorchRLModule) -> Policy:
    """Return this module's own copy of the policy in its configuration."""
    policy: Policy = copy.deepcopy(module.model_config["policy"])
    return policy


def zeros(policy: Policy) -> TensorTree:
    """Return two rows of zero observations."""
    specs = space_specs(policy.observation_space, "observation")
    device = next(policy.parameters()).device
    return to_tensors(allocate(specs, (2,)), device)


def shown(tree: TensorTree, key: str | None) -> Any:
    """Return a tree in RLlib's form: its leaf if it has only one."""
    return tree if key is None else tree[key]


def best_actions(policy: Policy, obs: TensorTree, key: str | None) -> dict[str, Any]:
    """Return the most likely actions, as samples and in the environments' units."""
    distribution = policy.distribution(obs)
    samples = distribution.mode()
    return {Columns.ACTIONS: samples, Columns.ACTIONS_FOR_ENV: shown(distribution.env_action(samples), key)}
