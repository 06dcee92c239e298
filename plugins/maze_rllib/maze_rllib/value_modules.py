"""Maze's policies as modules of RLlib's off-policy algorithms. Actions here are in the environments' units."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from ray.rllib.algorithms.dqn.default_dqn_rl_module import (
    QF_NEXT_PREDS,
    QF_PREDS,
    QF_TARGET_NEXT_PREDS,
)
from ray.rllib.algorithms.sac.torch.default_sac_torch_rl_module import DefaultSACTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.models.base import ENCODER_OUT
from ray.rllib.core.rl_module.apis import QNetAPI, TargetNetworkAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.utils.schedules.scheduler import Scheduler
from torch import Tensor, nn

from maze_core import feature_count
from maze_core.models.blocks import MLP
from maze_core.models.distributions import Categorical
from maze_rllib.distribution import TreeAdapter, adapter, parameters
from maze_rllib.modules import own_policy, zeros
from maze_rllib.vector_env import single_key

if TYPE_CHECKING:
    from maze_core import Policy, TensorTree

_FORBIDDEN = -1e8
"""Lower logits are those of masked choices."""


class QModule(TorchRLModule, QNetAPI, TargetNetworkAPI):  # type: ignore[misc]
    """The logits of a policy's only Discrete action as action values; the critic is V if `dueling` is set."""

    def setup(self) -> None:
        """Copy the policy that the run has built."""
        self.policy = own_policy(self)
        self._key = str(single_key(self.policy.action_space, "action"))
        self._epsilon = Scheduler(fixed_value_or_schedule=self.model_config["epsilon"], framework="torch")

    def make_target_networks(self) -> None:
        """Copy the policy."""
        self.target_policy = make_target_network(self.policy)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        """Return the policy and its copy."""
        return [(self.policy, self.target_policy)]

    def forward_target(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return values of the target network."""
        return {QF_PREDS: self._values(self.target_policy, batch[Columns.OBS])}

    def compute_q_values(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Return values of all choices, [B, n]; minus infinity for masked ones."""
        return {QF_PREDS: self._values(self.policy, batch[Columns.OBS])}

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            return {Columns.ACTIONS: self._values(self.policy, batch[Columns.OBS]).argmax(-1)}

    def _forward_exploration(self, batch: dict[str, Any], t: int = 0, **kwargs: Any) -> dict[str, Any]:
        with torch.no_grad():
            values = self._values(self.policy, batch[Columns.OBS])
            self._epsilon.update(t)
            by_chance = torch.rand(len(values)) < self._epsilon.get_current_value()
            allowed = values.isfinite().float()
            anything = torch.multinomial(allowed, 1).squeeze(-1)
            return {Columns.ACTIONS: torch.where(by_chance.to(values.device), anything, values.argmax(-1))}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        output = {
            QF_PREDS: self._values(self.policy, batch[Columns.OBS]),
            QF_TARGET_NEXT_PREDS: self.forward_target({Columns.OBS: batch[Columns.NEXT_OBS]})[QF_PREDS],
        }
        if self.model_config["double_q"]:
            output[QF_NEXT_PREDS] = self._values(self.policy, batch[Columns.NEXT_OBS])
        return output

    def _values(self, policy: Policy, obs: TensorTree) -> Tensor:
        part = policy.distribution(obs).parts[self._key]
        if not isinstance(part, Categorical):
            raise TypeError(f"action values need a categorical distribution, not {type(part).__name__}")
        forbidden = part.logits <= _FORBIDDEN
        values = part.logits
        if self.model_config["dueling"]:
            advantages = values.masked_fill(forbidden, 0)
            mean = advantages.sum(-1, keepdim=True) / (~forbidden).sum(-1, keepdim=True).clamp(min=1)
            values = advantages - mean + policy.value(obs).unsqueeze(-1)
        # If all choices are masked, the policy takes any of them, and so does this.
        return values.masked_fill(forbidden & ~forbidden.all(-1, keepdim=True), -torch.inf)


class SACModule(DefaultSACTorchRLModule):  # type: ignore[misc]
    """A policy with one Box or Discrete action, and critics with encoders like its own."""

    def setup(self) -> None:
        """Copy the policy that the run has built, and build critics around copies of its encoder."""
        self.twin_q = self.model_config["twin_q"]
        self.policy = own_policy(self)
        key = str(single_key(self.policy.action_space, "action"))
        self.action_dist_cls = _action_distribution(self.policy, key)
        self.pi_encoder = _Observations()
        self.pi = _PolicyHead(self.policy, key)
        if self.inference_only:
            return
        for name in ("qf", "qf_twin") if self.twin_q else ("qf",):
            encoder = _CriticEncoder(self.policy, key)
            hidden = self.model_config["critic_hidden"]
            head = MLP(encoder.out_features, hidden, "relu")
            outputs = self.pi.choices or 1
            setattr(self, f"{name}_encoder", encoder)
            setattr(self, name, nn.Sequential(head, nn.Linear(head.out_features, outputs)))


class _Observations(nn.Module):
    """Returns the observations unchanged."""

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {ENCODER_OUT: batch[Columns.OBS]}


class _PolicyHead(nn.Module):
    """Maps observations to RLlib's logits: parameters of the distribution, or [B, n] for a Discrete action."""

    def __init__(self, policy: Policy, key: str) -> None:
        super().__init__()
        self.policy, self._key = policy, key
        with torch.no_grad():
            part = policy.distribution(zeros(policy)).parts[key]
        self.choices = part.logits.shape[-1] if isinstance(part, Categorical) else 0

    def forward(self, obs: TensorTree) -> Any:
        distribution = self.policy.distribution(obs)
        if not self.choices:
            return parameters(distribution)
        logits = parameters(distribution)[self._key]["logits"]
        # RLlib multiplies probabilities by their logarithms, which must be finite for masked choices too.
        return torch.maximum(logits, logits.detach().max(-1, keepdim=True).values - 40.0)


class _CriticEncoder(nn.Module):
    """Concatenates features and a Box action in canonical units: {ENCODER_OUT: [B, F + d]}."""

    def __init__(self, policy: Policy, key: str) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(policy.encoder)
        self.normalizer = copy.deepcopy(policy.normalizer)
        with torch.no_grad():
            part = policy.distribution(zeros(policy)).parts[key]
        self._scale = copy.deepcopy(getattr(part, "scale", None))
        self.out_features = feature_count(policy.encoder) + (self._scale.size if self._scale is not None else 0)

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        obs = batch[Columns.OBS]
        features = self.encoder(obs if self.normalizer is None else self.normalizer(obs))
        if self._scale is not None:
            features = torch.cat((features, self._scale.to_canonical(batch[Columns.ACTIONS])), -1)
        return {ENCODER_OUT: features}


class _BoxAdapter(TreeAdapter):
    """A distribution of one Box action in the environment's units; densities are those of canonical units.

    RLlib's target entropy assumes actions in [-1, 1].
    """

    key: str

    def sample(self, **kwargs: Any) -> Any:
        with torch.no_grad():
            return self.rsample_and_logp()[0]

    def rsample_and_logp(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        samples = self.rsample()
        density = self.tree.log_prob(samples) + self._scale.log_volume
        return self.tree.env_action(samples)[self.key], density

    def sample_and_logp(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return self.rsample_and_logp()

    def logp(self, value: Any, **kwargs: Any) -> Tensor:
        density: Tensor = self.tree.log_prob(self.tree.from_env_action({self.key: value})) + self._scale.log_volume
        return density

    @property
    def _scale(self) -> Any:
        part: Any = self.tree.parts[self.key]
        return part.scale


class _DiscreteAdapter(TreeAdapter):
    """A distribution of one Discrete action."""

    key: str

    @classmethod
    def from_logits(cls, logits: Any, **kwargs: Any) -> TreeAdapter:
        return super().from_logits({cls.key: {"logits": logits}})

    def sample(self, **kwargs: Any) -> Any:
        return super().sample()[self.key]

    def logp(self, value: Any, **kwargs: Any) -> Tensor:
        return super().logp({self.key: value})


def _action_distribution(policy: Policy, key: str) -> type[TreeAdapter]:
    plain = adapter(policy, zeros(policy))
    base = _DiscreteAdapter if isinstance(plain.like.parts[key], Categorical) else _BoxAdapter
    return type("ActionDistribution", (base,), {"like": plain.like, "policy": policy, "key": key})
