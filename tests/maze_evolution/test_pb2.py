"""Population-based bandits: the model against an independent computation, and what copies try."""

import math

import numpy as np
import pytest
from maze_evolution.gaussian_process import Kernel, covariance, fitted, log_likelihood, posterior, upper_bound
from maze_evolution.pb2 import PB2Config, PopulationBasedBandits
from maze_sweep.searchers.base import Begun, Search, Wait, Whole
from maze_sweep.searchers.space import Choices, Range

from maze_core.base.errors import ConfigError

SPACE = {"algorithm.lr": Range(1e-5, 1e-1, log=True), "algorithm.gamma": Range(0.9, 0.99)}
KERNEL = Kernel(0.3, 0.2, 0.05, 1.7)


@pytest.fixture
def observed():
    rng = np.random.default_rng(3)
    return rng.random((9, 2)), rng.integers(0, 4, 9).astype(float), rng.normal(size=9)


def one_by_one(first, second):
    """The kernel in the words of the paper, for two observations."""
    (x, t), (z, s) = first, second
    distance = sum((a - b) ** 2 for a, b in zip(x, z, strict=True))
    return 1.7 * math.exp(-distance / (2 * 0.3 * 0.3)) * 0.8 ** (abs(t - s) / 2)


def test_the_model_is_that_of_textbooks(observed):
    from scipy import stats  # half a second for each process that collects the tests

    x, t, y = observed
    rows = list(zip(x, t, strict=True))
    known = np.array([[one_by_one(a, b) for b in rows] for a in rows])
    assert np.allclose(covariance(KERNEL, x, t, x, t), known)
    noisy = known + 1.7 * 0.05 * np.eye(9)
    expected = stats.multivariate_normal(np.zeros(9), noisy).logpdf(y)
    assert log_likelihood(KERNEL, x, t, y) == pytest.approx(expected, rel=1e-5)
    new_x, new_t = np.array([[0.1, 0.9], [0.5, 0.5]]), np.array([4.0, 2.0])
    across = np.array([[one_by_one(a, b) for b in zip(new_x, new_t, strict=True)] for a in rows])
    inverse = np.linalg.inv(noisy)
    mean, variance = posterior(KERNEL, x, t, y, new_x, new_t)
    assert np.allclose(mean, across.T @ inverse @ y, rtol=1e-5)
    assert np.allclose(variance, 1.7 - np.diag(across.T @ inverse @ across), rtol=1e-5)


def test_pending_settings_lower_the_bound_near_them_and_leave_the_mean(observed):
    new_x = np.array([[0.4, 0.6], [0.41, 0.6], [0.9, 0.1]])
    free = upper_bound(KERNEL, observed, np.zeros((0, 2)), new_x, 4.0)
    beta = 0.2 + math.log(0.4 * 9)
    mean, variance = posterior(KERNEL, *observed, new_x, np.full(3, 4.0))
    assert np.allclose(free, mean + np.sqrt(beta * variance))
    spread = upper_bound(KERNEL, observed, np.array([[0.4, 0.6]]), new_x, 4.0)
    drop = free - spread
    assert min(drop[:2]) > 0.3 > 0.1 > drop[2] >= 0


def test_the_fit_finds_what_made_the_values():
    rng = np.random.default_rng(0)
    x, t = rng.random((80, 1)), np.repeat(np.arange(8.0), 10)
    for kernel in (Kernel(0.2, 0.0, 0.01), Kernel(0.4, 0.4, 0.01)):
        values = rng.multivariate_normal(np.zeros(80), covariance(kernel, x, t, x, t) + 0.01 * np.eye(80))
        found = fitted(x, t, values)
        assert 0.5 <= found.length / kernel.length <= 2
        assert abs(found.forgetting - kernel.forgetting) <= 0.2
    assert fitted(x[:0], t[:0], t[:0]).length > 0


def searcher(folder, seed=0, begun=(), **config):
    made = PopulationBasedBandits(PB2Config(name="pb2", **config))
    made.setup(Search(SPACE, seed, None, True, folder, Whole(1000.0, "steps"), begun))
    return made


def moving(point, generation):
    """A gain that is best at a learning rate which falls with time."""
    return -((math.log10(point["algorithm.lr"]) + 1.5 + 2.5 * generation / 11) ** 2) / 4


def carried_out(made, size, count):
    totals, gains = {}, []
    for number in range(count):
        point, parent = made.ask(number), made.parent(number)
        gain = 1.0 + moving(point, number // size)
        totals[number] = (0.0 if parent is None else totals[parent]) + gain
        gains.append((number, parent, point, gain))
        made.tell(number, point, totals[number])
    return gains


def test_copies_find_the_settings_of_their_time(tmp_path):
    """Members alone keep what they drew; copies of one that knows what helps now gain nearly all that there is."""
    size = 6
    gains = carried_out(searcher(tmp_path, population=size, generations=12), size, 72)
    copies = [gain for number, parent, _, gain in gains if number >= 36 and parent != number - size]
    assert len(copies) == 6
    assert np.mean(copies) > 0.85
    drawn = [1.0 + moving(point, 9) for number, _, point, _ in gains[:size]]
    assert np.mean(copies) > np.mean(drawn) + 0.1


def test_set_up_again_it_says_the_same_whatever_ran_before(tmp_path):
    first = searcher(tmp_path, population=4)
    gains = carried_out(first, 4, 14)
    begun = [Begun(point, parent, first.until(number)) for number, parent, point, _ in gains[:10]]
    again = searcher(tmp_path, population=4, begun=begun)
    assert isinstance(again.ask(10), Wait)
    totals = {}
    for number, parent, point, gain in gains[:8]:
        totals[number] = (0.0 if parent is None else totals[parent]) + gain
        again.tell(number, point, totals[number])
    for number, parent, point, _ in gains[10:12]:
        assert (again.ask(number), again.parent(number)) == (point, parent)


def test_lists_are_refused(tmp_path):
    made = PopulationBasedBandits(PB2Config(name="pb2"))
    with pytest.raises(ConfigError, match=r"over\.a\.b: pb2 models numbers of a range, and this is a list"):
        made.setup(Search({"a.b": Choices((1, 2))}, 0, None, True, tmp_path, Whole(1000.0, "steps")))


def test_members_that_fail_or_gain_nothing_do_no_harm(tmp_path):
    made = searcher(tmp_path, population=4, generations=5)
    for number in range(20):
        point = made.ask(number)
        for path, dimension in SPACE.items():
            assert dimension.holds(point[path])
        made.tell(number, point, None if number % 4 == 1 else 1.0)
