"""Runs in environments with several actors: every algorithm, runner and command that others have."""

from __future__ import annotations

import json

import numpy as np
import pytest
from maze_a2c.a2c import A2C
from maze_devkit.turns import Carousel, Shelves
from maze_onpolicy.collect.several_agents import actor_metrics
from maze_recordings.loader import load_trajectories

from maze_core.base.errors import ConfigError
from maze_core.data.rollout import Rollout
from maze_core.envs.actors import actors_of
from maze_core.run.context import RunContext

SMALL = {"model.hidden": [8]}


@pytest.mark.parametrize(
    ("algorithm", "groups"),
    [("ppo", {"boss": ["choose"], "hands": ["left", "right"]}), ("impala", "per_actor")],
)
def test_runs_with_every_grouping(quick, algorithm, groups):
    context = quick(Carousel, algorithm, {**SMALL, "model.groups": groups, "model.normalize_observations": True})
    context.train()
    assert np.isfinite(context.evaluate()["eval/return_mean"])
    counts = {name: int(policy.normalizer.count) for name, policy in context.run.policy.policies.items()}
    assert all(counts.values()), counts
    again = quick(Carousel, algorithm, {**SMALL, "model.groups": groups, "model.normalize_observations": True})
    results = [each.evaluate()["eval/return_mean"] for each in (again.load(context.run_dir, "last"), context)]
    assert results[0] == results[1]


def test_a_run_with_one_critic_for_all_actors(quick):
    context = quick(Carousel, "a2c", {**SMALL, "model.joint_critic": True, "model.normalize_observations": True})
    before = context.run.policy.joint_critic.value_head.weight.clone()
    context.train()
    assert (context.run.policy.joint_critic.value_head.weight != before).any()
    assert all(int(each.count) for each in context.run.policy.joint_critic.normalizers)


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
    values |= {
        "model.memory": "gru",
        "algorithm.n_eval_episodes": 2,
        "callbacks.tensorboard": None,
        "algorithm.validation_percentage": 34,
    }
    with RunContext(
        Carousel, "bc", overrides=values, seed=1, silent=True, preset="none", run_dir=tmp_path / "clone"
    ) as clone:
        clone.train()
        assert np.isfinite(clone.evaluate()["eval/return_mean"])


def test_es_finds_parameters_of_every_actor(tmp_path, known_plugins):
    values = {**SMALL, "algorithm.n_epochs": 1, "algorithm.n_rollouts_per_update": 4, "algorithm.pairs_per_job": 2}
    values |= {"callbacks.tensorboard": None, "evaluation.n_episodes": 2}
    values |= {"model.normalize_observations": True}
    with RunContext(Carousel, "es", overrides=values, seed=1, silent=True, preset="none", run_dir=tmp_path) as context:
        before = {name: p.detach().clone() for name, p in context.run.policy.named_parameters()}
        context.train()
        moved = {name.split(".")[1] for name, p in context.run.policy.named_parameters() if (p != before[name]).any()}
        assert moved == {"choose_policy", "left_policy"}
        assert all(int(policy.normalizer.count) for policy in context.run.policy.policies.values())


def test_algorithms_that_cannot_say_so_before_the_first_step(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(A2C, "supports_actors", False)
    with pytest.raises(ConfigError, match=r"a2c does not support .*several actors.*pick, place"):
        quick(Shelves, "a2c", run_dir=tmp_path / "run").train()
    assert not (tmp_path / "run").exists()


def test_sac_that_is_stopped_and_resumed_is_the_same(quick, whole_state, assert_same):
    values = {**SMALL, "algorithm.n_epochs": 3, "algorithm.n_rollout_steps": 4, "algorithm.initial_buffer_size": 30}
    values |= {"algorithm.critic_hidden": [8], "algorithm.batch_size": 16, "model.normalize_observations": True}
    values |= {"algorithm.num_envs": 2, "algorithm.n_step": 2, "algorithm.replay_buffer_size": 60}
    contexts = [quick(Carousel, "sac", values) for _ in range(3)]
    contexts[0].train()
    contexts[1].train(1)
    contexts[2].resume(contexts[1].run_dir)
    assert_same(whole_state(contexts[0].run_dir), whole_state(contexts[1].run_dir))


def test_statistics_that_are_estimated_before_training_are_those_of_each_actor(quick):
    wrappers = [{"name": "normalize_observations", "estimate_steps": 200}]
    context = quick(Carousel, "ppo", SMALL, wrappers=wrappers)
    context.train()
    policy = context.run.policy.policies["left_policy"]
    assert 0 < int(policy.normalizer.count) < 200
    assert float(policy.normalizer.statistics()["level"][0].min()) > 5


def test_metrics_of_each_actor(quick):
    context = quick(Carousel, "ppo", {**SMALL, "callbacks.jsonl": {"name": "jsonl"}, "algorithm.epoch_length": 4})
    context.train()
    found = json.loads((context.run_dir / "metrics.jsonl").read_text().splitlines()[-1])
    metrics = found.get("metrics", found)
    shares = [metrics[f"train/actor/{name}/share"] for name in ("choose", "left", "right")]
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0
    assert 0 < metrics["train/actor/choose/turns_entropy"] <= np.log(3)
    assert {name.partition("left/")[2] for name in metrics if name.startswith("train/actor/left/")} == {
        "share", "reward_mean", "force_mean", "force_std", "hold_entropy"
    }  # fmt: skip


def test_metrics_by_hand():
    env = Shelves()
    acting = np.array([[0, 1], [1, 0], [0, 0], [0, 0]])
    actions = {"pick": np.array([[0, 0], [0, 1], [2, 2]]), "place": np.array([[0, 1], [1, 0], [0, 0]])}
    rewards = np.array([[1, 5], [3, 2], [4, 9]], np.float32)
    flags = {name: np.zeros((3, 2), bool) for name in ("terminated", "truncated")}
    valid = np.array([[1, 1], [1, 1], [1, 0]], bool)
    rollout = Rollout({"turn/actor": acting}, actions, rewards, **flags, valid=valid)
    found = actor_metrics(actors_of(env.observation_space), env.action_space, rollout)
    # pick acts in rows 00, 11, 20 (21 is filler) with 0, 1, 2; place in 01 and 10 with 1, 1.
    wanted = {
        "train/actor/pick/share": 3 / 5,
        "train/actor/pick/reward_mean": (1 + 2 + 4) / 3,
        "train/actor/pick/action_entropy": np.log(3),
        "train/actor/place/share": 2 / 5,
        "train/actor/place/reward_mean": 4.0,
        "train/actor/place/action_entropy": 0.0,
    }
    assert found == pytest.approx(wanted)
    rollout.obs["turn/actor"][:] = 0
    assert "train/actor/place/reward_mean" not in actor_metrics(
        actors_of(env.observation_space), env.action_space, rollout
    )
