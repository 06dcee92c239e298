"""Means and standard deviations of numbers of any size, against exact fractions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maze_core.base.metrics import deviation, mean


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_the_mean_is_that_of_exact_fractions(values):
    exact = float(sum(map(Fraction, values)) / len(values))
    assert mean(values) == pytest.approx(exact, rel=1e-15, abs=1e-320)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], math.nan), ([math.nan], math.nan), ([math.nan, 2.0], 2.0), ([math.inf, -math.inf], math.nan),
     ([math.inf, 1e308, 1e308], math.inf)],
)  # fmt: skip
def test_values_that_are_no_numbers(values, expected):
    assert mean(values) == pytest.approx(expected, nan_ok=True)


@given(st.lists(st.floats(-1e150, 1e150), min_size=1, max_size=9))
def test_the_deviation_is_that_of_exact_fractions(values):
    exact = list(map(Fraction, values))
    middle = sum(exact) / len(exact)
    assert deviation(values) == pytest.approx(math.sqrt(sum((v - middle) ** 2 for v in exact) / len(exact)))


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf], [1.0, -math.inf], [math.inf, math.nan]])
def test_what_has_no_deviation(values):
    assert math.isnan(deviation(values))
    assert deviation([1.0, math.nan, 3.0]) == 1.0
