"""Pictures in the forms in which environments render them, and how many a second has."""

from types import SimpleNamespace

import numpy as np
import pytest
from maze_environments.pictures import as_rgb, pictures_per_second


@pytest.mark.parametrize(
    ("given", "found"),
    [(5, 5), (29.97, 30), (0.2, 1), (None, 30), (0, 30), (-3, 30), ("fast", 30), ("12", 12), (np.nan, 30), (np.inf, 30),
     ([5], 30), (10**400, 30)],
)  # fmt: skip
def test_pictures_per_second(given, found):
    assert pictures_per_second(SimpleNamespace(metadata={"render_fps": given}), 30) == found


@pytest.mark.parametrize("metadata", [None, "x", 3, {}])
def test_metadata_of_any_kind(metadata):
    assert pictures_per_second(SimpleNamespace(metadata=metadata), 30) == 30
    assert pictures_per_second(object(), 30) == 30


GREY = np.arange(48, dtype=np.uint8).reshape(6, 8)


@pytest.mark.parametrize(
    "rendered",
    [
        GREY,
        GREY[..., None],
        GREY[None],
        np.stack([GREY] * 3, -1),
        np.stack([GREY] * 3),
        np.stack([GREY] * 4, -1),
        GREY.astype(np.int64),
        GREY.astype(np.float64),
        GREY / 255,
        [np.zeros_like(GREY), GREY],
    ],
)
def test_a_picture_in_any_form(rendered):
    picture = as_rgb(rendered)
    assert picture.shape == (6, 8, 3)
    assert picture.dtype == np.uint8
    assert all(np.array_equal(picture[..., k], GREY) for k in range(3))


@pytest.mark.parametrize(
    ("rendered", "found"),
    [
        (None, "returned None"),
        ("text", "returned 'text'"),
        (3, "returned 3"),
        (np.zeros(5), r"shape \(5,\)"),
        (np.zeros((6, 8, 2)), r"shape \(6, 8, 2\)"),
        (np.zeros((1, 8, 3)), "shape"),
        (np.full((6, 8, 3), "x"), "dtype <U1"),
    ],
)
def test_what_is_no_picture(rendered, found):
    with pytest.raises(ValueError, match=found):
        as_rgb(rendered)
