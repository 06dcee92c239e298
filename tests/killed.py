"""Runs that kill -9 ends, at a checkpoint or at any moment, for tests of what resumes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.forked import ROOT, Forked

SMALL = {
    "algorithm.num_envs": 2,
    "algorithm.n_rollout_steps": 8,
    "algorithm.epoch_length": 1,
    "algorithm.n_optimization_epochs": 2,
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
from maze_core.run.saving import Saving

when, epoch, store = sys.argv.pop(1), int(sys.argv.pop(1)), Saving.store

def dying(saving, name):
    if name == "last" and saving.saved_epoch == epoch - 1 and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    folder = store(saving, name)
    if name == "last" and saving.saved_epoch == epoch:
        os.kill(os.getpid(), signal.SIGKILL)
    return folder

Saving.store = dying
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
    process = Forked([when, epoch, *words], Path.cwd(), os.environ, _SCRIPT)
    output = process.communicate(240)
    assert process.returncode == -9, output


_CONTEXT = """
import importlib, json, sys
from maze_core import RunContext
from tests.forked import stand_by

stand_by()
algorithm, env, run_dir, how = sys.argv[1:5]
overrides, parts = json.loads(sys.argv[5]), json.loads(sys.argv[6])
module, _, name = env.partition(":")
env = getattr(importlib.import_module(module), name)
parts |= {"preset": "none", "seed": 1, "silent": True, "run_dir": run_dir}
with RunContext(env, algorithm, overrides=overrides, **parts) as context:
    context.resume(run_dir) if how == "resume" else context.train()
"""


def start(
    algorithm: str, env: type, run_dir: Path, values: Mapping[str, Any], *, resume: bool = False, **parts: Any
) -> Forked:
    """Train or resume a run of this environment class in a process of its own; `parts` are those of `RunContext`."""
    named = f"{env.__module__}:{env.__qualname__}", str(run_dir), "resume" if resume else "train"
    return Forked([algorithm, *named, json.dumps(values), json.dumps(parts)], ROOT, os.environ, _CONTEXT)


def wait_for(process: Any, run_dir: Path, epochs: int) -> None:
    """Wait until a run, a `Popen` or a `Forked`, has logged so many epochs and can be resumed."""
    log, last, deadline = run_dir / "metrics.jsonl", run_dir / "checkpoints" / "last", time.monotonic() + 240
    while not (last.exists() and (not epochs or (log.exists() and len(log.read_bytes().splitlines()) >= epochs))):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def kill_after(process: Any, run_dir: Path, epochs: int, pause: float = 0.0) -> None:
    """Send kill -9 to a run, some seconds after it has logged so many epochs."""
    wait_for(process, run_dir, epochs)
    time.sleep(pause)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it had ended before"
