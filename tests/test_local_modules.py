"""The current folder: its modules are found behind all others, and nothing else in it is imported."""

import os
import subprocess
import sys

import pytest

WALK = """
import gymnasium
from maze_devkit.envs import SeededWalk
gymnasium.register("Walk-v0", SeededWalk)
"""
GROUPS = ["gymnasium.envs", "torch.backends", "tensorboard_plugins", "maze.hints"]
GROUPS += [f"maze.{kind}s" for kind in ("algorithm", "env", "wrapper", "model", "runner", "callback")]
TRAIN = ["train", "ppo", "--env", "mine:Walk-v0", "--run-dir", "run", "-q", "--preset", "none", "--epochs", "1"]
TRAIN += ["--num-envs", "2"]
for _value in ("epoch_length=1", "n_rollout_steps=4"):
    TRAIN += ["--set", f"algorithm.{_value}"]
TRAIN += ["--set", "evaluation.n_episodes=1", "--set", "callbacks.tensorboard=null"]


def python(folder, *arguments, safe=True):
    """`safe`: without the current folder at the head of the path, as the command `maze` has it."""
    command = [sys.executable, *(["-P"] if safe else []), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)


@pytest.fixture
def trap(tmp_path):
    """A folder with a module of one's own, and a distribution that was unpacked there."""
    (tmp_path / "mine.py").write_text(WALK)
    (tmp_path / "unpacked.py").write_text("open('executed', 'w')\nclass Wrap: pass\n")
    info = tmp_path / "unpacked-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unpacked\nVersion: 1.0\n")
    points = "".join(
        f"[{group}]\nshout = unpacked:Wrap\nppo = unpacked:Wrap\ndev = unpacked:Wrap\n" for group in GROUPS
    )
    (info / "entry_points.txt").write_text(points)
    return tmp_path


def test_a_distribution_in_the_current_folder_is_not_imported(trap):
    """The trap would clash with `ppo` and `dev`, too; workers find the module and not the distribution."""
    for command in ([*TRAIN, "--runner", "local", "--set", "runner.workers=1"], ["eval", "run", "--runner", "dev"]):
        result = python(trap, "-m", "maze_core.cli.main", *command, safe=False)
        assert result.returncode == 0, result.stderr
    unknown = python(trap, "-m", "maze_core.cli.main", "train", "ppo", "--env", "x", "--wrappers", "shout")
    assert unknown.returncode == 2
    assert "unknown wrapper 'shout'" in unknown.stderr
    assert not (trap / "executed").exists()


def test_the_current_folder_shadows_nothing(tmp_path):
    for name in ("json", "yaml", "torch", "gymnasium", "numpy", "maze_ppo", "resource"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    (tmp_path / "mine.py").write_text(WALK)
    result = python(tmp_path, "-m", "maze_core.cli.main", "envs", "check", "mine:Walk-v0")
    assert "shadowed" not in result.stderr
    assert "observation space" in result.stdout, result.stderr


def test_packages_and_namespaces_are_found(tmp_path):
    (tmp_path / "package" / "inner").mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "inner" / "deep.py").write_text("VALUE = 3\n")
    (tmp_path / "spread").mkdir()
    (tmp_path / "spread" / "part.py").write_text("VALUE = 4\n")
    code = "from maze_core.local_modules import allow_local_modules as a; a(); a()\n"
    code += "from package.inner.deep import VALUE as v; from spread.part import VALUE as w; print(v + w)"
    assert python(tmp_path, "-c", code).stdout == "7\n"
