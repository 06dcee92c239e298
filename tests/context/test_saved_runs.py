"""The Python API: runs that were saved are gone on with, opened to act, and extended."""

import json
import multiprocessing
import subprocess
import sys

import pytest
import torch
from maze_devkit.envs import SeededWalk
from typer.testing import CliRunner

from maze_core import RunContext
from maze_core.base.errors import ConfigError, RunError
from maze_core.cli.main import app
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.context.parts import Encoder


def test_a_saved_run_is_opened_again(quick):
    context = quick("CartPole-v1")
    context.train(1)
    context.close()
    with RunContext.reopen(context.run_dir, {"algorithm.n_epochs": 3, "callbacks.console": None}) as again:
        assert again.run.epoch == 1
        assert again.run_dir == context.run_dir
        assert again.train().epochs == 3
        assert again.evaluate()["eval/episodes"] == 1


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

    context = quick("CartPole-v1", silent=False, overrides={"algorithm.n_epochs": 3})
    context.train(1)
    context.close()
    capsys.readouterr()
    before = (context.run_dir / "config.yaml").read_bytes()
    result = CliRunner().invoke(app, ["resume", str(context.run_dir), "-q"])
    assert (result.exit_code, result.output) == (0, "")
    assert (context.run_dir / "config.yaml").read_bytes() == before
    assert read_checkpoint(context.run_dir / "checkpoints" / "last").state["epoch"] == 3


LOCAL = {"runner": {"name": "local", "workers": 2}}
SINGLE = {"name": "gymnasium", "id": "CartPole-v1", "vectorization": "single"}
"""The runner of processes, which a script without a guard of its main module cannot start."""


@pytest.mark.parametrize("memory", ["none", "gru"])
@pytest.mark.parametrize("vectorization", ["native", "single"])
def test_no_worker_starts_to_act(quick, vectorization, memory):
    """Not for any way to act; the environments of evaluations are built by the first one."""
    trained = quick({**SINGLE, "vectorization": vectorization}, overrides={"model.memory": memory})
    trained.train(1)
    trained.close()
    with RunContext.open(trained.run_dir, overrides=LOCAL) as context:
        here = context.make_env()
        observation, _ = here.reset(seed=1)
        agent = context.agent()
        agent.reset()
        assert here.action_space.contains(agent.act(observation))
        if memory == "none":
            assert here.action_space.contains(context.compute_action(observation))
        assert len(context.rollout(2, seed=1)) == 2
        assert context.policy is context.run.policy
        assert multiprocessing.active_children() == []
    here.close()


def test_workers_start_to_evaluate_and_end_with_the_context(quick):
    trained = quick(SINGLE, overrides={"evaluation.n_episodes": 2})
    expected = trained.train(1).final_evaluation["eval/return_mean"]
    trained.close()
    context = RunContext.open(trained.run_dir, "last", LOCAL)
    assert multiprocessing.active_children() == []
    assert context.evaluate()["eval/return_mean"] == expected
    assert len(multiprocessing.active_children()) == 2
    context.close()
    context.close()
    assert multiprocessing.active_children() == []
    with pytest.raises(RunError, match="closed"):
        context.evaluate()
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_a_script_without_a_guard_acts(quick, tmp_path):
    trained = quick(SINGLE)
    trained.train(1)
    trained.close()
    script = tmp_path / "act.py"
    script.write_text(
        "from maze_core import RunContext\n"
        f"with RunContext.open({str(trained.run_dir)!r}, overrides={LOCAL}) as context:\n"
        "    observation, _ = context.make_env().reset(seed=1)\n"
        "    print(context.agent().act(observation) == context.compute_action(observation))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@pytest.mark.parametrize("way", ["auto", "classic", "of a file", "none"])
def test_the_name_of_the_preset_is_recorded_and_kept(quick, tmp_path, way):
    file = tmp_path / "named.yaml"
    file.write_text("preset: classic\n")
    named = {"of a file": {"config": file, "preset": "auto"}}.get(way, {"preset": way})
    context = quick("CartPole-v1", **named)
    wanted = {"auto": "CartPole-v1", "none": None}.get(way, "classic")
    assert preset_of(context.run_dir) == context.run.preset == wanted
    context.train(1)
    context.close()
    again = RunContext.reopen(context.run_dir, {"algorithm.n_epochs": 3, "callbacks.console": None})
    assert again.run.preset == wanted
    again.train(1)
    again.close()
    assert preset_of(context.run_dir) == wanted


def preset_of(run_dir):
    return json.loads((run_dir / "run.json").read_text())["preset"]
