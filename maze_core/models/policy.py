"""The policy: encoders, action heads and critic behind one interface."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn

from maze_core.envs.spaces import flatten_space
from maze_core.errors import ConfigError
from maze_core.models.blocks import Dense, initialize_orthogonal
from maze_core.models.heads import HeadOptions, make_head
from maze_core.models.masks import mask_keys
from maze_core.models.tree_distribution import TreeDistribution

if TYPE_CHECKING:
    import torch
    from gymnasium import Space

    from maze_core.data.batch import TensorTree
    from maze_core.models.normalizer import ObservationNormalizer


class Policy(nn.Module):
    """Observation trees → action distributions and state values.

    An encoder is a module with an integer `out_features` that maps an observation tree (leaves [B, …], in
    storage dtype) to features [B, out_features]. With `critic_encoder` None the critic uses the policy's
    encoder. Each action leaf has its own head, which reads the mask `<action key>_mask` where the observation
    has one.
    """

    def __init__(
        self,
        observation_space: Space[Any],
        action_space: Space[Any],
        encoder: nn.Module,
        critic_encoder: nn.Module | None = None,
        *,
        has_critic: bool = True,
        head_options: HeadOptions | None = None,
        normalizer: ObservationNormalizer | None = None,
    ) -> None:
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        self.has_critic = has_critic
        self.normalizer = normalizer
        self.encoder = encoder
        actions = flatten_space(action_space, "action")
        options = head_options or HeadOptions()
        features = feature_count(encoder)
        heads = {key: make_head(key, space, features, options) for key, space in actions.items()}
        # torch forbids submodules named like a method ("type", "half"); actions may have such names.
        self.heads = nn.ModuleDict({f"{key}_head": head for key, head in heads.items()})
        masks = mask_keys(observation_space, action_space)
        self.action_heads = [(key, masks.get(key), head) for key, head in heads.items()]
        """Action key, mask key (None: unmasked) and head of each action leaf."""
        self.critic_encoder = critic_encoder if has_critic else None
        if has_critic:
            self.value_head = Dense(feature_count(critic_encoder or encoder), 1)

    def normalized(self, obs: TensorTree) -> TensorTree:
        """Return the observations as the policy's networks see them, for critics outside the policy; leaves [B, …]."""
        if self.normalizer is None:
            return obs
        normalized: TensorTree = self.normalizer(obs)
        return normalized

    def distribution(self, obs: TensorTree) -> TreeDistribution:
        """Return the action distribution for B observations, leaves [B, …]."""
        encoder = cast("nn.Module", self._modules["encoder"])  # as an attribute it costs a microsecond
        return self._distribution(obs, encoder(self.normalized(obs)))

    def value(self, obs: TensorTree) -> Tensor:
        """Return the critic's estimate of the return from B observations, [B].

        Raises:
            ConfigError: the policy was built without a critic.
        """
        if not self.has_critic:
            raise ConfigError("this policy has no critic", where="model.critic", hint="Set it to separate or shared.")
        encoder = self.encoder if self.critic_encoder is None else self.critic_encoder
        return self.value_head.forward(encoder(self.normalized(obs))).squeeze(-1)

    def forward(self, obs: TensorTree) -> tuple[TreeDistribution, Tensor]:
        """Return distribution and value [B] in one pass; shared layers are computed once."""
        if self.critic_encoder is not None:
            obs_normalized = self.normalized(obs)
            value = self.value_head.forward(self.critic_encoder(obs_normalized)).squeeze(-1)
            return self._distribution(obs, self.encoder(obs_normalized)), value
        if not self.has_critic:
            return self.distribution(obs), self.value(obs)
        features = self.encoder(self.normalized(obs))
        return self._distribution(obs, features), self.value_head.forward(features).squeeze(-1)

    def replace_critic(self, encoder: nn.Module) -> None:
        """Give the critic its own encoder, and a new value head."""
        self.critic_encoder = encoder
        self.value_head = Dense(feature_count(encoder), 1)
        initialize_orthogonal(self.value_head, 1.0)

    def draw_noise(self, shape: tuple[int, ...], generator: torch.Generator) -> TensorTree:
        """Return noise for `sample`, leaves [*shape, …] on the generator's device; a rollout's shape is (steps, B)."""
        return {key: head.draw_noise((*shape, *head.shape), generator) for key, _, head in self.action_heads}

    def _distribution(self, obs: TensorTree, features: Tensor) -> TreeDistribution:
        return TreeDistribution(
            {key: head.forward(features, None if mask is None else obs[mask]) for key, mask, head in self.action_heads}
        )


def feature_count(encoder: nn.Module) -> int:
    """Return the width of an encoder's features.

    Raises:
        ConfigError: the module has no `out_features`.
    """
    count = getattr(encoder, "out_features", None)
    # Sizes from gymnasium are numpy integers.
    if not isinstance(count, Integral) or int(count) < 1:
        raise ConfigError(
            f"the encoder {type(encoder).__name__} has no out_features",
            where="model",
            hint="Set `self.out_features` to the width of the features [B, out_features] its forward returns.",
        )
    return int(count)
