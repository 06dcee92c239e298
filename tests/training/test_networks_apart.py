"""Agents with different networks and very different rewards: each network has statistics of its own."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from maze_onpolicy.learn.advantages import normalized

from maze_core.run.context import RunContext
from tests.agents import MixedSource, PaidSource

PARAMETERS = {
    "a2c": {},
    "ppo": {"algorithm.n_rollout_steps": 16, "algorithm.normalize_rewards": True, "algorithm.lr_schedule": "constant"},
}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", PARAMETERS)
def test_both_learn_where_one_is_paid_a_thousand_times_as_much(tmp_path, known_plugins, algorithm):
    values = {"model.groups": "per_actor", "model.hidden": [16], "steps": 8000, "callbacks.tensorboard": None}
    values |= PARAMETERS[algorithm] | {"evaluation.n_episodes": 5}
    parts = {"run_dir": tmp_path / "run", "seed": 1, "silent": True, "preset": "none"}
    with RunContext(PaidSource, algorithm, overrides=values, **parts) as context:
        context.train()
    last = json.loads((context.run_dir / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["eval/actor/poor/return_mean"] >= 18
    assert last["eval/actor/rich/return_mean"] >= 18_000
    # With sampled actions too both are about as often right, by chance in half of all steps.
    poor, rich = last["train/actor/poor/reward_mean"], last["train/actor/rich/reward_mean"] / 1000
    assert rich >= 0.55
    assert poor >= 0.5 + 0.7 * (rich - 0.5)


@pytest.mark.parametrize("source", [PaidSource, MixedSource])
@pytest.mark.parametrize("algorithm", ["impala", "appo"])
def test_rewards_and_advantages_are_those_of_each_network_alone(quick, algorithm, source):
    values = {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4}
    steps = {"algorithm.n_rollout_steps": 25, "model.hidden": [4], "algorithm.normalize_rewards": True}
    run = quick(source, algorithm, values | steps | {"model.groups": "per_actor"}).run
    batch = next(run.algorithm.batches())
    data, actor = batch.extra, batch.obs["turn/actor"]
    names = run.observation_space["turn"]["actor"].names
    of = {name: number for number, group in enumerate(run.policy.groups) for name in (names[a] for a in group.actors)}
    assert data["group"].tolist() == [of[names[number]] for number in actor.tolist()]
    counted = data["weight"] > 0
    for number in data["group"].unique().tolist():
        rows = counted & (data["group"] == number)
        if algorithm == "appo":
            assert data["advantage"][rows].mean().item() == pytest.approx(0, abs=1e-4)
            assert data["advantage"][rows].std(correction=0).item() == pytest.approx(1, abs=1e-3)
        assert 0.05 < data["reward"][rows].abs().max() <= 10
    if algorithm == "appo":
        assert not data["advantage"][~counted].any()


def test_one_network_for_all_agents_has_statistics_of_all(quick):
    values = {"algorithm.num_actors": 1, "algorithm.actors_batch_size": 1, "algorithm.n_rollout_steps": 25}
    run = quick(PaidSource, "appo", values | {"model.hidden": [4]}).run
    data = next(run.algorithm.batches()).extra
    assert "group" not in data
    assert data["advantage"].mean().item() == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("learners", [1, 2, 3])
def test_shares_of_a_batch_have_the_advantages_of_the_whole(quick, learners):
    """They are computed before the batch is divided."""
    values = {"algorithm.num_actors": 2, "algorithm.actors_batch_size": 4, "algorithm.n_rollout_steps": 9}
    run = quick(PaidSource, "appo", values | {"model.hidden": [4], "model.groups": "per_actor"}).run
    batch = next(run.algorithm.batches())
    shares = [share.batch.extra for share in run.algorithm.shares(batch, learners)]
    advantage, group = (torch.cat([share[name] for share in shares]) for name in ("advantage", "group"))
    np.testing.assert_allclose(sorted(advantage.tolist()), sorted(batch.extra["advantage"].tolist()))
    torch.testing.assert_close(normalized(advantage, group), advantage, rtol=1e-3, atol=1e-4)
