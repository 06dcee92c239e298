"""The grammar of what a sweep searches, and the core's searchers."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from maze_sweep.searchers.base import Search
from maze_sweep.searchers.space import Choices, Range, parse_over, parse_space

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery


def space(*texts):
    return parse_space(dict(map(parse_over, texts)))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1e-4,3e-4", (1e-4, 3e-4)),
        ("a=7", (7,)),
        ("a=true, false", (True, False)),
        ("a=none-such,null", ("none-such", None)),
        ("a=[64,64],[256]", ([64, 64], [256])),
        ("a={b: 1},{b: 2}", ({"b": 1}, {"b": 2})),
        ("a=0..1:5", (0, 1)),  # whole ends: whole numbers, each once
        ("a=0.0..1.0:5", (0.0, 0.25, 0.5, 0.75, 1.0)),
        ("a=1e-4..1e-2:log:3", (1e-4, 1e-3, 1e-2)),
        ("a=16..256:log:5", (16, 32, 64, 128, 256)),
        ("a=my_envs:A-v0,my_envs:B-v0", ("my_envs:A-v0", "my_envs:B-v0")),
    ],
)
def test_lists(text, values):
    assert space(text) == {"a": Choices(values)}
    assert [type(each) for each in space(text)["a"].values] == [type(each) for each in values]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=0.9..0.99", Range(0.9, 0.99)),
        ("a=1..10", Range(1, 10)),
        ("a = 1e-5 .. 1e-2 : log", Range(1e-5, 1e-2, log=True)),
        ("a=-1..1.5", Range(-1, 1.5)),
    ],
)
def test_ranges(text, wanted):
    assert space(text) == {"a": wanted}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "path=values"),
        ("=1", "path=values"),
        ("a=", "path=values"),
        ("a=1..1", "must start below its end"),
        ("a=0..1:log", "above 0"),
        ("a=1..x", "needs two numbers, not 'x'"),
        ("a=0..true", "needs two numbers"),
        ("a=0..1" + "0" * 400, "needs two numbers, not 1000"),
        ("a=-1.7e308..1.7e308:3", "needs two numbers, not -1.7e"),
        ("a=0..1:lin", "unknown :lin"),
        ("a=0..1:1", "unknown :1"),
        ("a=0..1:3:log", "unknown :3:log"),
        ("a=0.0..1.0:999999999999", "a number of values from 2 to 99999"),
        ("a=0..1:" + "9" * 5000, "unknown :999.*…; a range"),
        ("a=0..1:²", "unknown :²"),
        ("a=1,2,1", "contains a value twice"),
        ("a=[1", "not valid YAML"),
    ],
)
def test_what_is_refused(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        space(text)
    assert "a" in str(caught.value)


@given(st.floats(1e-6, 1e3), st.floats(1.001, 1e4), st.booleans(), st.floats(0, 1))
def test_values_stay_inside_their_range(low, factor, log, share):
    high = low * factor
    assert low <= Range(low, high, log).at(share) <= high
    assert low <= Range(low, high, log).drawn(share) <= high


@pytest.mark.parametrize("ends", [Range(1, 4), Range(-2, 1), Range(1, 4, log=True)])
def test_integers_are_drawn_from_parts_of_a_range_that_are_alike(ends):
    drawn = [ends.drawn((each + 0.5) / 12_000) for each in range(12_000)]
    wide = [math.log((n + 0.5) / (n - 0.5)) if ends.log else 1 for n in range(ends.low, ends.high + 1)]
    for number, width in zip(range(ends.low, ends.high + 1), wide, strict=True):
        assert drawn.count(number) / 12_000 == pytest.approx(width / sum(wide), abs=1e-3)
        assert ends.drawn(ends.share(number)) == number


@pytest.mark.parametrize(
    ("dimension", "inside", "outside"),
    [
        (Range(1, 9), (1, 5, 9), (0, 10, 5.0, True, None, "5", [5], math.nan, 10**400)),
        (Range(0.5, 9.0), (0.5, 5, 9.0), (0.4, 9.1, True, math.nan, math.inf)),
        (Choices((1, None, [8, 8], "a")), (1, 1.0, None, [8, 8], "a"), (True, 2, [8], "b", {}, math.nan)),
        (Choices((True, 0)), (True, 0), (1, False)),
    ],
)
def test_what_a_dimension_holds(dimension, inside, outside):
    assert all(map(dimension.holds, inside))
    assert not any(map(dimension.holds, outside))


def searcher(name, texts, trials=None, seed=0):
    found = discovery.load("searcher", name)
    built = found(found.Config(name=name))
    count = built.setup(Search(space(*texts), seed, trials, maximize=True, folder=Path()))
    return built, count


def test_grid_is_the_product():
    built, count = searcher("grid", ["a=1,2,3", "b=x,y", "c=0.0..1.0:2"])
    points = [tuple(built.ask(number).values()) for number in range(count)]
    assert points == list(itertools.product([1, 2, 3], ["x", "y"], [0.0, 1.0]))
    assert list(built.ask(0)) == ["a", "b", "c"]


def test_grid_needs_values():
    with pytest.raises(ConfigError, match=r"over\.a.*\n.*a=0\.1\.\.0\.9:5"):
        searcher("grid", ["a=0.1..0.9"])
    with pytest.raises(ConfigError, match="3 points, not 4"):
        searcher("grid", ["a=1,2,3"], trials=4)


def test_random_draws_evenly_and_repeatably():
    texts = ["lr=1e-5..1e-1:log", "gamma=0.5..1.0", "n=1..4", "k=a,b"]
    built, count = searcher("random", texts, trials=400)
    points = [built.ask(number) for number in range(count)]
    assert points == [searcher("random", texts, trials=9)[0].ask(number) for number in range(count)]
    assert points[:5] != [searcher("random", texts, trials=9, seed=1)[0].ask(number) for number in range(5)]
    # Even on the right scale: a quarter of the draws in each quarter, give or take five standard deviations.
    quarters = [Counter(int(4 * share) for share in shares) for shares in (
        [(math.log10(p["lr"]) + 5) / 4 for p in points], [(p["gamma"] - 0.5) * 2 for p in points]
    )]  # fmt: skip
    for counts in [*quarters, Counter(p["n"] for p in points)]:
        assert len(counts) == 4
        assert all(abs(n - 100) < 5 * math.sqrt(400 * 0.25 * 0.75) for n in counts.values()), counts
    assert set(Counter(p["k"] for p in points)) == {"a", "b"}
    assert all(isinstance(p["n"], int) for p in points)


def test_random_needs_a_number_of_trials():
    with pytest.raises(ConfigError, match="--trials 20"):
        searcher("random", ["a=1,2"])
