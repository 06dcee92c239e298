"""Pictures of an episode as data URIs: encoded small, and thinned so that a file stays small."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

_SIDE = 320
"""Most pixels of a picture's longer side."""
_QUALITY = 75


def data_uri(kind: str, data: bytes) -> str:
    """Return data as an address that contains it."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def encoded(picture: np.ndarray) -> str:
    """Return a picture `[height, width]` or `[height, width, 3]`, uint8, as PNG or JPEG, whichever is smaller."""
    image = Image.fromarray(np.ascontiguousarray(picture))
    image.thumbnail((_SIDE, _SIDE))
    found = []
    for kind, options in (("png", {"optimize": True}), ("jpeg", {"quality": _QUALITY})):
        file = io.BytesIO()
        image.save(file, kind, **options)
        found.append((kind, file.getvalue()))
    kind, data = min(found, key=lambda each: len(each[1]))
    return data_uri(f"image/{kind}", data)


def as_picture(array: np.ndarray) -> np.ndarray | None:
    """Return an array of uint8 as a picture, grey or RGB; None if it is none.

    Channels may come first or last; of a stack that is neither grey nor RGB, the last channel is shown.
    """
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or min(sorted(array.shape)[-2:]) < 8:
        return None
    if array.ndim == 2:
        return array
    if array.shape[0] < array.shape[-1]:
        array = np.moveaxis(array, 0, -1)
    return array if array.shape[-1] == 3 else array[..., -1]


class Film:
    """The pictures of an episode by step; of a long one every second, fourth, … step, and the last.

    Args:
        most: most pictures, at least 2.
    """

    def __init__(self, most: int) -> None:
        self._most = max(2, most)
        self._every = 1
        self._pictures: dict[int, str] = {}
        self._end: tuple[int, str] | None = None

    def wants(self, step: int) -> bool:
        """Return whether a picture of this step would be kept."""
        return step % self._every == 0

    def add(self, step: int, picture: np.ndarray, *, last: bool = False) -> None:
        """Add the picture of a step, `[height, width, 3]`, uint8."""
        if last:
            self._end = (step, encoded(picture))
            return
        self._pictures[step] = encoded(picture)
        while len(self._pictures) >= self._most:
            self._every *= 2
            self._pictures = {at: each for at, each in self._pictures.items() if at % self._every == 0}

    @property
    def frames(self) -> list[tuple[int, str]]:
        """The pictures in order, each with its step."""
        found = dict(self._pictures)
        if self._end is not None:
            found[self._end[0]] = self._end[1]
        return sorted(found.items())
