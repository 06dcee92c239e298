"""Figures that callbacks and algorithms draw, as PNG."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from maze_core.base.terminal_text import printable

_SIDE = 1600
"""Most pixels of a picture's longer side; a larger one is made smaller, so that a record stays readable."""


class Picture(NamedTuple):
    """A figure as PNG, in RGB."""

    name: str
    png: bytes
    height: int
    width: int


def pictures(figures: Mapping[str, Any]) -> Iterator[Picture]:
    """Yield figures as `EpochReport.figures` describes them. One that is none is left out with a warning."""
    for name, figure in figures.items():
        try:
            yield _picture(str(name), figure)
        except Exception as error:  # noqa: BLE001 — whatever matplotlib raises; the others are still written
            reason = printable(f"{type(error).__name__}: {error}", 200)
            warnings.warn(f"the figure {printable(name, 80)} is not drawn: {reason}", RuntimeWarning, stacklevel=2)


def _picture(name: str, figure: Any) -> Picture:
    from PIL import Image

    if hasattr(figure, "savefig"):
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png")
        image = Image.open(drawn).convert("RGB")
    else:
        image = Image.fromarray(_checked(np.asarray(figure))).convert("RGB")
    image.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    image.save(file, "png")
    return Picture(name, file.getvalue(), image.height, image.width)


def _checked(array: np.ndarray) -> np.ndarray:
    shape = array.shape
    if array.dtype != np.uint8 or len(shape) not in (2, 3) or shape[2:] not in ((), (3,)) or not array.size:
        raise ValueError(
            f"an array of {array.dtype} {shape} is neither uint8 [height, width] nor uint8 [height, width, 3]"
        )
    return np.ascontiguousarray(array)
