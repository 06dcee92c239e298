"""A run's life on the command line: train, look, resume, evaluate."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from maze_core.cli.main import app

SMALL = ["--n-rollout-steps", "8", "--epoch-length", "2", "--epochs", "2", "--num-envs", "3", "--preset", "none"]
SMALL += ["--set", "evaluation.n_episodes=2"]


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_whole_life_of_a_run():
    """Steps 1 to 7 of the workflow, as a user goes through them."""
    algorithm = "a2c"
    result = maze("train", algorithm, "--env", "CartPole-v1", "--seed", "7", *SMALL)
    (run,) = Path("runs", "CartPole-v1", algorithm).iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}-s7", run.name)
    assert result.stderr == ""
    lines = [line.strip() for line in result.stdout.splitlines() if line.strip()]
    assert f"{algorithm} on CartPole-v1" in lines[0]
    assert f"maze eval {run}" in lines
    assert lines[-1] == f"tensorboard --logdir {run}"
    assert "\x1b" not in result.stdout
    assert {path.name for path in run.iterdir()} >= {"config.yaml", "metrics.jsonl", "network.svg", "tensorboard"}
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"best", "last", "previous"}

    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [(each["epoch"], each["env_steps"], each["updates"]) for each in records] == [(1, 48, 2), (2, 96, 4)]
    for name in ("seconds", "train/return_mean", "eval/return_mean", "loss/policy", "loss/value", "loss/entropy"):
        assert name in records[0], name

    assert "is finished" in maze("resume", run, code=2).stderr
    resumed = maze("resume", run, "--set", "algorithm.n_epochs=3")
    assert "resumed" in resumed.stdout
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 3
    assert yaml.safe_load((run / "config.yaml").read_text())["algorithm"]["n_epochs"] == 3

    first, again, other = (
        json.loads(maze("eval", run, "-n", "3", "--seed", seed, "--json").stdout) for seed in (1, 1, 2)
    )  # fmt: skip
    assert first == again != other
    assert first["eval/episodes"] == 3
    assert (first["checkpoint"], first["seed"]) == ("best", 1)
    assert "return_mean" in maze("eval", run).stdout
    assert json.loads(maze("eval", run, "--checkpoint", "last", "--stochastic", "--json").stdout)


def test_the_folder_that_is_named_is_the_runs_own():
    maze("train", "ppo", "--env", "CartPole-v1", "--run-dir", "mine", "-q", *SMALL)
    assert Path("mine", "config.yaml").is_file()
    assert not Path("runs").exists()


def test_quiet_is_quiet():
    result = maze("train", "ppo", "--env", "CartPole-v1", "-q", *SMALL)
    assert result.output == ""


def test_two_runs_of_one_seed_are_the_same_and_the_drawn_seed_repeats_a_run():
    for name in ("first", "second"):
        maze("train", "ppo", "--env", "CartPole-v1", "--seed", "3", "--run-dir", name, "-q", *SMALL)
    maze("train", "ppo", "--env", "CartPole-v1", "--run-dir", "third", "-q", *SMALL)
    seed = yaml.safe_load(Path("third", "config.yaml").read_text())["seed"]
    maze("train", "ppo", "--env", "CartPole-v1", "--run-dir", "fourth", "-q", "--seed", seed, *SMALL)
    models = [Path(name, "checkpoints", "last", "model.safetensors").read_bytes()
              for name in ("first", "second", "third", "fourth")]  # fmt: skip
    assert models[0] == models[1] != models[2] == models[3]


def test_a_run_from_a_saved_configuration():
    """`config.yaml` of a run is a file for `--config`: it repeats the run."""
    maze("train", "ppo", "--env", "CartPole-v1", "--seed", "3", "--run-dir", "first", "-q", *SMALL)
    maze("train", "ppo", "--config", "first/config.yaml", "--run-dir", "second")
    first, second = (Path(name, "checkpoints", "last", "model.safetensors") for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_early_stopping_is_an_ordinary_end():
    """Patience of one: the run stops at the first epoch that is no better, is evaluated, and the exit code is 0."""
    result = maze("train", "a2c", "--env", "CartPole-v1", "--seed", "1", "--run-dir", "run", "--patience", "1",
                  *SMALL, "--epochs", "500")  # fmt: skip
    assert "1 epoch without a new best evaluation" in result.stdout
    summary = json.loads(Path("run", "run.json").read_text())["summary"]
    assert summary["outcome"] == "stopped"
    assert summary["epochs"] - summary["best_epoch"] in (0, 1)  # a tie is kept as best and is no better
    assert summary["epochs"] < 500
    assert summary["final_evaluation"]["eval/episodes"] == 2


def test_the_default_patience_does_not_end_a_run_of_given_length():
    """Every evaluation is alike, since nothing is learnt; the run goes on to the end that was asked for."""
    result = maze("train", "a2c", "--env", "FrozenLake-v1", "--seed", "1", "--run-dir", "run", "--lr", "1e-9",
                  *SMALL, "--epochs", "20")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "all 20 epochs are done" in result.stdout
    assert "best    return 0.00, after epoch 20" in result.stdout
    assert "    patience: 0\n" in Path("run", "config.yaml").read_text()


def test_a_target_return_ends_a_run():
    maze("train", "ppo", "--env", "CartPole-v1", "--run-dir", "run", "-q", *SMALL,
         "--set", "callbacks.early_stopping.target_return=1")  # fmt: skip
    assert json.loads(Path("run", "run.json").read_text())["summary"]["epochs"] == 1


def test_steps_end_a_run_after_the_update_that_reaches_them():
    maze("train", "a2c", "--env", "CartPole-v1", "--run-dir", "run", "-q", *SMALL, "--epochs", "0", "--steps", "100")
    records = [json.loads(line) for line in Path("run", "metrics.jsonl").read_text().splitlines()]
    assert [each["env_steps"] for each in records] == [48, 96, 120]
    assert "is finished (3 epochs, 120 steps)" in maze("resume", "run", code=2).stderr


def test_a_run_without_loggers():
    names = ("tensorboard", "jsonl", "best_checkpoint", "early_stopping", "console")
    off = [part for name in names for part in ("--set", f"callbacks.{name}=null")]
    maze("train", "ppo", "--env", "CartPole-v1", "--run-dir", "run", *SMALL, *off)
    assert {path.name for path in Path("run").iterdir()} == {
        ".lock", "config.yaml", "run.json", "network.svg", "checkpoints",
    }  # fmt: skip
    assert json.loads(maze("eval", "run", "--json").stdout)["eval/episodes"] == 2


def test_a_pipe_that_closes_does_not_end_training(tmp_path):
    """`maze train … | head -1`: whoever stops reading loses lines, not the run."""
    command = [sys.executable, "-m", "maze_core.cli.main", "train", "ppo", "--env", "CartPole-v1", "--run-dir", "run"]
    process = subprocess.Popen([*command, *SMALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    process.stdout.close()
    error = process.stderr.read().decode()
    process.stderr.close()
    process.wait(60)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["summary"]["outcome"] == "finished", error
    assert "Traceback" not in error
