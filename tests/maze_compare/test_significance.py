"""Whether the difference of a few runs means anything."""

import numpy as np
import pytest
from maze_compare.significance import aggregate, estimate_text, improvement, verdict


def test_intervals_cover_what_they_should():
    """Of twenty values the interval covers the truth in about 95 % of the cases, or somewhat fewer."""
    rng = np.random.default_rng(1)
    found = [aggregate(rng.normal(3, 1, 20).tolist()) for _ in range(200)]
    covered = sum(each.low <= 3 <= each.high for each in found)
    assert 170 <= covered <= 199
    equal = [improvement(rng.normal(size=8).tolist(), rng.normal(size=8).tolist()) for _ in range(200)]
    assert sum("better" in verdict("A", "B", each) for each in equal) <= 14  # wins by chance in few cases of a hundred


def test_the_same_runs_give_the_same_interval():
    values = [3.0, 1.0, 4.0, 1.5]
    assert aggregate(values) == aggregate(values)
    assert aggregate([5.0] * 4) == (aggregate([5.0] * 4))
    assert estimate_text(aggregate([5.0] * 4)) == "5"


@pytest.mark.parametrize("values", [[], [1.0, float("nan"), 2.0], [float("inf")] * 3])
def test_what_has_no_mean_has_no_estimate(values):
    assert aggregate(values) is None


def test_a_group_that_is_ahead_only_in_its_best_values_is_not_called_equal():
    said = verdict("A", "B", improvement([1.0, 2.0, 3.0, 2.5], [7.0, 8.0, 9.0]))
    assert said == (
        "A ends below B, although its best values are ahead: it wins 0% of the pairs of runs (95 % interval: 0% to 0%)"
    )


def test_few_runs_are_not_judged():
    assert improvement([1.0, 2.0], [3.0, 4.0, 5.0]) is None
    assert "at least 3 seeds" in verdict("A", "B", None)
