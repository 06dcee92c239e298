"""Pointer heads: the choices of an action are scored for each element of a set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium import spaces
from torch import Tensor, nn

from maze_core import ConfigError, Dense, flatten_space
from maze_core.models.blocks import activation_function, initialize_orthogonal
from maze_core.models.distributions import Categorical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space

    from maze_core import Policy
    from maze_set_models.config import SetTemplateConfig
    from maze_set_models.encoder import SetEncoder
    from maze_set_models.leaves import SetLeaf


class PointerHead(nn.Module):
    """Discrete(K * m) → Categorical whose logits are m scores of each of K elements, element after element.

    Reordering the elements reorders the logits. Without an action mask, elements that are not there cannot be chosen;
    with one, the mask decides.

    Args:
        start: where the elements begin in the encoder's result; the features are before all sets.
        leaf: the set.
        choices: m.
        features: the number of features.
        config: the model's configuration.
    """

    def __init__(self, start: int, leaf: SetLeaf, choices: int, features: int, config: SetTemplateConfig) -> None:
        super().__init__()
        self.shape: tuple[int, ...] = (leaf.size * choices,)
        self.noise = {"gumbel": self.shape}
        each = f", {choices} choices each" if choices > 1 else ""
        self.picture_lines = (f"pointer to {leaf.key}{each}",)
        """What a picture of the network says."""
        self.choices = choices
        self.element = Dense(config.embedding, config.embedding)
        self.context = Dense(features, config.embedding)
        self.score = Dense(config.embedding, choices)
        self._start, self._features, self._size = start, features, leaf.size
        self._activate = activation_function(config.activation)
        self._inverse_temperature = 1.0 / config.temperature

    def forward(self, features: Tensor, mask: Tensor | None) -> Categorical:
        """The encoder's result [B, …], mask [B, K * m] or None → the distribution."""
        width = self.element.in_features + 1
        marked = features[:, self._start : self._start + self._size * width].reshape(-1, self._size, width)
        context = self.context.forward(features[:, : self._features]).unsqueeze(1)
        hidden = self._activate(self.element.forward(marked[..., :-1]) + context)
        logits = self.score.forward(hidden).flatten(1) * self._inverse_temperature
        if mask is None:
            mask = (marked[..., -1:] != 0).expand(-1, -1, self.choices).flatten(1)
        return Categorical(logits, mask)

    draw_noise = staticmethod(Categorical.draw_noise)


class First(nn.Module):
    """A head that reads only the features, not the elements after them."""

    def __init__(self, head: Any, features: int) -> None:
        super().__init__()
        self.head = head
        self.shape: tuple[int, ...] = getattr(head, "shape", ())
        self.draw_noise, self.noise = getattr(head, "draw_noise", None), getattr(head, "noise", None)
        self._features = features

    def forward(self, features: Tensor, *mask: Tensor | None) -> Any:
        """The encoder's result [B, …] → what the head returns for the features."""
        return self.head.forward(features[:, : self._features], *mask)


def checked_pointers(
    action_space: Space[Any], sets: Mapping[str, SetLeaf], config: SetTemplateConfig
) -> dict[str, tuple[SetLeaf, int]]:
    """Return for each action leaf with a pointer its set and the number of choices per element.

    Raises:
        ConfigError: there is no such action or set, or their sizes do not fit.
    """
    actions = flatten_space(action_space, "action")
    found = {}
    if config.pointers and config.memory != "none":
        raise ConfigError(
            "pointers read the elements of the current step, which a memory does not keep",
            "model.memory",
            "Next: --set model.memory=none, or a model without pointers",
        )
    for key, target in config.pointers.items():
        where = f"model.pointers.{key}"
        if key not in actions:
            raise ConfigError(f"there is no action leaf {key!r}; leaves: {', '.join(actions)}", where)
        if target not in sets:
            raise ConfigError(f"there is no set {target!r}; sets: {', '.join(sets) or 'none'}", where)
        space, size = actions[key], sets[target].size
        if not isinstance(space, spaces.Discrete) or int(space.n) % size:
            raise ConfigError(
                f"action {key!r} is {space}, which does not point to the {size} elements of {target!r}",
                where,
                f"A pointer needs Discrete({size}), or Discrete of a multiple of {size}.",
            )
        found[key] = (sets[target], int(space.n) // size)
    return found


def add_pointers(
    policy: Policy, encoder: SetEncoder, pointers: Mapping[str, tuple[SetLeaf, int]], config: SetTemplateConfig
) -> None:
    """Replace the heads of actions that point, and let all others read only the features."""
    starts, start = {}, encoder.features
    for leaf in encoder.sets:
        if leaf.key in encoder.pointed:
            starts[leaf.key] = start
            start += encoder.widths[leaf.key]
    for key, _, head in policy.action_heads:
        new: Any = First(head, encoder.features)
        if key in pointers:
            leaf, choices = pointers[key]
            new = PointerHead(starts[leaf.key], leaf, choices, encoder.features, config)
            if config.orthogonal_init:
                initialize_orthogonal(new)
                initialize_orthogonal(new.score, 0.01)
        policy.heads[f"{key}_head"] = new
    if policy.has_critic and policy.critic_encoder is None:
        policy.value_head = First(policy.value_head, encoder.features)  # type: ignore[assignment]
