"""The policy and the critics of FlashSAC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from maze_offpolicy import critic_encoders
from torch import Tensor, nn

from maze_core import ConfigError, Policy, feature_count
from maze_core.models.blocks import Dense, members
from maze_sac.bounded_layers import BoundedTrunk, UnitLinear, unit_norm

if TYPE_CHECKING:
    from maze_core import TensorTree, TreeDistribution
    from maze_core.models.inputs import FlatInput
    from maze_sac.flash_config import FlashSACConfig


class BoundedEncoder(nn.Module):
    """An encoder of observations, and bounded layers behind it: leaves [B, …] → [B, width]."""

    def __init__(self, inner: nn.Module, width: int, blocks: int) -> None:
        super().__init__()
        self.inner, self.out_features = inner, width
        self.trunk = BoundedTrunk(1, feature_count(inner), width, blocks)

    def forward(self, obs: TensorTree, *, batch: bool = False) -> Tensor:
        """Leaves [B, …] → [B, width]; `batch`: normalise by the statistics of these rows, and take note of them."""
        features: Tensor = self.trunk(self.inner(obs).unsqueeze(0), batch=batch)
        return features[0]


class FlashPolicy(Policy):
    """Bounded layers behind the encoder of the model's policy, and new heads, whose weights have norm 1, too.

    Args:
        policy: what the model built; its encoder and its normaliser are used.
        config: the algorithm's.
        head_options: those of the model.

    Raises:
        ConfigError: the policy has no encoder.
    """

    def __init__(self, policy: Any, config: FlashSACConfig, head_options: Any) -> None:
        if not isinstance(policy, Policy):
            problem = f"bounded layers follow the encoder, and the policy {type(policy).__name__} has none"
            raise ConfigError(problem, "model", "Next: pass only the encoder to Maze.")
        super().__init__(
            policy.observation_space,
            policy.action_space,
            BoundedEncoder(policy.encoder, config.policy_width, config.policy_blocks),
            has_critic=False,
            head_options=head_options,
            normalizer=policy.normalizer,
            make_memory=policy.make_memory,
        )
        for layer in self._dense_heads():
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.bound()

    def learning_distribution(self, obs: TensorTree, beside: TensorTree) -> TreeDistribution:
        """Return the distribution for B observations, normalised by the batch of these and of those beside them."""
        rows = len(next(iter(obs.values())))
        both = {key: torch.cat((leaf, beside[key])) for key, leaf in obs.items()}
        features = cast("BoundedEncoder", self.encoder).forward(self.normalized(both), batch=True)
        return self._distribution(obs, features[:rows])

    def _dense_heads(self) -> list[Dense]:
        return [layer for layer in self.heads.modules() if isinstance(layer, Dense)]

    @torch.no_grad()
    def bound(self) -> None:
        """Bring the parameters of the bounded layers, and the weights of the heads, back to their norms."""
        cast("BoundedEncoder", self.encoder).trunk.bound()
        for layer in self._dense_heads():
            layer.weight.copy_(unit_norm(layer.weight, 1))


class FlashCritics(nn.Module):
    """K critics of bounded layers: observations and actions → logits of the atoms of the return, [K, B, M].

    Args:
        observations: flattens the observations; or K encoders, one for each critic.
        box_size: dimensions d of the actions.
        config: the algorithm's.
    """

    atoms: Tensor

    def __init__(self, observations: FlatInput | tuple[nn.Module, ...], box_size: int, config: FlashSACConfig) -> None:
        super().__init__()
        count, width, bound = config.n_critics, config.critic_width, config.return_bound
        self.encoders = nn.ModuleList(observations if isinstance(observations, tuple) else [observations])
        self.trunk = BoundedTrunk(count, feature_count(self.encoders[0]) + box_size, width, config.critic_blocks)
        self.head = UnitLinear(count, width, config.atoms)
        self.bias = nn.Parameter(torch.zeros(count, 1, config.atoms))
        self.register_buffer("atoms", torch.linspace(-bound, bound, config.atoms), persistent=False)

    @staticmethod
    def of(policy: FlashPolicy, box_size: int, config: FlashSACConfig) -> FlashCritics:
        """Return critics for what a policy observes, and for leaves that critics alone see."""
        inner = cast("BoundedEncoder", policy.encoder).inner
        encoders = critic_encoders(policy.observation_space, policy.action_space, inner, config.n_critics)
        return FlashCritics(encoders, box_size, config)

    def bound(self) -> None:
        """Bring the parameters of the bounded layers, and the weights of each logit, back to their norms."""
        self.trunk.bound()
        self.head.bound()

    def features(self, obs: TensorTree) -> Tensor:
        """Return features of observations [B, …]: [K, B, F], or [1, B, F] where they are equal."""
        return torch.stack([encoder(obs) for encoder in members(self, "encoders")])

    def logits(
        self, features: Tensor, box: Tensor, *, batch: bool, observe: bool = True, frozen: bool = False
    ) -> Tensor:
        """Return the logits, [K, B, M], for `features` and actions [B, d] in [-1, 1]; see `UnitBatchNorm`."""
        values = torch.cat((features, box.expand(features.shape[0], -1, -1)), -1)
        values = values.expand(len(self.bias), -1, -1)
        values = self.trunk(values, batch=batch, observe=observe, frozen=frozen)
        bias = self.bias.detach() if frozen else self.bias
        return cast("Tensor", self.head(values, frozen=frozen)) + bias
