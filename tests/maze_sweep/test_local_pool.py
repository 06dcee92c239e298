"""Jobs in real processes: they train, fail, die, save themselves when asked to, and never outlive the sweep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from maze_compare.records import read_run
from maze_sweep.execute import execute
from maze_sweep.local_pool import LocalSweepPool
from maze_sweep.pool import SweepJob, open_pool

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble, load_run_config
from maze_core.run import api
from tests.sockets import alive

ROOT = Path(__file__).resolve().parents[2]
QUICK = {
    "algorithm.n_rollout_steps": 8,
    "algorithm.epoch_length": 2,
    "algorithm.n_epochs": 2,
    "evaluation.n_episodes": 1,
    "algorithm.num_envs": 2,
    "callbacks.tensorboard": None,
    "seed": 0,
}


def job(folder: Path, name: str, env: str = "CartPole-v1", **changes) -> SweepJob:
    config = assemble("ppo", env, "none", flags={**QUICK, **changes}).model_dump(mode="json")
    here = str(Path(__file__).parent)
    return SweepJob(name, str(folder / name), str(folder / "logs" / f"{name}.log"), config, search_path=(here,))


def collect(pool, count, timeout=90.0):
    ends, deadline = [], time.monotonic() + timeout
    while len(ends) < count and time.monotonic() < deadline:
        ends += pool.ended(1.0)
    return {end.name: end for end in ends}


def wait_for(path: Path, timeout=60.0):
    """Wait until the file has content: it is created before its first line is written."""
    deadline = time.monotonic() + timeout
    while not path.exists() or not path.stat().st_size:
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.05)


ENDLESS = {"algorithm.n_epochs": 0, "callbacks.early_stopping.patience": 0}


def test_how_jobs_end(tmp_path):
    with closing(LocalSweepPool(6)) as pool:
        pool.start(job(tmp_path, "good"))
        pool.start(job(tmp_path, "bad", env="sweep_envs:Breaks-v0"))
        pool.start(job(tmp_path, "dying", env="sweep_envs:Dies-v0"))
        pool.start(job(tmp_path, "asked", **ENDLESS))
        pool.start(_ruled(job(tmp_path, "ruled")))
        pool.start(job(tmp_path, "left", **ENDLESS))
        wait_for(tmp_path / "asked" / "metrics.jsonl")
        pool.interrupt("asked")
        pool.interrupt("asked")  # twice is as good as once
        ends = collect(pool, 5)
        left = pool.pids["left"]
        os.kill(left, 0)
    assert not alive(left)
    assert ends.pop("ruled").outcome == "finished"
    assert {name: end.outcome for name, end in ends.items()} == {
        "good": "finished", "bad": "failed", "dying": "killed", "asked": "interrupted"
    }  # fmt: skip
    assert "exit code -9 (SIGKILL)" in ends["dying"].reason
    assert "out of luck" in ends["bad"].reason
    assert (tmp_path / "asked" / "checkpoints" / "last").is_dir()
    states = {name: read_run(tmp_path / name).state for name in ("good", "dying", "asked")}
    assert states == {"good": "finished", "dying": "killed", "asked": "interrupted"}
    assert not (tmp_path / "bad").exists()  # it has learnt nothing
    log = (tmp_path / "logs" / "bad.log").read_text()
    assert "error: " in log
    assert "sweep_envs.py" in log  # the traceback leads to the user's own code
    assert "finished" in (tmp_path / "logs" / "good.log").read_text()


def _ruled(like: SweepJob) -> SweepJob:
    """Return a job whose first steps are those of a policy class that the user has named."""
    name = "sweep_envs:First"
    flags = {"steps": 40, "algorithm.initial_sampling_policy": name, "algorithm.initial_buffer_size": 20}
    config = assemble("dqn", "CartPole-v1", "none", flags={**flags, "evaluation.n_episodes": 1, "seed": 0})
    return replace(like, config=config.model_dump(mode="json"), classes=(name,))


def test_a_killed_job_ends_as_if_it_had_not_been(tmp_path, whole_state, assert_same):
    """Broken off twice: in the middle, and before its first checkpoint."""
    one, other = (
        job(tmp_path, "killed", **{"algorithm.n_epochs": 30}),
        job(tmp_path, "whole", **{"algorithm.n_epochs": 30}),
    )
    Path(one.run_dir).mkdir()
    (Path(one.run_dir) / "config.yaml").write_text("half of")
    with closing(LocalSweepPool(2)) as pool:
        pool.start(one)
        wait_for(Path(one.run_dir) / "metrics.jsonl")
        os.kill(pool.pids["killed"], signal.SIGKILL)
        assert collect(pool, 1)["killed"].outcome == "killed"
        lines = len((Path(one.run_dir) / "metrics.jsonl").read_text().splitlines())
        pool.start(one)
        pool.start(other)
        assert {end.outcome for end in collect(pool, 2).values()} == {"finished"}
    assert 0 < lines < 30
    assert "resumed after epoch" in Path(one.log).read_text()
    assert_same(whole_state(Path(one.run_dir)), whole_state(Path(other.run_dir)))


DRIVER = """
import sys, time
from contextlib import closing
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_local_pool import ENDLESS, LocalSweepPool, job, wait_for
if __name__ == "__main__":
    with closing(LocalSweepPool(1)) as pool:
        pool.start(job(Path({folder!r}), "endless", **ENDLESS))
        wait_for(Path({folder!r}) / "endless" / "metrics.jsonl")
        print(pool.pids["endless"], flush=True)
        time.sleep(60)
"""


@pytest.mark.slow
def test_no_process_outlives_the_sweep(tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER.format(tests=str(Path(__file__).parent), folder=str(tmp_path)))
    driver = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    child = int(driver.stdout.readline())
    os.kill(child, 0)
    driver.kill()
    driver.wait(30)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{child}").exists()


def test_a_job_is_the_run_that_training_here_would_be(tmp_path, whole_state, assert_same):
    each = job(tmp_path, "job")
    with closing(LocalSweepPool(1)) as pool:
        pool.start(each)
        assert collect(pool, 1)["job"].outcome == "finished"
    api.train(load_run_config(each.config), tmp_path / "here")
    assert_same(whole_state(tmp_path / "job"), whole_state(tmp_path / "here"))


def test_a_runner_that_cannot_spread_a_sweep_says_so():
    with pytest.raises(ConfigError, match=r"(?s)runner dev cannot run a sweep.*--runner local"):
        open_pool(discovery.load("runner", "dev").Config(name="dev"), 2)


def test_jobs_are_plain_data(tmp_path):
    each = job(tmp_path, "a")
    assert json.loads(json.dumps(each.config)) == each.config


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda log: log.symlink_to("elsewhere")])
def test_a_log_that_is_no_file_ends_the_run_in_one_sentence(tmp_path, capfd, make):
    make(log := tmp_path / "log")
    end = execute(SweepJob("t000-s0", str(tmp_path / "run"), str(log), {}))
    assert end.outcome == "failed"
    assert end.reason.startswith(f"{log} cannot be written: ")
    assert "Traceback" not in capfd.readouterr().err
    assert not (tmp_path / "elsewhere").exists()
