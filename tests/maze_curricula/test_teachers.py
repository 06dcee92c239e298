"""What the teachers compute: mixtures, priorities, boundaries, difficulties, lessons, and points of a space."""

import math

import numpy as np
import pytest
from maze_curricula import Choice, FloatRange, IntRange, Space
from maze_curricula.mixture import akaike, best_mixture, fit, log_densities
from maze_curricula.teachers.adr import Adr, AdrConfig
from maze_curricula.teachers.alp_gmm import AlpGmm, AlpGmmConfig
from maze_curricula.teachers.lessons import Lessons, LessonsConfig
from maze_curricula.teachers.plr import Plr, PlrConfig, priorities
from maze_curricula.teachers.success import Success, SuccessConfig

from maze_core import RunError
from maze_core.envs.vector import Episode

SIZES = Space({"size": IntRange(1, 10)})


def begun(teacher, config, space=SIZES):
    taught = teacher(config)
    taught.setup(space, np.random.default_rng(1))
    return taught


def played(values, returned, **metrics):
    return Episode(0, 0, returned, 1, metrics, None, values)


def clusters(count, each=80):
    rng = np.random.default_rng(5)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 5.0], [6.0, 6.0]])[:count]
    return np.concatenate([rng.normal(centre, 0.5, (each, 2)) for centre in centres]), centres


def density(row, weight, mean, covariance):
    """Weight times density, from the inverse and the determinant."""
    apart = row - mean
    distance = apart @ np.linalg.inv(covariance) @ apart
    return weight * math.exp(-distance / 2) / math.sqrt((2 * math.pi) ** len(row) * np.linalg.det(covariance))


def plain_step(rows, mixture):
    """One round of expectation and maximisation in plain Python."""
    parts = list(zip(mixture.weights, mixture.means, mixture.covariances, strict=True))
    shares = [[density(row, *part) for part in parts] for row in rows]
    shares = [[each / sum(row) for each in row] for row in shares]
    found = []
    for k in range(len(parts)):
        total = sum(share[k] for share in shares)
        mean = sum(share[k] * row for share, row in zip(shares, rows, strict=True)) / total
        outer = sum(share[k] * np.outer(row - mean, row - mean) for share, row in zip(shares, rows, strict=True))
        found.append((total / len(rows), mean, outer / total))
    return found


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_mixture_is_where_expectation_and_maximisation_end(count):
    rows, _ = clusters(4)
    mixture = fit(rows, count, np.random.default_rng(0))
    parts = list(zip(mixture.weights, mixture.means, mixture.covariances, strict=True))
    expected = [[math.log(density(row, *part)) for part in parts] for row in rows[::20]]
    np.testing.assert_allclose(log_densities(rows[::20], mixture), expected, rtol=1e-9)
    for part, (weight, mean, covariance) in zip(parts, plain_step(rows, mixture), strict=True):
        np.testing.assert_allclose(part[0], weight, atol=0.02)
        np.testing.assert_allclose(part[1], mean, atol=0.05)
        np.testing.assert_allclose(part[2], covariance, atol=0.2)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_known_mixture_is_found(count):
    rows, centres = clusters(count)
    found = fit(rows, count, np.random.default_rng(0))
    nearest = [min(np.abs(mean - centre).max() for mean in found.means) for centre in centres]
    assert max(nearest) < 0.2
    np.testing.assert_allclose(found.weights, 1 / count, atol=0.03)
    assert len(best_mixture(rows, range(1, 6), np.random.default_rng(0)).weights) >= count


def test_the_criterion_counts_parameters_twice():
    rows, _ = clusters(2)
    one = fit(rows, 1, np.random.default_rng(0))
    assert akaike(rows, one) == pytest.approx(2 * 5 - 2 * log_densities(rows, one).sum())


def test_equal_rows_have_a_mixture():
    found = best_mixture(np.ones((8, 2)), range(2, 4), np.random.default_rng(0))
    assert np.isfinite(found.means).all()


@pytest.mark.parametrize("ages", [[4, 0, 1, 5], [0, 0, 0, 0]])
def test_priorities_are_those_of_the_formula(ages):
    scores, config = [0.5, 3.0, 0.0, 0.7], PlrConfig(name="plr", temperature=0.5, staleness=0.2)
    ranks = [1 + sum(other > each for other in scores) for each in scores]
    weights = [(1 / rank) ** (1 / 0.5) for rank in ranks]
    expected = [weight / sum(weights) for weight in weights]
    if any(ages):
        expected = [0.8 * p + 0.2 * age / sum(ages) for p, age in zip(expected, ages, strict=True)]
    found = priorities(np.array(scores), np.array(ages, float), config)
    np.testing.assert_allclose(found, expected)
    assert found.sum() == pytest.approx(1)


def test_levels_of_much_progress_are_played_again():
    teacher = begun(Plr, PlrConfig(name="plr", levels=200, replay=1, staleness=0))
    for returned in (0.0, 1.0):
        teacher.see([played({"size": size}, returned * (size == 7)) for size in range(1, 11)], {})
    assert {each["size"] for each in teacher.next(20)} == {7}


