"""Statistics over tasks and seeds, against independent implementations."""

import random
import statistics
import subprocess
import sys

import numpy as np
import pytest
from maze_statistics import (
    Run,
    ScoresError,
    aggregate,
    final_scores,
    improvements,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    probability_of_improvement,
    profiles,
    sample_efficiency,
)
from maze_statistics.bootstrap import estimates

stats = pytest.importorskip("scipy.stats")
CLOSE = {"rel": 1e-6, "abs": 1e-9}


def drawn(seed, counts, spread=1.0):
    rng = np.random.default_rng(seed)
    return [np.round(rng.normal(rng.normal(), spread, count), 2) for count in counts]


@pytest.mark.parametrize("counts", [[1], [5], [3, 3], [5] * 6, [10] * 26, [7] * 3])
def test_points_are_those_of_scipy_and_of_loops(counts):
    tasks = drawn(len(counts), counts)
    assert interquartile_mean(tasks) == pytest.approx(stats.trim_mean(np.concatenate(tasks), 0.25), **CLOSE)
    means = [statistics.fmean(task.tolist()) for task in tasks]
    assert mean(tasks) == pytest.approx(statistics.fmean(means), **CLOSE)
    assert median(tasks) == pytest.approx(statistics.median(means), **CLOSE)
    missed = [statistics.fmean(max(0.0, 0.5 - value) for value in task) for task in tasks]
    assert optimality_gap(tasks, 0.5) == pytest.approx(statistics.fmean(missed), **CLOSE)


