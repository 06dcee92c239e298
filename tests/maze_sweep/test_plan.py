"""Plans of sweeps: what they hold, what is refused, and what may change once a sweep was begun."""

from __future__ import annotations

import pytest
from maze_sweep.plan import check_continues, make_plan, read_plan, write_plan

from maze_core.base.errors import ConfigError

SMALL = {"algorithm": "ppo", "env": "CartPole-v1", "over": {"algorithm.lr": [1e-4, 1e-3]}}


def plan(**changes):
    return make_plan({**SMALL, **changes})


def test_a_plan_reads_back_as_it_was_written(tmp_path):
    written = plan(
        seeds=3, searcher="random", trials=5, take="last", overrides={"steps": 100},
        over={"algorithm.gamma": "0.9..0.99", "model.hidden": [[16], [32, 32]]}, config={"env": {"kwargs": {"a": 1}}},
    )  # fmt: skip
    write_plan(tmp_path, written)
    assert make_plan(read_plan(tmp_path)) == written
    assert written.seeds == (0, 1, 2)
    assert read_plan(tmp_path / "none") == {}


@pytest.mark.parametrize(("given", "seeds"), [(2, (0, 1)), ([7], (7,)), ([3, 1, 3, 1.0], (3, 1))])
def test_seeds_are_a_number_or_a_list(given, seeds):
    assert plan(seeds=given).seeds == seeds


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": 0}, "seeds: must be a number of seeds up to 10,000, or a list of them, got 0"),
        ({"seeds": 10**11}, "got 100000000000"),
        ({"seeds": 10**400}, "got 1000"),
        ({"seeds": [-1]}, "greater than or equal to 0"),
        ({"seeds": [[1]]}, "seeds.0: must be a whole number"),
        ({"seeds": "three"}, "seeds"),
        ({"sed": 3}, "sed: unknown key; did you mean seeds"),
        ({"over": {}, "trials": 2}, "over"),
        ({"over": {}, "searcher": "random"}, "over"),
        ({"over": None}, "over"),
        ({"over": {"seed": [1, 2]}}, "--seeds 3"),
        ({"over": {"algorithm.lr": 3}}, "over.algorithm.lr"),
        ({"overrides": {"algorithm.lr": 1}}, "both fixed and searched"),
        ({"overrides": {"algorithm.lr": 1}, "over": {"algorithm": [{"lr": 1}, {}]}}, "both fixed and searched"),
        ({"overrides": {"env.id": "A"}, "over": {"env": ["B", "C"]}}, "over.env: is both fixed and searched"),
        ({"overrides": {"wrappers.0.low": 1}, "over": {"wrappers": [[], [{"name": "a", "low": 2}]]}}, "both fixed"),
        ({"over": {"algorithm.lr": [1, 2], "algorithm": [{"lr": 3}, {}]}}, "over.algorithm.lr: is searched twice"),
        ({"overrides": {"seed": 1}}, "--seeds 1,2,3"),
        ({"searcher": "gird"}, "searcher.name: unknown searcher 'gird'\nDid you mean grid?"),
        ({"searcher": {"name": "grid", "points": 3}}, "searcher.points: unknown key"),
        ({"searcher": 3}, "searcher.name"),
        ({"take": "first"}, "take: must be 'best' or 'last'"),
        ({"trials": 0}, "trials: must be greater than 0"),
        ({"algorithm": ""}, "algorithm"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(ConfigError) as caught:
        plan(**changes)
    assert message in str(caught.value)


def test_a_point_is_assembled_like_any_run():
    made = plan(config={"algorithm": {"gamma": 0.5, "lr": 0.5}}, overrides={"algorithm.n_epochs": 7, "steps": 99})
    config, preset = made.run_config({"algorithm.lr": 0.25, "model.name": "cnn"})
    assert (config.algorithm.lr, config.algorithm.gamma, config.algorithm.n_epochs) == (0.25, 0.5, 7)
    assert (config.steps, config.model.name, config.seed, preset) == (99, "cnn", None, "CartPole-v1")


def test_algorithms_and_environments_can_be_compared_with_their_own_presets():
    config, preset = plan().run_config({"algorithm.name": "dqn", "env.id": "LunarLander-v3"})
    assert (config.algorithm.name, config.env.id, preset) == ("dqn", "LunarLander-v3", "LunarLander-v3")


@pytest.mark.parametrize(
    ("over", "path", "wanted"),
    [
        ({"env": ["CartPole-v1", "Acrobot-v1"]}, ("env", "id"), ["CartPole-v1", "Acrobot-v1"]),
        ({"env": [{"kwargs": {}}, {"id": "Acrobot-v1"}]}, ("env", "id"), ["CartPole-v1", "Acrobot-v1"]),
        ({"env.id": ["CartPole-v1", "Acrobot-v1"]}, ("env", "id"), ["CartPole-v1", "Acrobot-v1"]),
        ({"algorithm": ["ppo", "a2c"]}, ("algorithm", "name"), ["ppo", "a2c"]),
        ({"algorithm": [{"lr": 1e-4}, {"name": "a2c"}]}, ("algorithm", "name"), ["ppo", "a2c"]),
        ({"algorithm": [{"lr": 0.5}, {"lr": 0.25}]}, ("algorithm", "lr"), [0.5, 0.25]),
    ],
)
def test_what_is_searched_replaces_what_the_command_names(over, path, wanted):
    made = plan(over=over)
    (searched,) = over
    configs = [made.run_config({searched: value})[0] for value in over[searched]]
    assert [getattr(getattr(config, path[0]), path[1]) for config in configs] == wanted


def test_a_sweep_may_grow(tmp_path):
    before = plan(seeds=2, searcher="random", trials=5)
    check_continues(before, before, tmp_path)
    check_continues(plan(seeds=[0, 1, 7], searcher="random", trials=9), before, tmp_path)
    anew = plan(seeds=2, searcher="random", trials=5, metric="eval/steps", take="last", minimize=True)
    check_continues(anew, before, tmp_path)
    for changes, message in [
        ({"seeds": 1}, "dropped: 1"),
        ({"seeds": 2, "trials": 4}, "there are 5"),
        ({"seeds": 2, "over": {"algorithm.lr": [1e-4]}, "preset": "none"}, "differences: preset, over"),
    ]:
        with pytest.raises(ConfigError, match=message):
            check_continues(plan(**{"searcher": "random", "trials": 5, **changes}), before, tmp_path)
