"""The encoder of `set_template`: a block per leaf, attention over the sets, pooled and concatenated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from maze_models.composer import Composer, Composition
from maze_models.encoders import ImageEncoder
from torch import Tensor, nn
from torch.nn import functional as F

from maze_core import ConfigError, Dense
from maze_core.models.blocks import MLP, activation_function
from maze_core.models.inputs import MlpEncoder
from maze_set_models.attention import AttentionLayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core import TensorTree
    from maze_set_models.config import SetTemplateConfig
    from maze_set_models.leaves import Leaves, SetLeaf


class ElementEmbedding(nn.Module):
    """Two layers for each element: [B, K, F] and a context [B, C] or None → [B, K, E]."""

    def __init__(self, features: int, context: int, config: SetTemplateConfig) -> None:
        super().__init__()
        self.element, self.second = Dense(features, config.embedding), Dense(config.embedding, config.embedding)
        self.context = Dense(context, config.embedding) if context else None
        self._activate = activation_function(config.activation)

    def forward(self, elements: Tensor, context: Tensor | None) -> Tensor:
        """[B, K, F], [B, C] → [B, K, E]."""
        hidden = self.element.forward(elements.float())
        if self.context is not None and context is not None:
            hidden = hidden + self.context.forward(context).unsqueeze(1)
        return self._activate(self.second.forward(self._activate(hidden)))


class SetEncoder(nn.Module):
    """Observations → features: the result does not depend on the order of a set's elements.

    Dense and image leaves are encoded first; together they are the context in which each element is embedded. Then the
    elements of all sets attend to each other. Each set is pooled, with its share of present elements; features and
    pooled sets are concatenated, or joined by a composer, and pass further layers.

    Args:
        leaves: the leaves by kind.
        config: the sizes.
        composer: joins features and pooled sets; None: they are concatenated.
    """

    def __init__(self, leaves: Leaves, config: SetTemplateConfig, composer: Composer | None = None) -> None:
        super().__init__()
        self.sets = tuple(leaves.sets.values())
        self.pointed: tuple[str, ...] = ()
        """The sets whose elements follow the features in the result."""
        parts = [MlpEncoder({key: space}, config.leaf_hidden, config.activation) for key, space in leaves.dense.items()]
        pictures = [
            ImageEncoder(key, space, config.layout, config.image_features, config.image_precision)
            for key, space in leaves.images.items()
        ]
        self.parts = nn.ModuleList([*parts, *pictures])
        context = sum(part.out_features for part in parts) + config.image_features * len(pictures)
        groups = _groups(self.sets, config)
        self._group_of = {key: number for number, group in enumerate(groups) for key in group}
        self.embeddings = nn.ModuleList(
            ElementEmbedding(leaves.sets[group[0]].features, context, config) for group in groups
        )
        depth = config.attention_layers if self.sets else 0
        self.attention = nn.ModuleList(
            AttentionLayer(config.embedding, config.attention_heads, config.activation) for _ in range(depth)
        )
        self._pool, self._width, self._heads = config.pool, config.embedding, config.attention_heads
        self._keys = (*leaves.dense, *leaves.images)
        sizes = [part.out_features for part in parts] + [config.image_features] * len(pictures)
        widths = dict(zip(self._keys, sizes, strict=True)) | {leaf.key: config.embedding + 1 for leaf in self.sets}
        self.composition = Composition(widths, composer)
        self.trunk = MLP(self.composition.out_features, config.hidden, config.activation)
        self.features = self.trunk.out_features
        """The number of features, without the elements."""
        self.widths = {leaf.key: leaf.size * (config.embedding + 1) for leaf in self.sets}
        """Entries of each set in the result, if it is pointed to: K * (E + 1), with a 1 after each present element."""
        self.out_features = self.features

    @property
    def picture_lines(self) -> list[str]:
        """What a picture of the network says: a title and lines."""
        sets = [f"{leaf.key}: {leaf.size} of {leaf.features} → {self._width}" for leaf in self.sets]
        depth = f"{len(self.attention)} layer{'s' if len(self.attention) > 1 else ''}"
        seen = [f"attention: {depth}, {self._heads} heads"] if self.attention else []
        pooled = [f"pooled: {self._pool}"] if self.sets else []
        own = self.composition.composer
        composed = [] if own is None else [f"{type(own).__name__}: → {self.composition.out_features}"]
        layers = [
            f"{layer.in_features} → {layer.out_features}, {self.trunk.activation}" for layer in self.trunk.dense_layers
        ]
        return ["sets" if self.sets else "template", *sets, *seen, *pooled, *composed, *layers]

    def point_to(self, keys: Sequence[str]) -> None:
        """Let the embedded elements of some sets follow the features in the result, for pointer heads."""
        self.pointed = tuple(keys)
        self.out_features = self.features + sum(self.widths[key] for key in self.pointed)

    def forward(self, obs: TensorTree) -> Tensor:
        """Leaves [B, …] → features [B, features], and the elements of pointed sets after them."""
        encoded = [part(obs) for part in self.parts]
        context = torch.cat(encoded, -1) if encoded else None
        elements, present = self._attended(obs, context)
        pooled = {leaf.key: self._pooled(elements[leaf.key], present[leaf.key], leaf) for leaf in self.sets}
        joined = dict(zip(self._keys, encoded, strict=True)) | pooled
        features = self.trunk.forward(self.composition.forward(joined))
        tails = [_padded(elements[leaf.key], present[leaf.key], leaf) for leaf in self.sets if leaf.key in self.pointed]
        return torch.cat([features, *tails], -1) if tails else features

    def _attended(self, obs: TensorTree, context: Tensor | None) -> tuple[TensorTree, TensorTree]:
        """Return the embedded elements of each set [B, n, E] and which are there [B, n]; n ≤ K leaves out padding."""
        embedded, present = {}, {}
        for leaf in self.sets:
            rows, there = _shortened(obs, leaf)
            embedded[leaf.key] = self.embeddings[self._group_of[leaf.key]](rows, context)
            present[leaf.key] = there
        if not self.attention:
            return embedded, present
        joined, all_there = torch.cat(list(embedded.values()), 1), torch.cat(list(present.values()), 1)
        for layer in self.attention:
            joined = layer(joined, all_there)
        split = torch.split(joined, [rows.shape[1] for rows in embedded.values()], 1)
        return dict(zip(embedded, split, strict=True)), present

    def _pooled(self, elements: Tensor, present: Tensor, leaf: SetLeaf) -> Tensor:
        """Return [B, E + 1]: the pooled elements, zeros where there is none, and the share that is there."""
        there = present.unsqueeze(-1).to(elements.dtype)
        count = there.sum(1)
        if self._pool == "max":
            pooled = torch.where(present.unsqueeze(-1), elements, -torch.inf).amax(1)
            pooled = torch.where(count > 0, pooled, 0.0)
        else:
            pooled = (elements * there).sum(1) / count.clamp(min=1)
        return torch.cat([pooled, count / leaf.size], -1)


def _shortened(obs: TensorTree, leaf: SetLeaf) -> tuple[Tensor, Tensor]:
    """Return elements and which are there, without the padding at the end that all rows have.

    Only on the CPU: elsewhere the length would be waited for.
    """
    elements = obs[leaf.key]
    if leaf.present is None:
        return elements, torch.ones(elements.shape[:2], dtype=torch.bool, device=elements.device)
    present = obs[leaf.present].reshape(elements.shape[:2]) != 0
    if elements.device.type == "cpu":
        used = present.any(0).nonzero()
        length = int(used[-1]) + 1 if len(used) else 1
        return elements[:, :length], present[:, :length]
    return elements, present


def _padded(elements: Tensor, present: Tensor, leaf: SetLeaf) -> Tensor:
    """Return [B, K * (E + 1)]: the elements with a last entry that is 1 where they are there, and zeros after them."""
    marked = torch.cat([elements, present.unsqueeze(-1).to(elements.dtype)], -1)
    return F.pad(marked, (0, 0, 0, leaf.size - elements.shape[1])).flatten(1)


def _groups(sets: Sequence[SetLeaf], config: SetTemplateConfig) -> list[tuple[str, ...]]:
    """Return the groups of sets that share an embedding; each set is in one.

    Raises:
        ConfigError: a group names a leaf that is no set, one of another group, or sets with different features.
    """
    features = {leaf.key: leaf.features for leaf in sets}
    shared = [key for group in config.share_embeddings for key in group]
    for key in shared:
        if key not in features or shared.count(key) > 1:
            problem = "names no set" if key not in features else "is named more than once"
            raise ConfigError(f"{key!r} {problem}; sets: {', '.join(features) or 'none'}", "model.share_embeddings")
    for group in config.share_embeddings:
        if len({features[key] for key in group}) > 1:
            sizes = ", ".join(f"{key} {features[key]}" for key in group)
            raise ConfigError(f"these sets have different features per element: {sizes}", "model.share_embeddings")
    return [*(group for group in config.share_embeddings if group), *((key,) for key in features if key not in shared)]
