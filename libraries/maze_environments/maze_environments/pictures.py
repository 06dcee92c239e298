"""What environments render: pictures in the forms that they come in, and how many a second has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from maze_core.base.terminal_text import shown


def pictures_per_second(env: Any, usual: int) -> int:
    """Return `metadata["render_fps"]` of an environment, rounded; `usual` where it is not a positive number."""
    metadata = getattr(env, "metadata", None)
    given: Any = metadata.get("render_fps") if isinstance(metadata, Mapping) else None
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        return usual
    return max(1, round(number)) if math.isfinite(number) and number > 0 else usual


def as_rgb(rendered: Any) -> np.ndarray:
    """Return what `render()` returned as a picture [height, width, 3] of uint8.

    Grey pictures [height, width], one channel, colours with transparency (which is dropped), and channels that come
    first are converted. Floats count from 0 to 1 unless one is larger. Of a list of pictures the last one counts.

    Raises:
        ValueError: it is no picture.
    """
    if isinstance(rendered, list) and rendered and np.ndim(rendered[-1]) in (2, 3):
        rendered = rendered[-1]
    picture = np.asarray(rendered)
    if picture.ndim == 2:
        picture = picture[..., None]
    if picture.ndim == 3 and picture.shape[-1] not in (1, 3, 4) and picture.shape[0] in (1, 3, 4):
        picture = np.moveaxis(picture, 0, -1)
    if picture.ndim != 3 or picture.shape[-1] not in (1, 3, 4) or min(picture.shape[:2]) < 2:
        found = f"an array of shape {picture.shape}" if picture.ndim else shown(rendered)
        raise ValueError(f"render() returned {found}, not a picture [height, width, 3] of uint8")
    if picture.dtype.kind not in "biuf":
        raise ValueError(f"render() returned an array of dtype {picture.dtype}, not a picture of uint8")
    return np.ascontiguousarray(np.broadcast_to(_as_uint8(picture[..., :3]), (*picture.shape[:2], 3)))


def _as_uint8(picture: np.ndarray) -> np.ndarray:
    if picture.dtype == np.uint8:
        return picture
    if picture.dtype == np.bool_:
        return np.where(picture, np.uint8(255), np.uint8(0))
    if picture.dtype.kind == "f":
        picture = np.nan_to_num(picture)
        picture = np.rint(picture * 255 if picture.max() <= 1 else picture)
    whole: np.ndarray = np.clip(picture, 0, 255).astype(np.uint8)
    return whole
