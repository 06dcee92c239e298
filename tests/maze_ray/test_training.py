"""Whole runs on Ray: the same results, learning, and what happens when something breaks."""

from __future__ import annotations

import time

import pytest
from maze_devkit.envs import FailingEnv, SeededWalk

from maze_core.base.errors import RunError
from maze_core.plugins.config.schedules import Linear
from maze_core.run.context import RunContext
from tests.corridors import Corridor

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("local_ray")

RAY = {"name": "ray", "workers": 2}
ONE = {"evaluation.num_envs": 1}
"""One worker for evaluation: each that Ray starts takes two seconds."""
IMPALA = {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4}


def test_ppo_gives_the_same_as_on_dev(quick, whole_state, assert_same):
    contexts = [quick(SeededWalk, "ppo", ONE, runner=runner) for runner in ("dev", RAY)]
    for context in contexts:
        context.train()
    assert_same(*(whole_state(context.run_dir) for context in contexts))


TAUGHT = {
    "dqn": (
        "tests.corridors:Corridor",
        ("plr", {"seed": [0, 9]}),
        {
            "algorithm.initial_buffer_size": 20,
            "algorithm.batch_size": 8,
            "algorithm.epsilon": Linear(from_=1.0, to=0.1, over="epochs", end=2),
        },
    ),
    "es": (
        lambda: Corridor(),  # of the user's own script: no worker can import it
        ("uniform", {"size": [2, 4]}),
        {"algorithm.n_rollouts_per_update": 8, "algorithm.pairs_per_job": 2},
    ),
}
"""Environment, teacher and settings: exploration follows a schedule."""


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", TAUGHT)
def test_teachers_choose_the_same_as_on_dev(quick, whole_state, assert_same, algorithm):
    env, (teacher, parameters), its = TAUGHT[algorithm]
    values = {**ONE, **its, "algorithm.n_epochs": 3, "callbacks.curriculum.teacher": teacher}
    values["callbacks.curriculum.parameters"] = parameters
    contexts = [quick(env, algorithm, values, runner=runner) for runner in ("dev", RAY)]
    for context in contexts:
        context.train()
        assert any(episode.parameters for episode in context.run.statistics.finished)
    assert_same(*(whole_state(context.run_dir) for context in contexts))


@pytest.mark.slow
def test_impala_learns(tmp_path):
    overrides = {"evaluation.n_episodes": 4, **ONE}
    with RunContext(
        "CartPole-v1", "impala", runner="ray", overrides=overrides, steps=16_000, run_dir=tmp_path / "run", seed=1,
        silent=True,
    ) as context:  # fmt: skip
        returns = []
        while max(returns, default=0.0) <= 100 and context.run.env_steps < 16_000:
            returns.append(context.train(1).final_evaluation["eval/return_mean"])
    assert max(returns) > 100  # an untrained policy: 9 to 30


class FailsLater(FailingEnv):
    """Fails after the evaluation environments of a short run are done with it."""

    def __init__(self):
        super().__init__("raise", at=25)


def test_an_environment_that_raises_ends_the_run_within_ten_seconds(quick):
    overrides = {**IMPALA, "algorithm.num_actors": 1, "algorithm.n_rollout_steps": 50, "runner.workers": 1}
    context = quick(FailsLater, "impala", overrides, runner="ray")
    assert context.run.run_dir.exists()
    began = time.monotonic()
    with pytest.raises(RunError, match=r"environment \d .* raised ZeroDivisionError: the wheel came off") as caught:
        context.train()
    context.close()
    assert time.monotonic() - began < 10
    notes = "\n".join(caught.value.__notes__)
    assert 'raise ZeroDivisionError("the wheel came off")' in notes
    assert "Nothing learnt had been saved" in notes


def test_rollouts_are_the_same_on_ray(quick):
    context = quick(SeededWalk)
    here, there = (context.rollout(12, seed=5, runner=runner) for runner in (None, {"name": "ray", "workers": 2}))
    assert [each.rewards.tolist() for each in there] == [each.rewards.tolist() for each in here]
    assert len(here) == 12
