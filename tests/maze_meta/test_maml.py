"""MAML: its gradients against differences, its baseline against a formula, its tasks, and runs that repeat exactly."""

import numpy as np
import pytest
import torch
from maze_meta.adaptation import adapt
from maze_meta.baseline import advantages
from maze_meta.config import MAMLConfig
from maze_meta.maml import adapted_parameters, log_probs
from maze_meta.navigation import PointNavigation
from maze_onpolicy.tasks import Tasks

from maze_core.base.errors import ConfigError, RunError
from maze_core.data.batch import Batch
from maze_core.data.rollout import Rollout
from maze_core.run.context import RunContext
from tests.maze_meta.sides import Elsewhere, OwnSides, Sides

ID, SPACES = "tests.maze_meta.sides:Sides", "tests.maze_meta.sides:Wide"
BOTH = {"algorithm.tasks": {"side": [-1.0, 1.0]}}
SMALL = {
    "algorithm.tasks_per_update": 4,
    "algorithm.rollouts_per_task": 4,
    "algorithm.n_rollout_steps": 5,
    "algorithm.n_optimization_epochs": 2,
    "model.hidden": [6],
}


def made_up(policy, rows, seed):
    """Rows of a policy that acted a little differently."""
    rng = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=rng)  # noqa: E731
    batch = Batch({"observation": draw(rows, 1)}, {"action": draw(rows, 1)})
    with torch.no_grad():
        log_prob = policy.distribution(batch.obs).log_prob(batch.actions)
    batch.extra = {"advantage": draw(rows), "log_prob": log_prob + 0.02 * draw(rows)}
    return batch


def pairs(policy, tasks, rows):
    """A batch of rows before and after the inner step, of each task."""
    parts = [made_up(policy, rows, seed) for seed in range(2 * tasks)]
    names = ("obs", "actions", "extra")
    trees = [[getattr(part, name) for part in parts] for name in names]
    return Batch(*({key: torch.cat([each[key] for each in tree]) for key in tree[0]} for tree in trees)), parts


@pytest.fixture
def ready(quick):
    """`ready(second_order)`: a run with a long inner step, and clipping out of the way."""

    def build(second_order):
        more = {**BOTH, **SMALL, "algorithm.second_order": second_order, "algorithm.inner_lr": 0.5}
        return quick(ID, "maml", {**more, "algorithm.clip_range": 1e6}).run

    return build


def gradients(run, batch):
    loss = run.algorithm.compute_loss(run.policy, batch).total
    return loss, torch.autograd.grad(loss, list(run.policy.parameters()))


def test_the_second_order_gradient_is_that_of_differences(ready):
    run, rng = ready(True), torch.Generator().manual_seed(0)
    batch, _ = pairs(run.policy, 4, 10)
    parameters, (_, found) = list(run.policy.parameters()), gradients(run, batch)
    run.algorithm.config = run.algorithm.config.model_copy(update={"second_order": False})
    _, first_order = gradients(run, batch)
    start, apart = [each.detach().clone() for each in parameters], []
    for _ in range(8):
        direction, values = [torch.randn(each.shape, generator=rng) for each in parameters], []
        for step in (3e-3, -3e-3):
            with torch.no_grad():
                for parameter, value, way in zip(parameters, start, direction, strict=True):
                    parameter.copy_(value + step * way)
            values.append(run.algorithm.compute_loss(run.policy, batch).total.item())
        slope, other = (
            sum((each * way).sum().item() for each, way in zip(of, direction, strict=True))
            for of in (found, first_order)
        )
        assert slope == pytest.approx((values[0] - values[1]) / 6e-3, rel=0.02, abs=2e-3)
        apart.append(abs(slope - other))
    assert max(apart) > 0.05


def test_the_first_order_gradient_is_that_of_the_adapted_policies(ready):
    run = ready(False)
    policy = run.policy
    batch, parts = pairs(policy, 4, 10)
    loss, found = gradients(run, batch)
    wanted, total = [torch.zeros_like(each) for each in policy.parameters()], 0.0
    for first, second in zip(parts[::2], parts[1::2], strict=True):
        with torch.no_grad():
            kept = [each.clone() for each in policy.parameters()]
        ratio = (policy.distribution(first.obs).log_prob(first.actions) - first.extra["log_prob"]).exp()
        inner = torch.autograd.grad((ratio * first.extra["advantage"]).mean(), list(policy.parameters()))
        with torch.no_grad():
            for parameter, slope in zip(policy.parameters(), inner, strict=True):
                parameter += 0.5 * slope
        ratio = (policy.distribution(second.obs).log_prob(second.actions) - second.extra["log_prob"]).exp()
        outer = -(ratio * second.extra["advantage"]).mean() / 4
        total += outer.item()
        for each, slope in zip(wanted, torch.autograd.grad(outer, list(policy.parameters())), strict=True):
            each += slope
        with torch.no_grad():
            for parameter, value in zip(policy.parameters(), kept, strict=True):
                parameter.copy_(value)
    assert loss.item() == pytest.approx(total)
    for each, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(each, other)


