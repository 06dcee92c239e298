"""The examples of third-party plugins, installed as a user would install them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from maze_core.data.batch import Loss
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl

EXAMPLES = Path(__file__).parents[2] / "examples" / "third_party"
NAMES = ("maze_example_logger", "maze_example_auxloss")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with both distributions installed, without any network."""
    folder = tmp_path_factory.mktemp("site")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    sources = []
    for name in NAMES:  # setuptools builds beside the sources: not in the repository
        source = tmp_path_factory.mktemp("source") / name
        source.mkdir()
        for file in (EXAMPLES / name).iterdir():
            if file.is_file():
                (source / file.name).write_bytes(file.read_bytes())
        sources.append(str(source))
    subprocess.run([*install, "--target", str(folder), *sources], check=True, timeout=120)
    return folder


def maze(site, folder, *arguments):
    command = [sys.executable, "-m", "maze_core.cli.main", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_third_partys_loss_and_logger_work_without_touching_the_core(site, tmp_path):
    small = ["--epochs", "2", "--epoch-length", "2", "--n-rollout-steps", "8", "--set", "evaluation.n_episodes=1"]
    plugins = ["--set", "callbacks.example_logger={}", "--set", "callbacks.example_auxloss={}"]
    coef = ["--set", "callbacks.example_auxloss.coef=0.5", "--set", "callbacks.example_logger.file=log.txt"]
    maze(site, tmp_path, "train", "ppo", "--env", "CartPole-v1", "--run-dir", "run", *small, *plugins, *coef)
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    lines = (tmp_path / "run" / "log.txt").read_text().splitlines()
    assert lines == [f"{each['epoch']} {each['env_steps']} {each['eval/return_mean']}" for each in records]
    assert all(each["loss/small_weights"] > 0 for each in records)
    config = (tmp_path / "run" / "config.yaml").read_text()
    assert "# maze-example-logger 1.0.0" in config
    assert "# maze-example-auxloss 1.0.0" in config


def test_they_are_listed_with_what_they_are(site, tmp_path):
    listed = json.loads(maze(site, tmp_path, "plugins", "list", "--kind", "callback", "--json"))
    found = {each["name"]: each for each in listed}
    assert found["example_logger"]["distribution"] == "maze-example-logger"
    assert found["example_logger"]["summary"].startswith("Write the mean return of each epoch")
    assert (found["example_auxloss"]["version"], found["example_auxloss"]["state"]) == ("1.0.0", "ok")


def term(name, change):
    """A callback that changes the loss and keeps what it saw."""

    seen = []

    class Term(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            loss = yield
            seen.append(loss.total.item())
            return Loss(change(loss.total), {**loss.metrics, name: torch.tensor(1.0)})

    return Term, seen


def test_two_wrappers_in_the_order_of_the_configuration(quick):
    """The first callback is the inner one: the second receives what it made."""
    add, to_add = term("added", lambda total: total + 10)
    double, to_double = term("doubled", lambda total: total * 2)
    outer, to_outer = term("outer", lambda total: total)
    quick(callbacks={"add": add, "double": double, "outer": outer}).train(1)
    assert to_add
    for own, added, doubled in zip(to_add, to_double, to_outer, strict=True):
        assert added == pytest.approx(own + 10)
        assert doubled == pytest.approx(2 * (own + 10), rel=1e-5)


def test_the_added_term_is_learnt_from_and_logged(quick, metrics_of):
    def distance(policy):
        return sum((p - 1).square().sum() for p in policy.heads.parameters())

    class Pull(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            return (yield).plus("pull", 10 * distance(policy))

    options = {"algorithm.lr": 0.02, "algorithm.epoch_length": 5, "algorithm.n_optimization_epochs": 10}
    context = quick(callbacks={"pull": Pull}, overrides=options)
    before = distance(context.policy).item()
    context.train()
    assert distance(context.policy).item() < before / 4
    first, second = metrics_of(context)
    assert first["loss/pull"] > second["loss/pull"] > 0


@pytest.fixture
def metrics_of():
    return lambda context: [json.loads(x) for x in (context.run_dir / "metrics.jsonl").read_text().splitlines()]
