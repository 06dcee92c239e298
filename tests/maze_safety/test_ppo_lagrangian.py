"""PPO-Lagrangian: the multiplier, the advantages of costs, runs that repeat exactly, and a limit that holds."""

import json

import numpy as np
import pytest
import torch
from maze_safety.multiplier import Multiplier

from maze_core.base.errors import ConfigError, RunError
from maze_core.data.batch import Batch
from tests.maze_safety.hazards import Hazards, Silent

SMALL = {"algorithm.num_envs": 3, "algorithm.batch_size": 8, "algorithm.n_optimization_epochs": 2, "model.hidden": [6]}
ID = "tests.maze_safety.hazards:Hazards-v0"
LIMIT = 1.25
LEARNING = {
    "algorithm.cost_limit": LIMIT, "algorithm.multiplier_init": 1.0,
    "algorithm.n_rollout_steps": 64, "algorithm.num_envs": 8, "algorithm.epoch_length": 200, "algorithm.n_epochs": 0,
    "algorithm.n_optimization_epochs": 4, "algorithm.batch_size": 128, "evaluation.deterministic": False,
    "algorithm.entropy_coef": 0.01, "algorithm.normalize_advantages": False, "evaluation.n_episodes": 400,
    "callbacks.early_stopping.patience": 0,
}  # fmt: skip


def test_the_multiplier_is_adam_above_zero_and_goes_on_where_it_was():
    parameter = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
    adam, multiplier = torch.optim.Adam([parameter], lr=0.1), Multiplier(0.5, 0.1)
    for excess in (3.0, 2.0, -1.0, 4.0):
        parameter.grad = torch.tensor(-excess, dtype=torch.float64)
        adam.step()
        multiplier.step(excess)
        assert multiplier.value == pytest.approx(parameter.item())
    other = Multiplier(0.0, 0.1)
    other.load_state(multiplier.state())
    for each in (multiplier, other):
        each.step(-2.0)
    assert other.state() == multiplier.state()
    for _ in range(40):
        multiplier.step(-9.0)
    assert multiplier.value == 0


def test_costs_have_advantages_of_their_own(quick):
    """Those that are written out from the definition, and the loss that weighs both kinds."""
    more = {"algorithm.cost_gamma": 0.9, "algorithm.cost_gae_lambda": 0.5, "algorithm.multiplier_init": 2.0}
    run = quick(Hazards, "ppo_lagrangian", {**SMALL, "algorithm.n_rollout_steps": 12, **more}).run
    algorithm = run.algorithm
    rollout = algorithm._collector.collect()
    algorithm._add_cost_advantages(rollout)
    obs = torch.from_numpy(rollout.obs["observation"]).flatten(0, 1)
    with torch.no_grad():
        values = algorithm.cost_values({"observation": obs}).numpy().reshape(13, 3)
    assert rollout.extra["cost"].max() > 0
    np.testing.assert_allclose(
        rollout.extra["cost"], rollout.obs["observation"][:-1, :, 0] * rollout.actions["action"], rtol=1e-6
    )
    for column in range(3):
        advantage = 0.0
        for t in reversed(range(12)):
            goes_on = float(not rollout.terminated[t, column])
            delta = rollout.extra["cost"][t, column] + 0.9 * goes_on * values[t + 1, column] - values[t, column]
            advantage = delta + 0.9 * 0.5 * goes_on * advantage
            assert rollout.extra["cost_advantage"][t, column] == pytest.approx(advantage, abs=1e-5)
            assert rollout.extra["cost_target"][t, column] == pytest.approx(advantage + values[t, column], abs=1e-5)
    rows = Batch({}, {}, {"advantage": torch.randn(9), "cost_advantage": torch.randn(9)})
    gain, cost = rows.extra["advantage"], rows.extra["cost_advantage"]
    algorithm.row_results = {"log_ratio": torch.zeros(1)}
    weight = algorithm._multiplier.value
    found = torch.cat([batch.extra["advantage"] for batch in algorithm._passes(rows)])
    wanted = [
        (gain[part] - gain[part].mean()) / gain[part].std(correction=0) - weight * (cost[part] - cost[part].mean())
        for part in (slice(None),)
    ]
    assert len(found) == 2 * 9  # minibatches of 9 rows, twice
    torch.testing.assert_close(found.sort().values, torch.cat(2 * wanted).div(1 + weight).sort().values)


def test_a_run_that_was_killed_goes_on_exactly_and_workers_change_nothing(goes_on_exactly):
    same = {
        **SMALL, "algorithm.n_rollout_steps": 8, "algorithm.epoch_length": 2, "algorithm.n_epochs": 4,
        "algorithm.cost_limit": 0.5, "evaluation.n_episodes": 1, "model.normalize_observations": True,
    }  # fmt: skip
    whole = goes_on_exactly(ID, "ppo_lagrangian", same)
    lines = (whole.run_dir / "metrics.jsonl").read_text().splitlines()
    last = json.loads(lines[-2])
    assert last["train/multiplier"] > 0
    assert {"train/cost_return_mean", "eval/cost_return_mean"} < last.keys()


def test_the_best_policy_is_one_within_the_limit(quick):
    algorithm = quick(Hazards, "ppo_lagrangian", {**SMALL, "algorithm.cost_limit": 2.0}).run.algorithm
    assert algorithm.score({"eval/return_mean": 7.0, "eval/cost_return_mean": 2.0}) == 7
    assert np.isnan(algorithm.score({"eval/return_mean": 9.0, "eval/cost_return_mean": 2.1}))
    assert np.isnan(algorithm.score({"eval/return_mean": 9.0}))


def test_an_environment_without_costs_is_told_at_the_first_step(quick):
    with pytest.raises(RunError, match=r"^environment 0 \(episode 0, step 1\) returned an info without 'cost'"):
        quick(Silent, "ppo_lagrangian", SMALL).train()


def test_bad_parameters_are_refused(quick):
    for path, value in (("cost_limit", -1), ("multiplier_lr", 0), ("batch_size", 1)):
        with pytest.raises(ConfigError, match=rf"^algorithm.*{path}"):
            _ = quick(Hazards, "ppo_lagrangian", {**SMALL, f"algorithm.{path}": value}).run


@pytest.mark.learning
@pytest.mark.slow
def test_costs_stay_below_the_limit(quick):
    """The best policy within the limit earns 5 at a cost of 1.25."""
    context = quick(Hazards, "ppo_lagrangian", LEARNING, seed=1, steps=200_000)
    context.train()
    found = context.evaluate()
    # The hazards that are taken spread the cost of an episode by 0.46: three errors of the mean are 0.07.
    assert found["eval/cost_return_mean"] <= LIMIT + 0.07
    assert found["eval/return_mean"] >= 4.4


@pytest.mark.learning
@pytest.mark.slow
def test_ppo_takes_all_hazards(quick):
    """It earns 10 at a cost of 5."""
    of_its_own = ("cost_limit", "multiplier_init")
    overrides = {path: value for path, value in LEARNING.items() if not path.endswith(of_its_own)}
    context = quick(Hazards, "ppo", overrides, steps=40_000)
    context.train()
    assert context.evaluate()["eval/return_mean"] > 9.9
