"""A planner of an outsider's package: one object wherever the run acts, from the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.run.context import RunContext
from tests import planners
from tests.maze_export.test_export import load
from tests.planners import STEPS

SOURCE = Path(planners.__file__).read_text(encoding="utf-8")
SMALL = {
    "algorithm.num_envs": 2, "algorithm.n_rollout_steps": 8, "algorithm.epoch_length": 1, "evaluation.n_episodes": 2,
    "callbacks.tensorboard": "null", "callbacks.ahead.how": "one_step",
}  # fmt: skip


def maze(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def package(outsider):
    """The package is installed: a planner, and environments in which it knows more than any network."""
    return outsider("maze_ahead", SOURCE, {"callback": {"ahead": "Ahead"}, "env": {"in_turn": "DoorsInTurnSource"}})


@pytest.mark.parametrize(
    ("env", "best"),
    [
        (("--env", "maze_ahead:Doors"), STEPS),  # copied
        (("--env", "maze_ahead:Locked"), STEPS),  # its copies are replayed
        (("--env-source", "in_turn"), 5),  # several agents
    ],
    ids=["copied", "replayed", "agents"],
)
def test_the_same_planner_acts_wherever_the_run_does(package, tmp_path, monkeypatch, env, best):
    monkeypatch.chdir(tmp_path)
    sets = [part for path, value in SMALL.items() for part in ("--set", f"{path}={value}")]
    maze("train", "ppo", *env, "--preset", "none", "--steps", 64, "--seed", 1, "--run-dir", "run", "--quiet", *sets)
    last = json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])
    assert last["train/return_mean"] == best
    ahead, alone = (json.loads(maze("eval", "run", "--json", *more)) for more in ((), ("--no-look-ahead",)))
    assert ahead["eval/return_mean"] == best
    assert alone["eval/return_mean"] < best
    assert json.loads(maze("rollout", "run", "--episodes", 2, "--record", "played", "--json"))["return_min"] == best
    with RunContext.open("run") as context:
        played = context.make_env()
        if env[0] == "--env":
            agent = context.agent(env=played)
            observation, _ = played.reset(seed=3)
            rewards = []
            for _ in range(STEPS):
                observation, reward, *_ = played.step(agent.act(observation))
                rewards.append(reward)
            assert rewards == [1.0] * STEPS


def test_a_deployment_has_no_simulator_and_the_export_says_so(package, quick, tmp_path):
    quick("maze_ahead:Doors", callbacks={"ahead": {}}, run_dir=tmp_path / "run").train(1)
    said = maze("export", tmp_path / "run", "--out", tmp_path / "policy.pt2")
    assert "it is the network alone: this run acts with ahead, which looks ahead" in said
    assert load(tmp_path / "policy.pt2")[1]["run"]["without_look_ahead_of"] == ["ahead"]