def test_an_update_yields_the_rows_of_both_phases_with_what_acted(quick):
    run = quick(ID, "maml", {**BOTH, **SMALL}).run
    (batch, again) = list(run.algorithm.batches())
    assert batch is again
    assert len(batch) == 2 * 4 * 4 * 5
    assert run.env_steps == len(batch)
    initial = dict(run.policy.named_parameters())
    for number in range(4):
        first, second = (
            batch.map(lambda leaf, at=at: leaf[at * 20 : at * 20 + 20]) for at in (2 * number, 2 * number + 1)
        )
        moved = adapted_parameters(run.policy, initial, first, 0.1, second_order=True)
        torch.testing.assert_close(log_probs(run.policy, moved, second), second.extra["log_prob"])
        assert first.extra["advantage"].mean().item() == pytest.approx(0, abs=1e-5)
    metrics = run.statistics.epoch_metrics()
    gained = (metrics["train/adapted_return_mean"] - metrics["train/return_mean"]) / 5
    assert metrics["train/adaptation_gain"] == pytest.approx(gained, abs=1e-6)
    assert gained != 0
    assert run.algorithm.score(metrics) == metrics["train/adapted_return_mean"]


def test_advantages_are_those_of_a_fitted_baseline():
    """Rewards that are linear in the features have none; time limits and the rollout's end go on with the baseline."""
    rng = np.random.default_rng(1)
    obs = {"observation": rng.normal(size=(21, 3, 2)).astype(np.float32), "critic/x": np.full((21, 3), np.nan)}
    rollout = Rollout.over(obs, {"action": np.zeros((20, 3), np.int64)}, valid=True)
    rollout.terminated[6, 0] = rollout.truncated[9, 1] = True
    final = np.array([[3.0, -2.0]], np.float32)
    rollout.truncations.append((9, np.array([1]), {"observation": final, "critic/x": np.zeros(1)}))
    rollout.rewards[:] = rng.normal(size=(20, 3))
    found = advantages(rollout, 0.9, 0.5)
    starts = {0: [0, 7], 1: [0, 10], 2: [0]}
    time = np.array([[t - max(s for s in starts[n] if s <= t) for n in range(3)] for t in range(20)])

    def features(seen, step):
        part = step / 100
        return [*seen, *np.square(seen), part, part**2, part**3, 1.0]

    returns = np.zeros((21, 3))
    for t in range(19, -1, -1):
        ended = rollout.terminated[t] | rollout.truncated[t]
        returns[t] = rollout.rewards[t] + 0.9 * np.where(ended, 0, returns[t + 1])
    seen = obs["observation"].astype(np.float64)
    table = np.array([[features(seen[t, n], time[t, n]) for n in range(3)] for t in range(20)]).reshape(60, -1)
    weights = np.linalg.solve(table.T @ table + 1e-5 * np.eye(8), table.T @ returns[:20].reshape(-1))
    wanted, later = np.zeros((20, 3)), np.zeros(3)
    for t in range(19, -1, -1):
        for n in range(3):
            following = final[0] if rollout.truncated[t, n] else seen[t + 1, n]
            value = 0 if rollout.terminated[t, n] else features(following, time[t, n] + 1) @ weights
            delta = rollout.rewards[t, n] + 0.9 * value - features(seen[t, n], time[t, n]) @ weights
            ended = rollout.terminated[t, n] or rollout.truncated[t, n]
            later[n] = delta + (0 if ended else 0.45 * later[n])
            wanted[t, n] = later[n]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_tasks_are_drawn_from_lists_and_ranges():
    given = {"wind": {"low": -1, "high": 2}, "goal": {"low": [0, 5], "high": [1, 5]}, "map": ["a", "b"]}
    tasks, rng = Tasks(MAMLConfig(name="maml", tasks=given).tasks, Sides()), np.random.default_rng(0)
    drawn = [tasks.draw(rng) for _ in range(200)]
    assert {each["map"] for each in drawn} == {"a", "b"}
    assert -1 <= min(each["wind"] for each in drawn) < -0.9
    assert 1.9 < max(each["wind"] for each in drawn) <= 2
    assert all(0 <= each["goal"][0] <= 1 and each["goal"][1] == 5 for each in drawn)