def test_boundaries_move_where_the_agent_does_well():
    config = AdrConfig(name="adr", metric="return", low=0, high=1, step=0.25, episodes=2, start=0.5)
    teacher = begun(Adr, config, Space({"size": FloatRange(0, 8)}))
    assert {each["size"] for each in teacher.next(20)} == {4.0}
    teacher.see([played({"size": 4.0}, 2.0)] * 2, {})
    assert teacher.metrics() == {"size_open": 0.5}
    assert {2.0, 6.0} < {each["size"] for each in teacher.next(50)}
    teacher.see([played({"size": 3.0}, 2.0)] * 9, {})  # within: no boundary
    assert teacher.metrics() == {"size_open": 0.5}
    teacher.see([played({"size": 6.0}, 2.0)] * 2, {})
    assert teacher.metrics() == {"size_open": 0.75}
    teacher.see([played({"size": 2.0}, -2.0)] * 2, {})
    assert teacher.metrics() == {"size_open": 0.5}
    assert {4.0, 8.0} < {each["size"] for each in teacher.next(50)}
    teacher.see([played({"size": 4.0}, -2.0)] * 2, {})
    assert teacher.metrics() == {"size_open": 0.25}
    for size in (6.0, 8.0):  # no further than to the upper boundary
        teacher.see([played({"size": size}, -2.0)] * 2, {})
        assert teacher.metrics() == {"size_open": 0.0}


def test_success_raises_and_lowers_the_difficulty():
    teacher = begun(Success, SuccessConfig(name="success", episodes=4, step=0.5))
    assert {each["size"] for each in teacher.next(20)} == {1}
    teacher.see([played({"size": 1}, 0, success=1)] * 4, {})
    assert teacher.metrics() == {"difficulty": 0.5}
    assert max(each["size"] for each in teacher.next(50)) == 6
    teacher.see([played({"size": 6}, 0, success=1)] * 3 + [played({"size": 6}, 0, success=0)], {})
    assert teacher.metrics() == {"difficulty": 0.5}
    teacher.see([played({"size": 6}, 0, success=0)] * 4, {})
    assert teacher.metrics() == {"difficulty": 0.0}
    with pytest.raises(RunError, match="no 'success', but return, length"):
        teacher.see([played({"size": 1}, 0)], {})


def test_learning_progress_is_followed():
    teacher = begun(AlpGmm, AlpGmmConfig(name="alp_gmm", every=100, random=0, components=3))
    rng = np.random.default_rng(2)
    for number in range(100):
        size = int(rng.integers(1, 11))
        teacher.see([played({"size": size}, number * (size > 8))], {})
    assert np.mean([each["size"] > 6 for each in teacher.next(100)]) > 0.9


def test_lessons_have_their_order():
    lessons = [
        {"parameters": {"size": 2}, "metric": "eval/x", "at_least": 1, "episodes": 2},
        {"parameters": {"size": [3, 4]}, "metric": "train/y", "at_most": 0, "episodes": 1},
        {"parameters": {}},
    ]
    teacher = begun(Lessons, LessonsConfig(name="lessons", lessons=lessons))
    assert {each["size"] for each in teacher.next(20)} == {2}
    one = [played({"size": 2}, 0)]
    teacher.see(one, {"eval/x": 2})  # too few episodes
    teacher.see(one, {"eval/x": 0})
    assert teacher.metrics() == {"lesson": 0}
    teacher.see(one, {"eval/x": 1})
    assert {each["size"] for each in teacher.next(20)} == {3, 4}
    teacher.see([], {"eval/x": 1})  # no episode has ended that could have had y
    with pytest.raises(RunError, match="no epoch has 'train/y', but eval/x"):
        teacher.see(one, {"eval/x": 1})
    teacher.see(one, {"train/y": 1.0})
    again = begun(Lessons, LessonsConfig(name="lessons", lessons=lessons))
    again.load_state(teacher.state())
    for each in (teacher, again):
        each.see(one, {"eval/x": 1})  # it has come before
        each.see(one, {"train/y": 0.0})
        assert each.metrics() == {"lesson": 2}
    assert {each["size"] for each in teacher.next(200)} == set(range(1, 11))
    teacher.see(one * 9, {})
    assert teacher.metrics() == {"lesson": 2}


@pytest.mark.parametrize(
    ("given", "points"),
    [
        (IntRange(3, 6), {0: 3, 0.24: 3, 0.26: 4, 0.99: 6, 1: 6, 7: 6}),
        (IntRange(6, 3), {0: 6, 0.26: 5, 1: 3}),
        (FloatRange(0.0, 2.5), {0: 0.0, 0.5: 1.25, 1: 2.5, -1: 0.0}),
        (FloatRange(1.0, 0.1), {0: 1.0, 1: 0.1}),
    ],
)
def test_points_of_a_space(given, points):
    space, rng = Space({"x": given, "floor": Choice(("wood", "ice"))}), np.random.default_rng(0)
    assert space.numeric == ("x",)
    for share, value in points.items():
        found = space.at(np.array([float(share)]), rng)
        assert found["x"] == pytest.approx(value)
        space.check(found, "it")
        assert space.at(space.unit(found), rng)["x"] == pytest.approx(value)
    drawn = [space.sample(rng) for _ in range(300)]
    for each in drawn:
        space.check(each, "it")
    assert {each["floor"] for each in drawn} == {"wood", "ice"}
    if isinstance(given, IntRange):
        assert {each["x"] for each in drawn} == {3, 4, 5, 6}
