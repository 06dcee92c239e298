"""Pictures whose layout is not the declared one are pointed out; legitimate layouts are not."""

import warnings

import numpy as np
import pytest
from gymnasium import spaces

from maze_core.models.encoders import ImageEncoder


def warned(shape, layout="hwc", dtype=np.uint8):
    high = 255 if dtype == np.uint8 else np.inf
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ImageEncoder("camera", spaces.Box(0, high, shape, dtype), layout, 8)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(
    "shape", [(3, 84, 84), (1, 84, 84), (4, 84, 84), (12, 84, 84), (3, 210, 160), (3, 32, 32), (1, 10, 10), (2, 12, 8)]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_channels_first_where_they_should_be_last(shape, dtype):
    (message,) = warned(shape, dtype=dtype)
    assert "'camera'" in message
    assert str(shape) in message
    assert "model.layout=chw" in message
    assert "transpose" in message
    assert "[1, 2, 0]" in message
    assert not warned(shape, "chw", dtype)


@pytest.mark.parametrize("shape", [(84, 84, 3), (210, 160, 3), (32, 32, 1), (96, 96, 12)])
def test_channels_last_where_they_should_be_first(shape):
    (message,) = warned(shape, "chw")
    assert "model.layout=hwc" in message
    assert "[2, 0, 1]" in message
    assert not warned(shape)


@pytest.mark.parametrize(
    "shape",
    [(8, 8, 111), (19, 19, 17), (7, 7, 20), (5, 5, 3), (10, 10, 10), (3, 3, 3), (4, 4, 16), (1, 1, 64), (84, 84)],
)
@pytest.mark.parametrize("layout", ["hwc", "chw"])
def test_boards_and_small_pictures_may_be_either(shape, layout):
    assert not warned(shape, layout if shape != (8, 8, 111) else "hwc")