def test_it_learns_to_adapt_to_either_side(quick):
    """No policy earns anything on both sides before it knows which; after a step the best earns 5."""
    sizes = {"algorithm.tasks_per_update": 4, "algorithm.rollouts_per_task": 8, "algorithm.n_rollout_steps": 5}
    rates = {"algorithm.lr": 0.03, "algorithm.epoch_length": 15, "algorithm.n_epochs": 1, "model.hidden": [16]}
    trained = quick(ID, "maml", {**BOTH, **sizes, **rates})
    trained.train()
    for side in (-1.0, 1.0):
        with RunContext.open(trained.run_dir) as context:
            told = adapt(context.run, {"side": side})
        assert abs(told.before) < 2
        assert told.after > 2.5


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_exactly_and_workers_change_nothing(goes_on_exactly):
    same = {
        **SMALL, "algorithm.epoch_length": 1, "algorithm.n_epochs": 4, "evaluation.n_episodes": 1,
        "model.normalize_observations": True,
    }  # fmt: skip
    goes_on_exactly("maze_meta.navigation:PointNavigation", "maml", same)


@pytest.mark.parametrize(
    ("env", "more", "error"),
    [
        (
            "CartPole-v1",
            {},
            r"^algorithm\.tasks: tasks are needed, and the environment has no sample_task and set_task",
        ),
        (ID, {"algorithm.tasks": {"slope": [1]}}, r"^env\.kwargs: .*unexpected keyword argument 'slope'"),
        (OwnSides, BOTH, r"^env\.kwargs: the environment source 'factory' takes no arguments"),
        (ID, {"algorithm.tasks": {"side": []}}, r"^algorithm\.tasks\.side"),
        (ID, {"algorithm.tasks": {"side": {"low": 2, "high": 1}}}, r"low must not be above high"),
        (ID, {"algorithm.tasks": {"side": {"low": 2, "high": [3]}}}, r"two numbers, or two lists of the same length"),
        (ID, {**BOTH, "algorithm.n_rollout_steps": 10**10}, r"^algorithm\.n_rollout_steps: "),
        (ID, {**BOTH, "model.memory": "gru"}, r"^model\.memory"),
        (
            ID,
            {**BOTH, "wrappers": [{"name": "normalize_reward"}]},
            r"^wrappers: NormalizedReward keeps state across episodes",
        ),
        (SPACES, {"algorithm.tasks": {"size": [3]}}, r"^algorithm\.tasks: with the task .* another observation_space"),
        (Elsewhere, {}, r"^set_task of environment 0 raised ValueError: a side is -1 or 1"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused(quick, env, more, error):
    with pytest.raises((ConfigError, RunError), match=error):
        _ = quick(env, "maml", {**SMALL, **more}).run


def test_runs_of_other_algorithms_are_not_adapted(quick):
    with pytest.raises(ConfigError, match=r"^algorithm\.name: a run of ppo is not adapted"):
        adapt(quick(ID, "ppo").run, {"side": 1.0})


def test_the_point_goes_to_its_goal_and_no_faster():
    env = PointNavigation(horizon=5)
    env.set_task(np.array([0.15, 0.0]))
    np.testing.assert_array_equal(env.reset(seed=1)[0], [0, 0])
    place, reward, terminated, truncated, _ = env.step(np.array([1.0, 0.0], np.float32))
    np.testing.assert_allclose(place, [0.1, 0], rtol=1e-6)
    assert (reward, terminated, truncated) == (pytest.approx(-0.05), False, False)
    assert env.step(np.array([0.05, 0], np.float32))[2]
    free = PointNavigation()
    goals = [free.reset(seed=seed) and free._goal.copy() for seed in range(50)]
    assert np.abs(goals).max() <= 0.5
    assert np.ptp(goals, axis=0).min() > 0.7


@pytest.mark.learning
@pytest.mark.slow
def test_a_step_brings_the_point_nearer_to_goals_that_it_has_not_seen(tmp_path):
    """Before the step the best earns -19 in the mean."""
    env = "maze_meta.navigation:PointNavigation"
    values = {
        "algorithm.tasks_per_update": 10, "algorithm.rollouts_per_task": 5, "algorithm.lr": 0.01,
        "algorithm.inner_lr": 0.2, "model.hidden": [32],
    }  # fmt: skip
    goals = np.random.default_rng(1).uniform(-0.5, 0.5, (10, 2))
    parts = {"seed": 1, "steps": 50_000, "silent": True, "run_dir": tmp_path / "run"}
    with RunContext(env, "maml", overrides=values, **parts) as context:
        context.train()
        start = {name: value.clone() for name, value in context.policy.state_dict().items()}
        gained = []
        for goal in goals:
            context.policy.load_state_dict(start)
            told = adapt(context.run, goal)
            gained.append(told.after - told.before)
    assert np.mean(gained) > 4
