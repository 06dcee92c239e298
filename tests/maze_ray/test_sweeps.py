"""Runs of a sweep in Ray actors: how they end, as on the local pool."""

from __future__ import annotations

from contextlib import closing

import pytest
from maze_compare.records import read_run
from maze_sweep.api import run_sweep
from maze_sweep.pool import open_pool

from tests.maze_sweep.test_local_pool import ENDLESS, QUICK, collect, job, wait_for

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("local_ray")]


def test_how_jobs_end(tmp_path):
    from maze_ray.config import RayConfig

    with closing(open_pool(RayConfig(name="ray"), 4)) as pool:
        assert pool.size == 4
        pool.start(job(tmp_path, "asked", **ENDLESS))
        pool.start(job(tmp_path, "bad", env="sweep_envs:Breaks-v0"))
        pool.start(job(tmp_path, "dying", env="sweep_envs:Dies-v0"))
        wait_for(tmp_path / "asked" / "metrics.jsonl")
        pool.interrupt("asked")
        pool.interrupt("asked")  # twice is as good as once
        ends = collect(pool, 3)
        assert pool.ended(0.0) == []
    assert {name: end.outcome for name, end in ends.items()} == {
        "asked": "interrupted", "bad": "failed", "dying": "killed"
    }  # fmt: skip
    assert "out of luck" in ends["bad"].reason
    assert (tmp_path / "asked" / "checkpoints" / "last").is_dir()
    assert read_run(tmp_path / "asked").state == "interrupted"
    assert "sweep_envs.py" in (tmp_path / "logs" / "bad.log").read_text()


def test_a_sweep_spreads_over_ray(tmp_path):
    plan = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "over": {"algorithm.lr": [1e-4, 1e-3]},
        "overrides": {key: value for key, value in QUICK.items() if key != "seed"},
    }
    sweep = run_sweep(plan, tmp_path / "sweep", jobs=2, runner="ray")
    assert [run.state for run in sweep.runs] == ["finished", "finished"]
