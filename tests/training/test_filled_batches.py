"""Batches that lack rows are repeated like whole ones, and what is learned from them is the same."""

import re

import pytest
import torch
from maze_compile import compiled, filling
from maze_compile.filling import Filling
from maze_compile.steps import RepeatedSteps

from maze_core import hookimpl
from maze_core.data.batch import ROW_WEIGHT, Batch, mean_of_rows
from tests.agents import CrowdSource
from tests.interpreted import interpreted as interpreted
from tests.interpreted import losses
from tests.maze_safety.hazards import Hazards

OVERRIDES = {"evaluation.n_episodes": 0}

SHORTENED = {"algorithm.num_envs": 3, "algorithm.n_rollout_steps": 20, "env.vectorization": "native"}
LIMITED = {"constraints.cost.at_most": 1.0, "algorithm.n_optimization_epochs": 2}
COSTS = {**LIMITED, "algorithm.num_envs": 3, "algorithm.n_rollout_steps": 20}
FILLED = {
    "minibatches as large as a rollout": ("CartPole-v1", "ppo", {**SHORTENED, "algorithm.batch_size": 999}, 60),
    "rollouts, clipped": ("CartPole-v1", "a2c", {**SHORTENED, "algorithm.max_grad_norm": 0.01}, 60),
    "rollouts without a critic": ("CartPole-v1", "pg", {**SHORTENED, "model.critic": "none"}, 60),
    "rollouts of agents that wait": (CrowdSource, "a2c", {"algorithm.n_rollout_steps": 7}, 63),
    "minibatches with costs": (Hazards, "ppo", {**COSTS, "algorithm.batch_size": 16}, 16),
}


@pytest.fixture
def sizes(monkeypatch):
    """The numbers of rows of all batches, of those that were compiled, and of those of compiled steps."""
    found = {"all": [], "compiled": [], "taken": []}

    class Sized(compiled.CompiledStep):
        def __init__(self, run, batch, tape):
            found["compiled"].append(len(batch))
            super().__init__(run, batch, tape)

        def take(self, batch, filled):
            super().take(batch, filled)
            found["taken"].append(len(batch))

    step = RepeatedSteps.step
    monkeypatch.setattr(compiled, "CompiledStep", Sized)
    monkeypatch.setattr(
        RepeatedSteps, "step", lambda steps, batch: (found["all"].append(len(batch)), step(steps, batch))[1]
    )
    return found


@pytest.mark.parametrize("closed_form", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.parametrize("name", FILLED)
def test_batches_that_lack_rows_are_filled_up(interpreted, quick, metrics, sizes, name, closed_form, capfd):
    """Rollouts with resets have fewer rows, another number in each: one compiled step serves all."""
    env, algorithm, settings, rows = FILLED[name]
    runs = []
    for setting in ("off", "on"):
        more = {"algorithm.epoch_length": 4, "compile": setting, "closed_form": closed_form}
        runs.append(quick(env, algorithm, {**settings, **more}))
        runs[-1].train()
    assert "goes on" not in capfd.readouterr().err
    plain, ours = runs
    assert set(sizes["compiled"]) == {rows}
    assert {size for size in sizes["all"] if rows / 2 <= size < rows}, "no batch lacks rows"
    assert not ours.run.repeated.given_up
    for wanted, found in zip(*(losses(metrics(context.run_dir)) for context in runs), strict=True):
        assert len(wanted) > 1
        assert found == pytest.approx(wanted, rel=1e-3, abs=1e-5)
    for mine, theirs in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "whole", "filled"), [(12, 16, 16), (8, 16, 16), (7, 16, 7), (17, 16, 17), (16, 16, 16), (5, 0, 5)]
)
def test_a_batch_with_half_of_the_rows_gets_the_others(rows, whole, filled):
    batch = Batch(
        {"a": torch.arange(rows), "b": torch.rand(rows, 2)}, {}, {"c": torch.rand(rows)}, {}, "critic", "critics"
    )
    found = Filling(whole).filled(batch)
    assert (len(found), found.objective, found.group) == (filled, "critic", "critics")
    assert (ROW_WEIGHT in found.extra) == (filled == whole)
    assert ROW_WEIGHT not in batch.extra
    for before, after in zip(batch.leaves, found.leaves, strict=False):
        assert torch.equal(before, after[:rows])
    for values in (batch.extra["c"], torch.stack((batch.extra["c"], batch.obs["b"][:, 0]))):
        more = torch.cat((values, torch.rand(*values.shape[:-1], filled - rows)), -1)
        torch.testing.assert_close(mean_of_rows(more, found.extra), values.mean(-1))


def test_large_batches_are_not_filled_up_on_a_cpu(interpreted, quick, sizes, monkeypatch):
    """What is left of a large rollout takes less time than a whole batch."""
    monkeypatch.setattr(filling, "_MOST", 59)
    settings = {**SHORTENED, "algorithm.epoch_length": 4, "compile": "on"}
    for rows, filled in ((60, False), (59, True)):
        context = quick("CartPole-v1", "ppo", {**settings, "algorithm.batch_size": rows})
        for found in sizes.values():
            found.clear()
        context.train()
        lacking, taken = ([size for size in sizes[of] if rows / 2 <= size < rows] for of in ("all", "taken"))
        assert len(lacking) > 1
        assert taken == (lacking if filled else [])


@pytest.mark.parametrize("weighs", [True, False])
def test_a_class_that_overrides_the_loss_says_that_it_weighs_rows(
    interpreted, also_installed, quick, sizes, monkeypatch, weighs
):
    from maze_a2c.a2c import A2C

    class Own(A2C):
        @hookimpl
        def compute_loss(self, policy, batch):
            return super().compute_loss(policy, batch)

        def loss_constants(self):
            return super().loss_constants()

    if weighs:
        Own.weighs_rows = True
    also_installed("algorithm", "a2c", Own)
    context = quick("CartPole-v1", "a2c", {**SHORTENED, "algorithm.epoch_length": 4, "compile": "on"})
    context.train()
    assert sizes["compiled"] == [60]
    shorter = [size for size in sizes["all"] if size < 60]
    assert len(shorter) > 1
    assert [size for size in sizes["taken"] if size < 60] == (shorter if weighs else [])


def test_a_loss_that_ignores_the_weights_is_noticed(interpreted, also_installed, quick, capfd):
    from maze_a2c.a2c import A2C

    class Own(A2C):
        weighs_rows = True

        @hookimpl
        def compute_loss(self, policy, batch):
            extra = {key: leaf for key, leaf in batch.extra.items() if key != ROW_WEIGHT}
            return super().compute_loss(policy, Batch(batch.obs, batch.actions, extra))

        def loss_constants(self):
            return ()

    also_installed("algorithm", "a2c", Own)
    context = quick("CartPole-v1", "a2c", {**SHORTENED, "algorithm.epoch_length": 4, "compile": "on"})
    context.train()
    said = capfd.readouterr().err
    assert re.search(
        "a2c are not compiled( from step .* on)?: the compiled ones give other results for the gradient", said
    )
