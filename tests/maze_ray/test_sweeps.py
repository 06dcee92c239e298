"""Runs of a sweep in Ray actors: how they end, as on the local pool."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from maze_compare.records import read_run
from maze_sweep.api import run_sweep
from maze_sweep.pool import SweepJob, open_pool

from maze_core.base.errors import ConfigError
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


def away(folder):
    """The setting by which runs copy themselves, each to its own address, so that nodes need no disk in common."""
    return {"callbacks.mirror.to": f"file://{folder}/store/{{run}}"}


def test_a_sweep_whose_nodes_have_no_disk_in_common(tmp_path, whole_state, assert_same):
    """Population-based training: a node also needs the run that another one has trained."""
    plan = {
        "algorithm": "ppo",
        "env": "CartPole-v1",
        "over": {"algorithm.lr": "1e-4..1e-2:log"},
        "searcher": {"name": "pbt", "population": 2, "generations": 2},
        "seeds": [1],
        "overrides": {key: value for key, value in QUICK.items() if key != "seed"},
    }
    here = run_sweep(plan, tmp_path / "here", jobs=2, runner="local")
    plan["overrides"] = {**plan["overrides"], **away(tmp_path)}
    there = run_sweep(plan, tmp_path / "there", jobs=2, runner="ray")
    assert [run.state for run in there.runs] == ["finished"] * 4
    assert [trial.parent for trial in there.trials] == [trial.parent for trial in here.trials]
    for ours, theirs in zip(here.runs, there.runs, strict=True):
        assert_same(*(whole_state(run.run_dir) for run in (ours, theirs)))
        assert "/maze-sweep-" in theirs.log.read_text()  # its folder on its node


def test_a_run_without_a_common_disk_is_saved_and_goes_on(tmp_path, monkeypatch):
    from maze_ray.config import RayConfig

    monkeypatch.setattr("maze_ray.sweeps._LOOK", 0.2)
    endless = job(tmp_path / "runs", "asked", **ENDLESS, **away(tmp_path))
    metrics, epochs = tmp_path / "runs" / "asked" / "metrics.jsonl", [0]
    with closing(open_pool(RayConfig(name="ray"), 1)) as pool:
        for _ in range(2):
            pool.start(endless)
            while epoch_of(metrics) <= epochs[-1]:
                assert not pool.ended(0.1)
            epochs.append(epoch_of(metrics))
            pool.interrupt("asked")
            assert collect(pool, 1)["asked"].outcome == "interrupted"
            assert read_run(tmp_path / "runs" / "asked").state == "interrupted"
    lines = [json.loads(line)["epoch"] for line in metrics.read_text().splitlines()]
    assert lines == list(range(1, lines[-1] + 1))
    assert lines[-1] > epochs[1]


def epoch_of(metrics):
    """The last whole line's epoch; 0: there is none yet."""
    lines = metrics.read_bytes().rpartition(b"\n")[0].splitlines() if metrics.exists() else []
    return json.loads(lines[-1])["epoch"] if lines else 0


def test_a_run_that_is_on_no_node_cannot_be_begun_from(tmp_path):
    from maze_ray.config import RayConfig

    given = job(tmp_path / "runs", "new", **away(tmp_path))
    with closing(open_pool(RayConfig(name="ray"), 1)) as pool:
        other = SweepJob("new", given.run_dir, given.log, given.config, init_from=str(tmp_path / "elsewhere"))
        with pytest.raises(ConfigError, match=r"--init-from: .*elsewhere is not on the machines that run the sweep"):
            pool.start(other)
