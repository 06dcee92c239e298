"""Runs that kill -9 ends at a checkpoint, for tests of what resumes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SMALL = {
    "algorithm.num_envs": 2,
    "algorithm.n_rollout_steps": 8,
    "algorithm.epoch_length": 1,
    "algorithm.n_epochs": 5,
    "algorithm.lr_schedule": "constant",
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": "null",
}
STEPS = [16, 32, 48, 64, 80]
"""The environment steps at which the epochs of a run with SMALL end."""

_SCRIPT = """
import os, signal, sys
from maze_core.cli.main import app
from maze_core.run.run import Run

when, epoch, store = sys.argv.pop(1), int(sys.argv.pop(1)), Run.store

def dying(run, name):
    if name == "last" and run.epoch == epoch and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    folder = store(run, name)
    if name == "last" and run.epoch == epoch:
        os.kill(os.getpid(), signal.SIGKILL)
    return folder

Run.store = dying
app(sys.argv[1:])
"""


def arguments(run_dir: Path, values: dict[str, object]) -> list[str]:
    """Return the arguments of `maze` that train a small run."""
    sets = [part for path, value in (SMALL | values).items() for part in ("--set", f"{path}={value}")]
    return ["train", "ppo", "--env", "CartPole-v1", "--preset", "none", "--seed", "1", "--run-dir", str(run_dir), *sets]


def train_until_killed(run_dir: Path, values: dict[str, object], when: str, epoch: int = 3) -> None:
    """Train in a process that dies `before` or `after` the checkpoint of an epoch is written, before observers know."""
    maze_until_killed(arguments(run_dir, values), when, epoch)


def maze_until_killed(words: list[str], when: str, epoch: int) -> None:
    """Run `maze` with these arguments in such a process."""
    command = [sys.executable, "-c", _SCRIPT, when, str(epoch), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == -9, done.stderr