@pytest.mark.parametrize("counts", [[2, 6], [3, 4, 5], [1, 7], [10, 2, 4]])
def test_tasks_with_other_numbers_of_runs_count_the_same(counts):
    """As if each run were there so often that all tasks have equally many."""
    tasks = drawn(3, counts)
    whole = 4 * np.lcm.reduce(counts)
    repeated = np.concatenate([np.repeat(task, whole // len(task)) for task in tasks])
    assert interquartile_mean(tasks) == pytest.approx(stats.trim_mean(repeated, 0.25), **CLOSE)
    assert mean(tasks) == pytest.approx(repeated.mean(), **CLOSE)
    batch = [np.stack([task, task[::-1]]) for task in tasks]
    assert interquartile_mean(batch) == pytest.approx(interquartile_mean(tasks), **CLOSE)
    assert float(interquartile_mean([np.full(count, 2.5) for count in counts])) == pytest.approx(2.5)


def test_the_example_of_the_library_that_came_before():
    """From its own tests: four and three runs on two tasks, of which each row is a run."""
    x, y = np.array([[1, 2], [2, 2], [1, 1], [2, 1]]).T, np.array([[1, 1], [2, 2], [3, 3]]).T
    assert [float(each(list(x))) for each in (median, mean, interquartile_mean)] == [1.5, 1.5, 1.5]
    assert [float(each(list(y))) for each in (median, mean, interquartile_mean)] == [2.0, 2.0, 2.0]
    assert float(probability_of_improvement(list(x), list(y))) == pytest.approx(1 / 3, **CLOSE)


@pytest.mark.parametrize("counts", [([3, 5], [4, 2]), ([5] * 4, [5] * 4), ([1], [1])])
def test_the_probability_of_improvement_is_that_of_mann_and_whitney(counts):
    ours, theirs = (drawn(seed, each, 0.02) for seed, each in zip((1, 1), counts, strict=True))
    ours = [np.round(task, 1) for task in ours]  # with ties
    theirs = [np.round(task, 1) for task in theirs]
    shares = [
        stats.mannwhitneyu(our, their).statistic / (our.size * their.size)
        for our, their in zip(ours, theirs, strict=True)
    ]
    assert probability_of_improvement(ours, theirs) == pytest.approx(statistics.fmean(shares), **CLOSE)
    names = [f"task{number}" for number in range(len(ours))]
    scores = {"a": dict(zip(names, ours, strict=True)), "b": dict(zip(names, theirs, strict=True))}
    found = improvements(scores, resamples=200)
    assert found["a", "b"].value == pytest.approx(statistics.fmean(shares), **CLOSE)
    assert found["a", "b"].value + found["b", "a"].value == pytest.approx(1)
    assert found["a", "b"].low == pytest.approx(1 - found["b", "a"].high)


def naive(statistic, algorithms, resamples):
    """Intervals by a bootstrap of loops: runs are drawn within each task."""
    rng = random.Random(5)
    values = []
    for _ in range(resamples):
        drawn = [[np.array(rng.choices(task.tolist(), k=task.size)) for task in tasks] for tasks in algorithms]
        values.append(float(statistic(*drawn)))
    ordered = sorted(values)
    return ordered[round(0.025 * resamples)], ordered[round(0.975 * resamples)]


def test_intervals_are_those_of_a_naive_bootstrap():
    tasks, others = drawn(2, [5, 8, 5]), drawn(9, [4, 5, 6])
    found = estimates({"iqm": interquartile_mean, "median": median}, tasks)
    for name, statistic in (("iqm", interquartile_mean), ("median", median)):
        low, high = naive(statistic, [tasks], 1500)
        error = 0.1 * (high - low)
        assert found[name].low == pytest.approx(low, abs=error)
        assert found[name].high == pytest.approx(high, abs=error)
    names = ["x", "y", "z"]
    scores = {"a": dict(zip(names, tasks, strict=True)), "b": dict(zip(names, others, strict=True))}
    low, high = naive(probability_of_improvement, [tasks, others], 1500)
    better = improvements(scores)["a", "b"]
    assert (better.low, better.high) == pytest.approx((low, high), abs=0.05)


def test_a_bootstrap_in_chunks_has_as_many_draws(monkeypatch):
    tasks = drawn(2, [5, 8, 5])
    whole = estimates({"mean": mean}, tasks, resamples=3000)["mean"]
    monkeypatch.setattr("maze_statistics.bootstrap._AT_ONCE", 1000)
    assert estimates({"mean": mean}, tasks, resamples=3000)["mean"].low == pytest.approx(whole.low, abs=0.05)


def test_intervals_depend_on_nothing_but_the_scores_and_the_seed():
    one = {"x": [1.0, 2.0, 3.0], "y": [0.5, 0.2, 0.9, 0.4]}
    alone, beside = aggregate({"a": one}), aggregate({"b": {"x": [9.0] * 3, "y": [1.0]}, "a": one})
    assert alone["a"] == beside["a"]
    assert aggregate({"a": one}, seed=1)["a"].iqm.value == alone["a"].iqm.value
    assert aggregate({"a": one}, seed=1)["a"].iqm.low != alone["a"].iqm.low
    assert (alone["a"].runs, alone["a"].tasks) == (7, 2)
    assert aggregate({"a": {"x": [2.0] * 4}})["a"].iqm.low == 2.0


def test_profiles_count_runs_above_each_score():
    scores = {"a": {"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0]}, "b": {"x": [0.5], "y": [0.25, 0.75]}}
    found = profiles(scores, [0.0, 0.5, 1.0, 9.0], resamples=300)
    assert found["a"].value.tolist() == [(0.75 + 1) / 2, (0.75 + 1) / 2, 0.25, 0.0]
    assert found["b"].value.tolist() == [1.0, 0.25, 0.0, 0.0]
    assert (found["a"].low <= found["a"].value).all()
    assert (found["a"].high >= found["a"].value).all()
    assert found["b"].low[0] == found["b"].high[0] == 1.0
    auto = profiles(scores)["a"]
    assert (auto.x[0], auto.x[-1], len(auto.x)) == (0.0, 3.0, 101)


def run(algorithm, task, seed, steps, scores):
    return Run(algorithm, task, str(seed), np.array(steps, float), np.array(scores, float))


def test_a_curve_has_the_last_score_of_each_run_and_ends_with_the_first():
    runs = [
        run("a", "x", 0, [10, 20, 30], [1, 2, 3]),
        run("a", "x", 1, [5, 25], [5, 7]),
        run("b", "x", 0, [10], [1]),
    ]
    found = sample_efficiency(runs, resamples=50)
    assert found["a"].x.tolist() == [10, 20, 25]
    assert found["a"].value.tolist() == [3.0, 3.5, 4.5]
    assert found["a"].low.tolist() == [1.0, 2.0, 2.0]
    assert found["b"].value.tolist() == [1.0]
    assert sample_efficiency(runs, share=True)["a"].x.tolist() == pytest.approx([1 / 3, 2 / 3, 25 / 30])
    assert final_scores(runs)["a"]["x"].tolist() == [3.0, 7.0]
    assert final_scores(runs, "best", lower=True)["a"]["x"].tolist() == [1.0, 5.0]
    apart = [run("a", "x", 0, [1, 2], [0, 0]), run("a", "x", 1, [3], [0])]
    with pytest.raises(ScoresError, match="no common curve"):
        sample_efficiency(apart)
    long = [run("a", "x", seed, range(1000), np.arange(1000)) for seed in (0, 1)]
    assert len(sample_efficiency(long, resamples=10)["a"].x) == 50


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({}, "there are no scores"),
        ({"a": {}}, "there are no scores"),
        ({"a": {"x": []}}, "a number for each run"),
        ({"a": {"x": [[1.0]]}}, "a number for each run"),
        ({"a": {"x": [1.0, float("nan")]}}, "a on x: a score is not a finite number"),
        ({"a": {"x": ["many"]}}, "must be numbers"),
        ({"a": {"x": [1e200]}}, "larger than 1e100"),
        ({"a": {"x": [1.0], "y": [1.0]}, "b": {"x": [1.0]}}, "b has no run on y, which others have"),
    ],
)
def test_what_has_no_aggregate_is_refused(scores, said):
    with pytest.raises(ScoresError, match=said):
        aggregate(scores)
    with pytest.raises(ScoresError, match=said):
        improvements(scores)


@pytest.mark.parametrize("options", [{"resamples": 0}, {"resamples": 10**9}, {"level": 1.0}, {"level": float("nan")}])
def test_options_that_say_nothing_are_refused(options):
    with pytest.raises(ScoresError):
        aggregate({"a": {"x": [1.0]}}, **options)


def test_it_needs_neither_torch_nor_anything_else_of_maze():
    code = (
        "import sys, maze_statistics; "
        "others = {name.partition('.')[0] for name in sys.modules}; "
        "sys.exit(len(others & {'torch', 'maze_core', 'scipy', 'pydantic', 'yaml', 'matplotlib'}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
