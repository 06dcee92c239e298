"""Choices that observations describe: each is scored by its own features, not by its number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn

from maze_core.base.errors import ConfigError
from maze_core.envs.actors import is_for_critics
from maze_core.envs.masks import mask_leaves
from maze_core.envs.spaces import flatten_space
from maze_core.models.blocks import Dense, initialize_orthogonal
from maze_core.models.distributions import Categorical
from maze_core.models.inputs import joined_mask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space

    from maze_core.base.tree import TensorTree

_WHERE = "model.choice_features"


class DescribedChoices(NamedTuple):
    """The choices of a Discrete action, and where observations describe them."""

    leaf: str
    """The observation leaf, [n, F]."""
    choices: int
    """n."""
    features: int
    """F."""
    mask: tuple[str, ...] | None
    """The observation leaves of the action's mask; None: there is none."""


Described = dict[str, DescribedChoices]
"""The actions whose choices are described, by key."""


def described_choices(
    observation_space: Space[Any], action_space: Space[Any], choice_features: Mapping[str, str]
) -> Described:
    """Return the described choices of each action that `model.choice_features` names.

    Raises:
        ConfigError: there is no such action or leaf, or their sizes do not fit.
    """
    if not choice_features:
        return {}
    actions, seen = flatten_space(action_space, "action"), flatten_space(observation_space, "observation")
    masks = mask_leaves(observation_space, action_space)
    masking = {key for members in masks.values() for key in members}
    usable = [key for key in seen if key not in masking and not is_for_critics(key)]
    found = {}
    for key, leaf in choice_features.items():
        where = f"{_WHERE}.{key}"
        if key not in actions:
            raise ConfigError(f"there is no action leaf {key!r}; leaves: {', '.join(actions)}", where)
        space = actions[key]
        if not isinstance(space, spaces.Discrete):
            raise ConfigError(f"the action {key!r} is {space}; only the choices of a Discrete are scored", where)
        if leaf not in usable:
            raise ConfigError(f"the policy sees no observation leaf {leaf!r}; leaves: {', '.join(usable)}", where)
        shape = tuple(seen[leaf].shape or ())
        if len(shape) != 2 or shape[0] != space.n or isinstance(seen[leaf], spaces.MultiDiscrete):
            raise ConfigError(
                f"the observation's leaf {leaf!r} ({seen[leaf]}) does not describe the {space.n} choices of {key!r}",
                where,
                f"It needs a row of numbers for each choice: Box(-inf, inf, ({space.n}, F)).",
            )
        found[key] = DescribedChoices(leaf, int(space.n), shape[1], masks.get(key))
    return found


class ChoiceEmbedding(nn.Module):
    """The same two layers for each choice: features [B, n, F] → [B, n, E]."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.first, self.second = Dense(features, width), Dense(width, width)
        self.out_features = width

    def forward(self, choices: Tensor) -> Tensor:
        """[B, n, F] → [B, n, E]."""
        return self.second.forward(torch.relu_(self.first.forward(choices.float())))


def scored(queries: Tensor, choices: Tensor) -> Tensor:
    """Return the scores [B, n, A] of embedded choices [B, n, E] by queries [B, A, E]: products, divided by √E."""
    return (choices @ queries.transpose(1, 2)) * (1 / math.sqrt(choices.shape[-1]))


class ScoredHead(nn.Module):
    """Discrete(n) → Categorical; a logit is the product of an embedding of the state and one of the choice's features.

    Reordering the choices reorders the logits.
    """

    def __init__(self, described: DescribedChoices, features: int, width: int, temperature: float) -> None:
        super().__init__()
        self.shape: tuple[int, ...] = (described.choices,)
        self.noise = {"gumbel": self.shape}
        self.picture_lines = (f"scores {described.leaf}: {described.choices} of {described.features}",)
        """What a picture of the network says."""
        self.query = Dense(features, width)
        self.embedding = ChoiceEmbedding(described.features, width)
        self._inverse_temperature = 1.0 / temperature

    def forward(self, features: Tensor, mask: Tensor | None, choices: Tensor) -> Categorical:
        """Features [B, F], mask [B, n] or None, the choices' own features [B, n, f] → the distribution."""
        query = self.query.forward(features).unsqueeze(1)
        logits = scored(query, self.embedding.forward(choices)).squeeze(-1)
        return Categorical(logits if self._inverse_temperature == 1 else logits * self._inverse_temperature, mask)

    def initialize(self) -> None:
        """Initialise orthogonally: the first logits are nearly equal, and yet the embeddings get gradients."""
        initialize_orthogonal(self)
        initialize_orthogonal(self.query, 0.01)

    draw_noise = staticmethod(Categorical.draw_noise)


class ChoiceSummaries(nn.Module):
    """An encoder that sees, in the place of the features of choices, the mean of their embeddings.

    The mean is over the choices that the mask allows. It does not depend on their order.

    Args:
        encoder: of observations with these means.
        described: the choices.
        width: of the embeddings.
    """

    def __init__(self, encoder: nn.Module, described: Described, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.out_features: Any = encoder.out_features
        self._described = list(described.values())
        self.embeddings = nn.ModuleList(ChoiceEmbedding(its.features, width) for its in self._described)

    @property
    def picture_lines(self) -> list[str]:
        """What a picture of the network says: a title and lines."""
        means = [
            f"mean of {its.leaf}: {its.choices} of {its.features} → {each.out_features}"
            for its, each in zip(self._described, self.embeddings, strict=True)
        ]
        return ["choices and state", *means, f"{type(self.encoder).__name__} → {self.out_features}"]

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → [B, out_features]."""
        seen = dict(obs)
        for its, embedding in zip(self._described, self.embeddings, strict=True):
            embedded: Tensor = embedding(obs[its.leaf])
            if its.mask is None:
                seen[its.leaf] = embedded.mean(1)
            else:
                allowed = (joined_mask(obs, its.mask) != 0).unsqueeze(-1).to(embedded.dtype)
                # A blank row allows no choice: its mean is 0, not nan.
                seen[its.leaf] = (embedded * allowed).sum(1) / allowed.sum(1).clamp(min=1)
        features: Tensor = self.encoder(seen)
        return features


class Summaries:
    """What an encoder sees of choices that observations describe.

    Args:
        observation_space: of a single environment.
        action_space: of a single environment.
        config: the model's.

    Raises:
        ConfigError: `choice_features` does not fit the spaces.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], config: Any) -> None:
        self._described = described_choices(observation_space, action_space, config.choice_features)
        self._width = config.choice_embedding

    def among(self, leaves: Mapping[str, Space[Any]]) -> dict[str, Space[Any]]:
        """Return the leaves of observations, with a summary in the place of choices."""
        summary = spaces.Box(-math.inf, math.inf, (self._width,))
        choices = {its.leaf for its in self._described.values()}
        return {key: summary if key in choices else space for key, space in leaves.items()}

    def before(self, encoder: nn.Module) -> nn.Module:
        """Return an encoder of observations from one of the leaves that `among` returns."""
        return ChoiceSummaries(encoder, self._described, self._width) if self._described else encoder
