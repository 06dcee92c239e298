"""The layout of pictures: taken where it is beyond doubt, pointed out where it seems another one than declared."""

import warnings

import numpy as np
import pytest
from gymnasium import spaces
from maze_models.encoders import ImageEncoder, image_size


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


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((3, 84, 84), (3, 84, 84)),
        ((4, 84, 84), (4, 84, 84)),
        ((1, 32, 40), (1, 32, 40)),
        ((12, 210, 160), (12, 210, 160)),
        ((84, 84, 4), (4, 84, 84)),
        ((210, 160, 3), (3, 210, 160)),
        ((7, 7, 3), (3, 7, 7)),
        ((96, 96, 96), (96, 96, 96)),
        ((3, 3, 32), (32, 3, 3)),
        ((84, 84), (1, 84, 84)),
    ],
)
def test_unless_declared_the_layout_is_what_is_beyond_doubt(shape, size):
    """`size`: channels, height and width."""
    space = spaces.Box(0, 255, shape, np.uint8)
    assert image_size(space, "auto") == size
    encoder = ImageEncoder("camera", space, "auto", 8)
    assert encoder.channels == size[0]
    assert encoder.layout == ("chw" if shape == size and shape[0] < shape[1] else "hwc")
    assert not warned(shape, "auto")


@pytest.mark.parametrize("shape", [(1, 10, 10), (2, 12, 8), (3, 31, 31)])
def test_unless_declared_a_doubtful_layout_is_pointed_out(shape):
    (message,) = warned(shape, "auto")
    assert "model.layout=chw" in message
    assert ImageEncoder("camera", spaces.Box(0, 255, shape, np.uint8), "auto", 8).channels == shape[2]
