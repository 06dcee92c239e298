"""Sweeps whose runs all start from the weights of another run."""

from __future__ import annotations

import json

import pytest
import torch
from maze_sweep.plan import make_plan, read_plan, write_plan
from maze_sweep.sweep import Sweep
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins.config.assembly import load_run_config
from maze_core.run.saved.checkpoint import read_checkpoint

RAW = {"algorithm": "ppo", "preset": "none", "over": {"algorithm.lr": [0.5, 0.25]}}


@pytest.fixture
def parent(quick):
    """A trained run with a model of its own and a normaliser."""
    context = quick("CartPole-v1", "a2c", {"model.hidden": [5], "model.normalize_observations": True})
    context.train()
    context.close()
    return context.run_dir


def refused(raw, folder):
    made = Sweep(make_plan(raw), folder)
    with pytest.raises(ConfigError) as caught:
        made.check()
    assert not folder.exists()
    return str(caught.value)


def test_from_the_command_line(parent, tmp_path):
    """The steps are so small that what the runs end with is what they began with."""
    arguments = [
        "sweep", "ppo", "--init-from", parent, "--over", "algorithm.lr=1e-10,1e-11", "--preset", "none",
        "--dir", tmp_path / "s", "--jobs", "2", "--set", "algorithm.num_envs=2", "--epochs", "1", "--quiet", "--json",
        "--set", "algorithm.n_rollout_steps=8", "--set", "algorithm.epoch_length=1", "--set", "evaluation.n_episodes=1",
    ]  # fmt: skip
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["runs"] == {"total": 2, "finished": 2, "failed": 0}
    wanted = read_checkpoint(parent / "checkpoints" / "best").model
    for name in ("t000-s0", "t001-s0"):
        run_dir = tmp_path / "s" / "runs" / name
        ends = read_checkpoint(run_dir / "checkpoints" / "last").model
        assert ends.keys() == wanted.keys()
        learned = [key for key in wanted if not key.startswith("normalizer.")]
        assert [key for key in learned if not torch.allclose(ends[key], wanted[key], atol=1e-6)] == []
        assert ends["normalizer.count"] > wanted["normalizer.count"] > 0  # it goes on counting
        assert json.loads((run_dir / "run.json").read_text())["init_from"] == str(parent)
        config = load_run_config(run_dir / "config.yaml")
        assert (config.env.id, config.model.hidden, config.algorithm.name) == ("CartPole-v1", (5,), "ppo")


def test_the_plan_names_it_wherever_one_goes_on(parent, tmp_path, monkeypatch):
    monkeypatch.chdir(parent.parent)
    plan = make_plan(RAW | {"init_from": parent.name})
    write_plan(tmp_path, plan)
    monkeypatch.chdir("/")
    assert make_plan(read_plan(tmp_path)) == plan
    assert plan.init_from == str(parent)
    config, _ = plan.run_config({"algorithm.lr": 0.5})
    assert config.model.hidden == (5,)


def test_networks_that_differ_are_found_before_anything_begins(parent, tmp_path):
    message = refused(RAW | {"init_from": str(parent), "overrides": {"model.hidden": [6]}}, tmp_path / "s")
    assert f"--init-from: the networks differ from those of {parent}:" in message
    assert "value_head.weight: (1, 5) there, (1, 6) here" in message
    searched = {"over": {"model.hidden": [[5], [7]]}}
    assert "(1, 5) there, (1, 7) here" in refused(RAW | searched | {"init_from": str(parent)}, tmp_path / "s")


def test_a_source_that_is_no_run(tmp_path):
    with pytest.raises(ConfigError, match=r"init_from: .* is not a run directory"):
        make_plan(RAW | {"init_from": str(tmp_path)})
    with pytest.raises(ConfigError, match="init_from: "):
        make_plan(RAW | {"init_from": 3})
