"""What goes wrong: environments that raise, workers that die or starve, interruptions; and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from maze_devkit.envs import FailingEnv, SeededWalk

from maze_core.base.errors import ConfigError, RunError

pytestmark = pytest.mark.slow  # each run starts RLlib

LOCAL = {"runner": {"name": "local", "workers": 1}}

SCRIPT = """
import sys
from maze_core.run.context import RunContext
from maze_devkit.envs import SeededWalk

small = {"algorithm.train_batch_size_per_learner": 256, "algorithm.num_epochs": 1, "evaluation.n_episodes": 1}
with RunContext(env=SeededWalk, algorithm="rllib-ppo", seed=1, run_dir=sys.argv[1], silent=True,
                overrides=small) as context:
    try:
        context.train(n_epochs=10_000)
    except KeyboardInterrupt:
        print("ended", context.run.summary.outcome, flush=True)
"""


def raising():
    """An environment that fails at its third step."""
    return FailingEnv("raise")


def exiting():
    """An environment that ends its process, where that is a worker of Ray."""
    import ray  # half a second for each process that collects the tests

    return FailingEnv("exit" if ray.is_initialized() else "", at=5)


def test_an_environment_that_raises_ends_the_run(small):
    with pytest.raises(RunError, match=r"environment 0 .*ZeroDivisionError: the wheel came off") as caught:
        small("rllib-ppo", raising).train()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_environment_that_raises_in_a_worker_ends_the_run_with_its_own_traceback(small):
    context = small("rllib-impala", raising, **LOCAL)
    trainer = context.run.algorithm._opened()  # so that only the failure is timed
    assert trainer is not None
    started = time.monotonic()
    with pytest.raises(RunError, match="ZeroDivisionError: the wheel came off") as caught:
        context.train()
    assert time.monotonic() - started < 10
    notes = "\n".join(caught.value.__notes__)
    assert "In the worker process" in notes
    assert "raise ZeroDivisionError" in notes
    assert "Nothing learnt had been saved" in notes


def test_a_worker_that_dies_ends_the_run(small):
    with pytest.raises(RunError, match="a worker of RLlib died"):
        small("rllib-ppo", exiting, **LOCAL).train()


def test_workers_that_starve_end_the_run(small, monkeypatch):
    context = small("rllib-impala", SeededWalk, {"algorithm.watchdog_seconds": 0.5})
    trainer = context.run.algorithm._opened()
    monkeypatch.setattr(trainer._algorithm, "train", lambda: {"env_runners": {}, "learners": {}})
    with pytest.raises(RunError, match=r"sampled nothing for .*watchdog_seconds"):
        context.train()


def test_a_learner_that_does_not_learn_ends_the_run(small, monkeypatch):
    context = small("rllib-impala", SeededWalk, {"algorithm.watchdog_seconds": 0.5})
    trainer = context.run.algorithm._opened()
    steps = iter(range(1, 10**9))
    monkeypatch.setattr(
        trainer._algorithm, "train", lambda: {"env_runners": {"num_env_steps_sampled_lifetime": next(steps)}}
    )
    with pytest.raises(RunError, match=r"learned nothing for .*watchdog_seconds"):
        context.train()


def test_a_loss_that_is_not_finite_ends_the_run(small, monkeypatch):
    context = small("rllib-ppo", SeededWalk)
    context.run.algorithm._opened()
    monkeypatch.setattr("maze_rllib.trainer.losses", lambda learner: {"loss/total": float("nan"), "loss/policy": 1.0})
    with pytest.raises(RunError, match="not finite: loss/total"):
        context.train()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"runner.name": "dev", "model.critic": "none"}, "needs a critic"),
        ({"algorithm.minibatch_size": 100_000}, "RLlib rejects the configuration"),
        ({"model.normalize_observations": True}, "normaliser"),
    ],
)
def test_a_wrong_configuration_is_refused(small, overrides, words):
    with pytest.raises(ConfigError, match=words):
        small("rllib-ppo", SeededWalk, overrides).train()


def offspring(root):
    """The processes below one, as far as they have not been given up by their parents."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found, fresh = set(), {root}
    while fresh:
        fresh = {pid for pid, parent in parents.items() if parent in fresh}
        found |= fresh
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_no_process_is_left(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    seen = set()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as driver:
        deadline = time.monotonic() + 90
        while driver.poll() is None and time.monotonic() < deadline:
            seen |= offspring(driver.pid)
            if (tmp_path / "run" / "checkpoints" / "previous").exists():
                driver.send_signal(signal.SIGTERM)
                break
            time.sleep(0.1)
        output, errors = driver.communicate(timeout=60)
    assert "ended interrupted" in output, errors
    assert len(seen) > 3
    deadline = time.monotonic() + 10
    while (alive := [pid for pid in seen if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive
