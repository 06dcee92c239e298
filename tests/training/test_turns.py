"""Runs in environments with several actors: every algorithm, runner and command that others have."""

from __future__ import annotations

import numpy as np
import pytest
from maze_devkit.turns import Carousel, Shelves

from maze_core.context import RunContext
from maze_core.data.trajectories_loader import load_trajectories
from maze_core.envs.actors import actors_of
from maze_core.errors import ConfigError

SMALL = {"model.hidden": [8]}
ES = {"algorithm.n_rollout_steps": None, "algorithm.epoch_length": None, "algorithm.n_rollouts_per_update": 4}


@pytest.mark.parametrize("groups", ["shared", "per_actor", {"boss": ["choose"], "hands": ["left", "right"]}])
@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_runs_with_every_grouping(quick, algorithm, groups):
    context = quick(Carousel, algorithm, {**SMALL, "model.groups": groups, "model.normalize_observations": True})
    context.train()
    assert np.isfinite(context.evaluate()["eval/return_mean"])
    counts = {name: int(policy.normalizer.count) for name, policy in context.run.policy.policies.items()}
    assert all(counts.values()), counts
    again = quick(Carousel, algorithm, {**SMALL, "model.groups": groups, "model.normalize_observations": True})
    results = [each.evaluate()["eval/return_mean"] for each in (again.load(context.run_dir, "last"), context)]
    assert results[0] == results[1]


def test_an_action_of_a_trained_policy_fits_the_environment(quick):
    context = quick(Carousel, "a2c", SMALL)
    context.train()
    env = context.make_env()
    observation, _ = env.reset(seed=1)
    for deterministic in (True, False) * 5:
        action = context.compute_action(observation, deterministic=deterministic)
        observation, *_ = env.step(action)
        assert env.action_space.contains(action)
    env.close()


def test_workers_give_the_same_run(quick, whole_state, assert_same):
    runs = [quick(Carousel, "ppo", {**SMALL, "runner.name": name}) for name in ("dev", "local")]
    for context in runs:
        context.train()
    assert_same(*({**whole_state(context.run_dir)} for context in runs))


def test_cloning_from_a_recording(quick, tmp_path, known_plugins):
    expert = quick(Carousel, "ppo", SMALL)
    expert.train()
    expert.rollout(episodes=3, record=tmp_path / "demos")
    data = load_trajectories(tmp_path / "demos")
    assert actors_of(data.observation_space).actors == {"choose": "choose", "left": "left", "right": "left"}
    values = {**SMALL, "algorithm.n_epochs": 2, "algorithm.dataset": str(tmp_path / "demos")}
    values |= {"algorithm.n_eval_episodes": 2, "callbacks.tensorboard": None, "algorithm.validation_percentage": 34}
    with RunContext(
        Carousel, "bc", overrides=values, seed=1, silent=True, preset="none", run_dir=tmp_path / "clone"
    ) as clone:
        clone.train()
        assert np.isfinite(clone.evaluate()["eval/return_mean"])


def test_es_finds_parameters_of_every_actor(tmp_path, known_plugins):
    values = {**SMALL, "algorithm.n_epochs": 2, "algorithm.n_rollouts_per_update": 4, "evaluation.n_episodes": 2}
    values |= {"callbacks.tensorboard": None, "model.normalize_observations": True}
    with RunContext(Carousel, "es", overrides=values, seed=1, silent=True, preset="none", run_dir=tmp_path) as context:
        before = {name: p.detach().clone() for name, p in context.run.policy.named_parameters()}
        context.train()
        moved = {name.split(".")[1] for name, p in context.run.policy.named_parameters() if (p != before[name]).any()}
        assert moved == {"choose_policy", "left_policy"}
        assert all(int(policy.normalizer.count) for policy in context.run.policy.policies.values())


@pytest.mark.parametrize("algorithm", ["sac"])
def test_algorithms_that_cannot_say_so_before_the_first_step(quick, tmp_path, algorithm):
    with pytest.raises(
        ConfigError, match=f"{algorithm} does not support environments with several actors.*pick, place"
    ):
        quick(Shelves, algorithm, {"algorithm.n_rollout_steps": 1}, run_dir=tmp_path / "run").train()
    assert not (tmp_path / "run").exists()


def test_statistics_that_are_estimated_before_training_are_those_of_each_actor(quick):
    wrappers = [{"name": "normalize_observations", "estimate_steps": 200}]
    context = quick(Carousel, "ppo", SMALL, wrappers=wrappers)
    context.train()
    policy = context.run.policy.policies["left_policy"]
    assert 0 < int(policy.normalizer.count) < 200
    assert float(policy.normalizer.statistics()["level"][0].min()) > 5
