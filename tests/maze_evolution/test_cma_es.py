"""CMA-ES: the strategy of `cma` with a state of its own, populations on workers, and runs that repeat exactly."""

import gymnasium
import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_es.evaluations import Evaluations
from maze_es.evaluator import PairJob
from maze_evolution.cma_es import Given
from maze_evolution.strategy import Strategy

from maze_core.base.errors import ConfigError

SMALL = {
    "algorithm.population_size": 6, "algorithm.pairs_per_job": 2, "model.hidden": [4],
    "algorithm.max_steps": 30, "evaluation.n_episodes": 1,
}  # fmt: skip


def settings(**more):
    return {**SMALL, **{f"algorithm.{name}": value for name, value in more.items()}}


@pytest.fixture
def cma(quick):
    """`cma(env, overrides, **parts)`: a run of two epochs of two populations of six."""

    def build(env="CartPole-v1", overrides=None, **parts):
        return quick(env, "cma_es", settings() | (overrides or {}), **parts)

    return build


def told(strategy, generations):
    for _ in range(generations):
        population = strategy.ask()
        strategy.tell(-np.square(population - np.arange(population.shape[1])).sum(1))
    return strategy


@pytest.mark.parametrize(("size", "diagonal"), [(5, False), (40, True), (320, True), (310, False)])
def test_a_strategy_goes_on_bit_equally_and_leaves_numpys_generator_alone(size, diagonal):
    def build():
        return Strategy(np.zeros(size), 0.5, 8, 3, diagonal=diagonal)

    before = np.random.get_state()
    whole, half = told(build(), 14), told(build(), 7)
    assert all(map(np.array_equal, before, np.random.get_state()))
    again = build()
    again.load_state(half.state())
    np.random.rand(3)  # which must not matter
    told(again, 7)
    np.random.set_state(before)
    assert again.mean.tobytes() == whole.mean.tobytes()
    assert again.ask().tobytes() == whole.ask().tobytes()
    assert again.stddev == whole.stddev
    assert not np.array_equal(again.ask(), told(Strategy(np.zeros(size), 0.5, 8, 4, diagonal=diagonal), 14).ask())


@pytest.mark.parametrize(
    ("size", "diagonal", "generations"), [(5, False, 0), (5, True, 60), (40, False, 40), (40, True, 60)]
)
def test_the_stddev_is_that_of_the_members(size, diagonal, generations):
    strategy = Strategy(np.zeros(size), 0.5, 400, 3, diagonal=diagonal)
    scales = np.logspace(0, 3, size)  # step size and covariances go apart
    for _ in range(generations):
        strategy.tell(-np.square(strategy.ask() * scales).sum(1))
    members = strategy.ask()
    assert strategy.stddev == pytest.approx(np.sqrt(np.square(members - strategy.mean).mean()), rel=0.1)


def test_it_finds_the_maximum():
    strategy = told(Strategy(np.zeros(4), 0.5, 8, 1, diagonal=False), 120)
    np.testing.assert_allclose(strategy.mean, np.arange(4), atol=1e-4)


def test_each_member_plays_as_often_and_pairs_share_an_episode():
    members = torch.arange(12.0).reshape(6, 2)
    found = torch.cat([Given().of(members, PairJob(first, count)) for first, count in ((6, 2), (8, 2), (10, 2))])
    torch.testing.assert_close(found, members.repeat(2, 1))


def test_the_policy_is_the_mean_and_members_are_ranked_by_their_mean_returns(cma, monkeypatch):
    run = cma(overrides=settings(n_episodes=3)).run
    algorithm, seen, strategies = run.algorithm, [], []
    play, tell = Evaluations.play, Strategy.tell

    def watch(strategy, values):
        strategies.append(strategy)
        seen.append(values)
        tell(strategy, values)

    monkeypatch.setattr(Evaluations, "play", lambda self, pairs: seen.append(play(self, pairs)) or seen[-1])
    monkeypatch.setattr(Strategy, "tell", watch)
    for own in algorithm.batches():
        own.take()
    results, values = seen
    returns = np.concatenate([result.returns for result in results])  # pair by pair, three times
    expected = [[np.mean([returns[3 * k + pair, side] for k in range(3)]) for side in (0, 1)] for pair in range(3)]
    np.testing.assert_allclose(values, np.ravel(expected))
    (strategy,) = strategies
    assert algorithm.space.vector(run.policy).equal(torch.from_numpy(strategy.mean).float())


def test_large_networks_adapt_variances_alone(cma, monkeypatch):
    asked = []

    def watched(*arguments, diagonal):
        asked.append(diagonal)
        return Strategy(*arguments, diagonal=diagonal)

    monkeypatch.setattr("maze_evolution.cma_es.Strategy", watched)
    for limit in (5, 5000):
        _ = cma(overrides=settings(full_covariance_below=limit)).run
    assert asked == [True, False]


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_exactly_and_workers_change_nothing(goes_on_exactly):
    same = {**settings(epoch_length=1, n_epochs=4, n_episodes=2), "model.normalize_observations": True}
    goes_on_exactly("CartPole-v1", "cma_es", same)


def test_continuous_actions_and_memory_are_searched_too(cma):
    pendulum = cma(lambda: gymnasium.make("Pendulum-v1", max_episode_steps=20), {"model.memory": "gru"})
    pendulum.train()
    assert pendulum.run.algorithm.state()["next_pair"] == 12


def test_bad_parameters_are_refused(cma):
    for path, value in (("population_size", 2), ("initial_stddev", 0), ("n_episodes", 0)):
        with pytest.raises(ConfigError, match=rf"^algorithm\.{path}"):
            _ = cma(SeededWalk, settings(**{path: value})).run
