"""The parameters of the model `set_template`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from maze_models.encoders import Layout
from maze_models.precision import ImagePrecision
from pydantic import Field, PositiveInt, model_validator

from maze_core.envs.actors import own_actions
from maze_core.models.assembly import ModelConfig
from maze_core.models.blocks import Activation
from maze_core.plugins.config.params import CriticHidden, Hidden, Width

Block = Literal["set", "dense", "image"]


class SetTemplateConfig(ModelConfig):
    """The parameters of `set_template`."""

    blocks: dict[str, Block] = Field(default_factory=dict)
    """Kinds of blocks by leaf: `set`, `dense` or `image`. Other leaves: a Box of floats [K, F] is a set, an image an
    image, anything else dense."""
    pointers: dict[str, str] = Field(default_factory=dict)
    """Action leaves whose choices are scored for each element of a set, with the set's leaf. The action is Discrete(K),
    or Discrete(K * m) for m choices per element. Where several actors act, the leaf begins with the actor's kind."""
    share_embeddings: tuple[tuple[str, ...], ...] = ()
    """Groups of sets with equal features whose elements are embedded by the same layers."""
    embedding: Width = 64
    """Units of an embedded element."""
    attention_layers: Annotated[int, Field(ge=0, le=16)] = 1
    """Layers of self-attention over the elements of all sets; 0: none."""
    attention_heads: PositiveInt = 4
    """Heads of each layer of attention; `embedding` is a multiple."""
    pool: Literal["mean", "max"] = "mean"
    """How the elements of a set become features."""
    leaf_hidden: Hidden = (64,)
    """Units of each layer that encodes a dense leaf."""
    image_features: Width = 256
    """Units of the dense layer after the convolutions of an image."""
    image_precision: ImagePrecision = "float32"
    """What the layers up to `image_features` compute in while they learn: `float32`, `bfloat16`, or `auto`, bfloat16 on
    processors with AMX, where it is faster, else float32. Parameters, losses and acting are always float32."""
    layout: Layout = "auto"
    """Order of an image's dimensions, as for `template`."""
    hidden: Hidden = (64,)
    """Units of each layer after the encoded leaves are concatenated."""
    critic_hidden: CriticHidden = None
    activation: Activation = "relu"
    """Activation of the fully connected layers."""

    def for_kind(self, kind: str) -> Self:
        """Return the parameters with the pointers of one kind of actor alone, by the keys of its own actions."""
        return super().for_kind(kind).model_copy(update={"pointers": own_actions(self.pointers, kind)})

    @model_validator(mode="after")
    def _heads_divide_the_embedding(self) -> Self:
        if self.embedding % self.attention_heads:
            raise ValueError(
                f"embedding ({self.embedding}) must be a multiple of attention_heads ({self.attention_heads})"
            )
        return self
