"""The parameters of the env source `cutting_2d`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from maze_core import PluginConfig

Side = Annotated[int, Field(gt=0, le=10_000)]
Sides = Annotated[tuple[Side, ...], Field(min_length=2, max_length=2)]
"""Width and height in whole units."""


class CuttingConfig(PluginConfig):
    """The parameters of `cutting_2d`."""

    form: Literal["flat", "masked", "structured", "structured_masked"] = "masked"
    """`masked`: impossible choices are masked. `flat`: no masks; an order that does not fit is turned, or else cut from
    a fresh sheet. The structured forms have two actors: `select` chooses the piece, then `cut` how to cut it."""
    orders: Annotated[int, Field(gt=0, le=100_000)] = 60
    """Orders of an episode."""
    known: Annotated[int, Field(ge=0, le=1000)] = 4
    """Orders after the current one that are known."""
    inventory: Annotated[int, Field(ge=2, le=10_000)] = 50
    """Largest number of pieces in stock, the fresh sheet included."""
    sheet: Sides = (24, 16)
    """Width and height of a fresh sheet."""
    instances: Literal["static", "random"] = "static"
    """`static`: orders have the sizes of `catalogue`; `random`: every episode draws a catalogue of as many sizes, which
    the policy sees."""
    catalogue: Annotated[tuple[Sides, ...], Field(min_length=1, max_length=100)] = (
        (13, 2),
        (11, 2),
        (6, 2),
        (12, 5),
        (10, 6),
        (10, 8),
    )
    """Sizes that orders have, each with the same probability."""

    max_episode_steps: PositiveInt | None = None
    """Steps after which an episode is truncated; none: it ends with its last order."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        long, short = max(self.sheet), min(self.sheet)
        for width, height in self.catalogue:
            if max(width, height) > long or min(width, height) > short:
                raise ValueError(f"an order of {width} by {height} does not fit the sheet of {long} by {short}")
        if self.instances == "random" and short < 5:
            raise ValueError("random instances need a sheet of at least 5 by 5 units")
        return self
