"""Constraints: the control of multipliers, the advantages of costs, runs that repeat exactly, and limits that hold."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from maze_safety.config import ConstraintsConfig, Limit
from maze_safety.multipliers import Multipliers
from maze_safety.pid import Control, pid

from maze_core.base.errors import ConfigError
from maze_core.data.batch import Batch
from maze_core.envs.vector import Episode
from tests.interpreted import interpreted as interpreted
from tests.maze_safety.hazards import Hazards, Reported, Silent

SMALL = {"algorithm.num_envs": 3, "algorithm.n_rollout_steps": 12, "model.hidden": [6]}
REPLAY = {
    "algorithm.num_envs": 2, "algorithm.initial_buffer_size": 40, "algorithm.batch_size": 8,
    "algorithm.epoch_length": 6, "model.hidden": [6], "algorithm.critic_hidden": [6],
    "callbacks.constraints.every": 2,
}  # fmt: skip
LIMIT = "constraints.cost.at_most"
FOLDER = "tests.maze_safety.hazards"


def of(algorithm):
    """Return the values of a tiny run."""
    if algorithm in ("sac", "td3"):
        return {**REPLAY, **({"algorithm.n_rollout_steps": 1} if algorithm == "sac" else {})}
    small = {} if algorithm == "a2c" else {"algorithm.batch_size": 8}
    small |= {"algorithm.n_optimization_epochs": 2} if algorithm == "ppo" else {}
    return {**SMALL, **small, **({} if algorithm == "trpo" else {"algorithm.lr_schedule": "constant"})}


def test_the_control_is_that_of_the_paper():
    """Algorithm 2, written out with lists: the proportional, the summed and the rising excess."""
    rng = np.random.default_rng(3)
    excesses, (kp, ki, kd, a) = rng.normal(0.2, 1.0, 40), (0.7, 0.3, 2.0, 0.6)
    state, smoothed, integral = Control(0.5), [], 0.5
    for number, excess in enumerate(excesses):
        smoothed.append(excess if not number else a * smoothed[-1] + (1 - a) * excess)
        integral = max(integral + ki * excess, 0.0)
        rise = max(smoothed[-1] - smoothed[-2], 0.0) if number else 0.0
        state, multiplier = pid(state, float(excess), kp, ki, kd, a)
        assert multiplier == pytest.approx(max(kp * smoothed[-1] + integral + kd * rise, 0.0))
    assert pid(Control(), 0.0, 1, 1, 1, 0.5) == (Control(0.0, 0.0, True), 0.0)


def episodes(*values, name="constraint/cost"):
    return [Episode(0, number, 0.0, 1, {name: value}) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("limit", "values", "moves"),
    [
        ({"at_most": 2.0}, (4.0, 8.0), 1),
        ({"at_most": 2.0}, (1.0, 1.0), 0),
        ({"at_least": 0.9}, (0.3,), 1),
        ({"at_least": -0.5}, (0.3,), 0),
        ({"at_most": -1.0}, (-0.5,), 1),
        ({"at_most": 0.0}, (0.0, 0.0), 0),
        ({"at_most": 0.0}, (1e-30,), 1),
        ({"at_least": 0.0}, (-1e30,), 1),
    ],
)
def test_multipliers_rise_beyond_their_limit_and_are_numbers(limit, values, moves):
    found = Multipliers(ConstraintsConfig(limits={"cost": Limit(**limit)}))
    for _ in range(3):
        found.observe(episodes(*values))
        found.move()
        found.weigh(1.0, [0.0])
    assert (found.values[0] > 0) == bool(moves)
    assert math.isfinite(found.values[0])
    assert 0 < found.share <= 1
    assert found.prices.tolist() == [0.0]  # the cost never varied
    other = Multipliers(found.config)
    other.load_state(found.state())
    for each in (found, other):
        each.observe(episodes(7.0))
        each.move()
        each.weigh(2.0, [0.5])
    assert other.state() == found.state()
    assert np.isfinite(other.prices).all()


def test_costs_have_advantages_of_their_own(quick):
    """Those that are written out from the definition, and the rows that weigh both kinds."""
    more = {"callbacks.constraints.gamma": 0.9, "callbacks.constraints.gae_lambda": 0.5}
    more |= {LIMIT: 0.5, "callbacks.constraints.initial": 2.0}
    algorithm = quick(Hazards, "ppo", {**of("ppo"), **more}).run.algorithm
    rollout, costs = algorithm._collector.collect(), algorithm._costs
    costs.observe(rollout)
    obs = torch.from_numpy(rollout.obs["observation"]).flatten(0, 1)
    with torch.no_grad():
        values = costs.loss.values(algorithm._run.policy, {"observation": obs})[0].numpy().reshape(13, 3)
    paid = rollout.obs["observation"][:-1, :, 0] * rollout.actions["action"]
    np.testing.assert_allclose(rollout.extra["constraint/cost"], paid, rtol=1e-6)
    for column in range(3):
        advantage = 0.0
        for t in reversed(range(12)):
            goes_on = float(not rollout.terminated[t, column])
            delta = paid[t, column] / 0.5 + 0.9 * goes_on * values[t + 1, column] - values[t, column]
            advantage = delta + 0.9 * 0.5 * goes_on * advantage
            assert rollout.extra["cost_advantage"][t, column, 0] == pytest.approx(advantage, abs=1e-5)
            assert rollout.extra["cost_target"][t, column, 0] == pytest.approx(advantage + values[t, column], abs=1e-5)
    gain, cost = torch.randn(9), torch.randn(9)
    rows = Batch({}, {}, {"advantage": gain, "cost_advantage": cost[:, None], "constraint/cost": cost})
    costs.penalize(rows)
    weight = costs._multipliers.values[0]
    wanted = (gain - weight * gain.std(correction=0) / cost.std(correction=0) * (cost - cost.mean())) / (1 + weight)
    torch.testing.assert_close(rows.extra["advantage"], wanted)


@pytest.mark.parametrize("name", ["cost", "event/paid/sum"])
def test_a_number_of_an_episode_is_what_its_last_step_costs(quick, name):
    run = quick(Reported, "a2c", {**of("a2c"), f"constraints.{name}.at_most": 1.0}).run
    rollout = run.algorithm._collector.collect()
    costs = rollout.extra[f"constraint/{name}"]
    assert (costs[9] > 0).all()
    assert not costs[:9].any()
    assert not costs[10:].any()
    told = [each.metrics[f"constraint/{name}"] for each in rollout.episodes]
    np.testing.assert_allclose(costs[9], told, rtol=1e-6)
    assert told == [each.metrics["kpi/cost"] for each in rollout.episodes]


@pytest.mark.parametrize(
    ("env", "algorithm"),
    [
        ("Hazards-v0", "ppo"),
        ("Reported-v0", "sac"),
        pytest.param("Hazards-v0", "trpo", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_killed_goes_on_exactly_and_workers_change_nothing(goes_on_exactly, env, algorithm):
    same = {
        **of(algorithm), LIMIT: 0.5, "algorithm.n_epochs": 4, "evaluation.n_episodes": 1,
        "model.normalize_observations": True,
    }  # fmt: skip
    if algorithm not in ("sac", "td3"):
        same["algorithm.epoch_length"] = 2
    whole = goes_on_exactly(f"{FOLDER}:{env}", algorithm, same)
    lines = [json.loads(line) for line in (whole.run_dir / "metrics.jsonl").read_text().splitlines()]
    assert lines[-2]["constraint/cost_multiplier"] > 0
    names = {"constraint/cost", "train/constraint/cost", "eval/constraint/cost", "eval/constraint_violation"}
    assert names < {name for line in lines for name in line}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "sac", "td3"])
def test_compiled_steps_learn_the_same(interpreted, quick, algorithm):
    found = []
    for compile in ("on", "off"):
        values = {**of(algorithm), LIMIT: 0.5, "compile": compile, "algorithm.n_epochs": 2}
        context = quick(Reported, algorithm, values)
        context.train()
        assert (context.run.repeated is not None) == (compile == "on")
        found.append(torch.cat([each.flatten() for each in context.run.policy.parameters()]))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("algorithm", ["ppo", "trpo", "td3"])
def test_a_limit_of_0_is_never_nan(quick, algorithm):
    context = quick(Reported, algorithm, {**of(algorithm), LIMIT: 0.0})
    context.train()
    assert all(torch.isfinite(each).all() for each in context.run.policy.parameters())
    assert context.run.algorithm.kept["constraints"].values[0] > 0


def test_the_best_policy_is_one_within_the_limits(quick):
    for limit, least in ((100.0, True), (-5.0, False)):  # all policies are within the first, none is within the second
        context = quick(Hazards, "a2c", {**of("a2c"), LIMIT: limit, "algorithm.n_epochs": 4})
        summary = context.train()
        lines = [json.loads(line) for line in (context.run_dir / "metrics.jsonl").read_text().splitlines()]
        beyond = [line["eval/constraint_violation"] for line in lines]
        assert (summary.best_violation == 0) is least
        assert summary.best_violation == min(beyond)
        returns = [line["eval/return_mean"] for line in lines if line["eval/constraint_violation"] == min(beyond)]
        assert summary.best_score == max(returns)


@pytest.mark.parametrize(
    ("env", "algorithm", "values", "told"),
    [
        (Silent, "ppo", {LIMIT: 1.0}, r"^constraints.cost: no step's info has it.*\n.*episodes report length"),
        (Reported, "ppo", {"constraints.costs.at_most": 1.0}, r"^constraints.costs: .*\n.* event/paid/sum, length"),
        (Hazards, "ppo", {"constraints.cost.at_mots": 1.0}, r"constraints.*at_mots"),
        (Hazards, "ppo", {"constraints.cost": {"at_most": 1.0, "at_least": 0.5}}, r"constraints.*either"),
        (Hazards, "ppo", {"constraints.cost": {}}, r"constraints.*either"),
        (Hazards, "ppo", {LIMIT: "nan"}, r"constraints.*"),
        (Hazards, "ppo", {"constraints": 3}, r"constraints.*"),
        (Hazards, "dqn", {LIMIT: 1.0}, r"^constraints: dqn keeps no constraints"),
        (Hazards, "ppo", {LIMIT: 1.0, "model.memory": "gru"}, r"^model.memory: constraints are not kept"),
    ],
)
def test_what_cannot_be_kept_is_refused(quick, env, algorithm, values, told):
    small = {} if algorithm == "dqn" else of(algorithm)
    with pytest.raises(ConfigError, match=told):
        quick(env, algorithm, {**small, "algorithm.n_rollout_steps": 32, **values} if small else values).train()


@pytest.mark.learning
@pytest.mark.slow
def test_costs_stay_at_the_limit(quick):
    """The best policy within the limit earns 5 at a cost of 1.25. Others: `benchmarks/constraints.py`."""
    values = {
        LIMIT: 1.25, "algorithm.n_rollout_steps": 64, "algorithm.num_envs": 8, "algorithm.epoch_length": 50,
        "algorithm.n_epochs": 0, "evaluation.deterministic": False, "evaluation.n_episodes": 400,
        "algorithm.entropy_coef": 0.01, "callbacks.early_stopping.patience": 0,
    }  # fmt: skip
    context = quick(Hazards, "a2c", values, seed=1, steps=80_000)
    context.train()
    found = context.evaluate()
    # The hazards that are taken spread the cost of an episode by 0.46: three errors of the mean are 0.07.
    assert found["eval/constraint/cost"] <= 1.25 * 1.05 + 0.07
    assert found["eval/return_mean"] >= 4.4
