"""The options of an algorithm in commands that are not its own: sweep, profile and resume."""

import json

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.cli.options import without_flags

OWN = {"--env": True, "--set": True, "-c": True, "--quiet": False, "-q": False, "--seeds": True}


@pytest.mark.parametrize(
    ("typed", "others", "flags"),
    [
        ("ppo --env E --lr 1e-3", "ppo --env E", "lr=0.001"),
        ("--env E ppo --num-envs=4 -q", "--env E ppo -q", "num_envs=4"),
        ("dqn --double --no-dueling", "dqn", "double=true dueling=false"),
        ("ppo --lr-schedule linear", "ppo", 'lr_schedule="linear"'),
        ("sac --critic-hidden 64,32", "sac", "critic_hidden=[64,32]"),
        ("impala --vtrace-clip-rho-threshold none", "impala", "vtrace_clip_rho_threshold=null"),
        ("ppo --env --lr", "ppo --env --lr", ""),
        ("ppo --no-such-flag 3", "ppo --no-such-flag 3", ""),
        ("ppo --lr", "ppo --lr", ""),
        ("--env E --lr 1", "--env E --lr 1", ""),
        ("none-such --lr 1", "none-such --lr 1", ""),
        ("ppo -- --lr 1", "ppo -- --lr 1", ""),
        ("-c ppo --lr 1", "-c ppo --lr 1", ""),
    ],
)
def test_what_is_typed_is_what_set_says(typed, others, flags):
    left, flagged = without_flags(typed.split(), OWN)
    assert left == others.split()
    assert [each.replace(" ", "") for each in flagged] == [f"algorithm.{each}" for each in flags.split()]


def test_a_run_knows_its_algorithm(tmp_path):
    (tmp_path / "config.yaml").write_text("algorithm:\n  name: sac\n")
    typed = [str(tmp_path), "--batch-size", "8"]
    assert without_flags(typed, OWN) == ([str(tmp_path)], ["algorithm.batch_size=8"])
    (tmp_path / "config.yaml").write_text("algorithm: [")
    assert without_flags(typed, OWN) == (typed, [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("sweep ppo --env CartPole-v1 --over algorithm.lr=1 --epoch-length 0", "algorithm.epoch_length"),
        ("profile ppo --env CartPole-v1 --num-envs none", "algorithm.num_envs"),
        ("profile ppo --env CartPole-v1 --nmu-envs 4", "there is no such option"),
        ("profile ppo --env CartPole-v1 --num-envs 4 --set algorithm.num_envs=2", "algorithm.num_envs: is set twice"),
    ],
)
def test_wrong_ones_are_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments.split(), env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_profile_and_a_resumed_run_take_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def maze(line):
        result = CliRunner().invoke(app, line.split())
        assert result.exit_code == 0, result.output
        return result.stdout

    quick = "--n-rollout-steps 8 --epoch-length 1 --set evaluation.n_episodes=1"
    maze(f"train ppo --env CartPole-v1 --preset none --seed 1 --num-envs 2 --epochs 1 --run-dir run -q {quick}")
    maze("resume run --n-epochs 2 --lr 0.5 -q")
    assert "lr: 0.5" in (tmp_path / "run" / "config.yaml").read_text()
    profile = json.loads(maze(f"profile ppo --env CartPole-v1 --num-envs 3 --seconds 0.1 --json {quick}"))
    assert profile["env_steps"] % 24 == 0


@pytest.mark.parametrize("command", [["train", "ppo"], ["sweep"], ["init"], ["plugins", "new"]])
def test_a_folder_to_write_has_the_same_flag_everywhere(command):
    result = CliRunner().invoke(app, [*command, "--help"])
    assert "--dir" in result.output
