"""Results in the order in which they are wanted, whoever finishes first."""

import pytest

from maze_core.base.errors import RunError
from maze_core.collect.pools.workers import JobResult, OrderedResults


class Finished:
    """A pool whose jobs end in a given order."""

    def __init__(self, order):
        self.order = list(order)

    def collect(self, timeout=None):
        return JobResult(self.order[0], 0, f"result {self.order.pop(0)}") if self.order else None


def test_results_come_in_the_wanted_order():
    pool = Finished([2, 0, 1, 3])
    results = OrderedResults(pool)
    assert [results.of(job).value for job in (0, 1)] == ["result 0", "result 1"]
    assert pool.order == [3]  # what is not wanted yet is not waited for
    assert [results.of(job).job for job in (2, 3)] == [2, 3]


def test_a_result_is_given_once_and_a_lost_one_ends_the_run():
    results = OrderedResults(Finished([0]))
    results.of(0)
    with pytest.raises(RunError, match="lost a job"):
        results.of(0)
