"""Starting from another run's parameters, also with another algorithm; never a silent random start."""

import json
import shutil
from contextlib import ExitStack

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins.config.assembly import load_run_config
from maze_core.run.context import RunContext
from maze_core.run.saved.checkpoint import read_checkpoint

BOX = spaces.Box(-1, 1, (3,), np.float32)
PARENT = {"model.hidden": [5], "model.normalize_observations": True, "algorithm.lr": 0.01}


@pytest.fixture
def parent(quick):
    def build(algorithm="ppo", env=SeededWalk, **more):
        context = quick(env, algorithm, PARENT | more)
        context.train()
        context.close()
        return context.run_dir

    return build


@pytest.mark.parametrize(("first", "second"), [("ppo", "a2c"), ("a2c", "ppo"), ("ppo", "ppo")])
def test_parameters_and_statistics_are_taken_over(quick, parent, first, second):
    """The normaliser is loaded too. The model need not be named again; counters start anew."""
    source = parent(first)
    context = quick(SeededWalk, second, {"algorithm.lr": 0.5}, init_from=source)
    ours, best = context.policy.state_dict(), read_checkpoint(source / "checkpoints" / "best")
    assert ours.keys() == best.model.keys()
    for name, tensor in best.model.items():
        assert torch.equal(ours[name], tensor), name
    assert ours["normalizer.count"] > 0
    assert context.config.model.hidden == (5,)
    assert (context.run.epoch, context.run.env_steps, context.run.best_score) == (0, 0, None)
    assert {group["lr"] for group in context.run.learner.optimizer.param_groups} == {0.5}
    moments = [
        value for each in context.run.learner.optimizer.state_dict()["state"].values() for value in each.values()
    ]
    assert all(not value.any() for value in moments)
    assert context.train().outcome == "finished"


def test_the_last_checkpoint_where_no_best_was_kept(quick, parent):
    source = parent()
    shutil.rmtree(source / "checkpoints" / "best")
    context = quick(SeededWalk, "a2c", init_from=source)
    last = read_checkpoint(source / "checkpoints" / "last")
    assert all(torch.equal(context.policy.state_dict()[name], tensor) for name, tensor in last.model.items())


def test_the_source_is_on_record_and_in_the_header(quick, parent, capsys):
    source = parent()
    context = quick(SeededWalk, "a2c", init_from=source, silent=False)
    assert json.loads((context.run_dir / "run.json").read_text())["init_from"] == str(source)
    context.train()
    assert f"  from    {source}\n" in capsys.readouterr().out
    fresh = quick()
    assert json.loads((fresh.run_dir / "run.json").read_text())["init_from"] is None


def test_the_source_is_left_as_it_is(quick, parent):
    source = parent()
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    quick(SeededWalk, "a2c", init_from=source).train()
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


def test_what_does_not_match_is_listed_tensor_by_tensor(quick, parent, tmp_path):
    source = parent()
    with pytest.raises(ConfigError) as caught:
        _ = quick(overrides={"model.hidden": [6]}, init_from=source, run_dir=tmp_path / "new").run
    lines = str(caught.value).splitlines()
    assert lines[0] == f"init_from: the networks differ from those of {source}:"
    shapes = {line.strip().partition(": ")[0]: line.partition(": ")[2] for line in lines[1:-1]}
    assert shapes["value_head.weight"] == "(1, 5) there, (1, 6) here"
    assert len(shapes) > 4
    assert not (tmp_path / "new").exists()


def test_what_is_missing_on_either_side_is_listed(quick, parent):
    source = parent()
    with pytest.raises(ConfigError, match=r"normalizer\.count: this run has no such tensor"):
        _ = quick(overrides={"model.normalize_observations": False}, init_from=source).run
    source = parent(**{"model.critic": "shared"})
    with pytest.raises(ConfigError, match=r"critic_encoder\.\S+: missing from"):
        _ = quick(overrides={"model.critic": "separate"}, init_from=source).run


def test_another_environment_of_the_same_spaces(quick, parent):
    class Other(SeededWalk):
        pass

    assert quick(Other, init_from=parent()).train().epochs == 2


def test_from_the_command_line(parent, tmp_path):
    """`maze train a2c --init-from RUN` needs nothing else."""
    source = parent(env="CartPole-v1")
    small = ["--n-rollout-steps", "4", "--epochs", "1", "--epoch-length", "1", "--set", "evaluation.n_episodes=1"]
    arguments = ["train", "a2c", "--init-from", source, "--run-dir", tmp_path / "new", "--lr", "0.25", "-q", *small]
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    config = load_run_config(tmp_path / "new" / "config.yaml")
    assert (config.env.id, config.algorithm.name, config.algorithm.lr) == ("CartPole-v1", "a2c", 0.25)
    assert config.model == load_run_config(source / "config.yaml").model


def test_a_source_that_is_no_run(quick, tmp_path):
    with pytest.raises(ConfigError, match="is not a run directory"):
        quick(init_from=tmp_path)


@pytest.mark.parametrize(("algorithm", "target"), [("dqn", "target"), ("td3", "policy_target")])
@pytest.mark.parametrize("start", ["init_from", "estimated"])
def test_targets_are_copies_of_what_a_run_starts_from(tmp_path, algorithm, target, start):
    """Of another run's parameters and statistics, or of statistics estimated before training."""
    space = BOX if algorithm == "td3" else spaces.Discrete(3)
    overrides = {
        "algorithm.initial_buffer_size": 20,
        "algorithm.replay_buffer_size": 500,
        "algorithm.epoch_length": 2,
        "algorithm.n_epochs": 1,
        "evaluation.n_episodes": 1,
        "callbacks.tensorboard": None,
        "wrappers": [{"name": "normalize_observations", "estimate_steps": 50, "running": True}],
    }

    def run(name, **more):
        parts = {"preset": "none", "seed": 1, "silent": True, "run_dir": tmp_path / name}
        return RunContext(lambda: SpacesEnv(BOX, space), algorithm, overrides=overrides, **parts, **more)

    with ExitStack() as stack:
        context = stack.enter_context(run("first"))
        if start == "init_from":
            context.train()
            context = stack.enter_context(run("second", init_from=tmp_path / "first"))
        ours, copied = context.policy.state_dict(), context.run.algorithm.modules()[target].state_dict()
    assert copied.keys() == ours.keys()
    assert all(torch.equal(value, ours[name]) for name, value in copied.items())
    assert ours["normalizer.count"] > 0


def test_memory_that_an_algorithm_cannot_train_is_refused_before_statistics_are_estimated(tmp_path):
    steps = []

    class Counted(SpacesEnv):
        def step(self, action):
            steps.append(action)
            return super().step(action)

    overrides = {"model.memory": "gru", "wrappers": [{"name": "normalize_observations", "estimate_steps": 50}]}
    context = RunContext(lambda: Counted(BOX, BOX), "td3", overrides=overrides, preset="none", seed=1, silent=True,
                         run_dir=tmp_path / "run")  # fmt: skip
    with pytest.raises(ConfigError, match="memory"), context:
        context.train()
    assert not steps
