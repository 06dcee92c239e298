"""The Python API: runs that were saved are gone on with, opened to act, and extended."""

import pytest
import torch
from maze_devkit.envs import SeededWalk

from maze_core import RunContext
from maze_core.errors import ConfigError
from maze_core.training.saved.checkpoint import read_checkpoint
from tests.context.parts import Encoder


def test_a_saved_run_is_opened_again(quick):
    context = quick("CartPole-v1")
    context.train(1)
    context.close()
    with RunContext.reopen(context.run_dir, {"algorithm.n_epochs": 3, "callbacks.console": None}) as again:
        assert again.run.epoch == 1
        assert again.run_dir == context.run_dir
        assert again.train().epochs == 3
        assert again.evaluate()["eval/episodes"] == 2


def test_a_policy_is_opened_to_act(quick):
    """Neither the last checkpoint nor its optimizer are touched; training is refused."""
    trained = quick("CartPole-v1")
    trained.train()
    expected = trained.evaluate()["eval/return_mean"]
    trained.close()
    with RunContext.open(trained.run_dir, "last") as context:
        for name, tensor in trained.policy.state_dict().items():
            assert torch.equal(context.policy.state_dict()[name], tensor), name
        observation = context.run.observation_space.sample()
        assert context.compute_action(observation) == trained.compute_action(observation)
        assert context.evaluate()["eval/return_mean"] == expected
        assert len(context.rollout(2, seed=1)) == 2
        with pytest.raises(ConfigError, match=r"cannot train\n.*RunContext.reopen"):
            context.train()
    with RunContext.open(trained.run_dir) as context:
        assert context.run.epoch == read_checkpoint(trained.run_dir / "checkpoints" / "best").state["epoch"]


def test_a_policy_of_ready_objects_is_loaded_to_act(quick):
    trained = quick(SeededWalk, model=Encoder)
    expected = trained.train().final_evaluation["eval/return_mean"]
    trained.close()
    again = quick(SeededWalk, model=Encoder).load(trained.run_dir, "last")
    assert again.evaluate()["eval/return_mean"] == expected
    with pytest.raises(ConfigError, match="cannot train"):
        again.train()


def test_a_finished_run_of_ready_objects_is_extended(quick, whole_state, assert_same):
    """What the new context was given replaces what the run was configured with."""
    free = {"algorithm.n_epochs": 0, "algorithm.lr_schedule": "constant"}  # a schedule would stretch
    first = quick(SeededWalk, steps=48, overrides=free)
    assert first.train().env_steps == 48
    first.close()
    second = quick(SeededWalk, steps=96, overrides=free)
    assert second.resume(first.run_dir).env_steps == 96
    assert second.config.steps == 96
    whole = quick(SeededWalk, steps=96, overrides=free)
    whole.train()
    assert_same(whole_state(first.run_dir), whole_state(whole.run_dir))


def test_a_quiet_resume_prints_nothing_and_leaves_the_configuration_alone(quick, capsys):
    from typer.testing import CliRunner

    from maze_core.cli.main import app

    context = quick("CartPole-v1", silent=False, overrides={"algorithm.n_epochs": 3})
    context.train(1)
    context.close()
    capsys.readouterr()
    before = (context.run_dir / "config.yaml").read_bytes()
    result = CliRunner().invoke(app, ["resume", str(context.run_dir), "-q"])
    assert (result.exit_code, result.output) == (0, "")
    assert (context.run_dir / "config.yaml").read_bytes() == before
    assert read_checkpoint(context.run_dir / "checkpoints" / "last").state["epoch"] == 3
