"""Runs on machines without the sweep's disk: each goes on from copies, as it would from the folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from maze_sweep.api import run_sweep
from maze_sweep.away import bring_run
from maze_sweep.plan import make_plan
from maze_sweep.pool import JobEnd
from maze_sweep.sweep import Sweep

from tests.forked import Forked

pytest.importorskip("maze_mirror")
pytestmark = pytest.mark.slow

PLAN = {
    "algorithm": "ppo", "env": "CartPole-v1", "preset": "none", "over": {"algorithm.lr": "1e-4..1e-2:log"},
    "overrides": {
        "steps": 96, "algorithm.num_envs": 2, "algorithm.n_rollout_steps": 4, "algorithm.epoch_length": 3,
        "model.hidden": [4], "evaluation.n_episodes": 2, "callbacks.tensorboard": None,
    },
    "searcher": {"name": "pbt", "population": 2, "quantile": 0.5, "generations": 3},
}  # fmt: skip
NODE = """
import pickle, sys
from pathlib import Path
from maze_sweep.away import execute_away
job = pickle.loads(Path(sys.argv[1]).read_bytes())
end, output = execute_away(job)
Path(sys.argv[2]).write_bytes(pickle.dumps((end.outcome, end.reason, output)))
"""


class Nodes:
    """A pool of one machine, on which each job is a new process that knows nothing of the sweep's folder."""

    size = 1

    def __init__(self, folder):
        self.folder, self.jobs = folder, []

    def start(self, job):
        self.jobs.append(job)

    def ended(self, timeout):
        import pickle

        job, asked, answer = self.jobs.pop(), self.folder / "asked", self.folder / "answer"
        asked.write_bytes(pickle.dumps(job))
        process = Forked([asked, answer], Path("/"), os.environ, NODE)
        assert process.wait(240) == 0, process.communicate()
        outcome, reason, output = pickle.loads(answer.read_bytes())
        bring_run(job, output)
        return [JobEnd(job.name, outcome, reason)]

    def interrupt(self, name):
        pass

    def close(self):
        pass


def test_forks_of_copies_are_those_of_folders(tmp_path, whole_state, assert_same):
    here = run_sweep(PLAN, tmp_path / "here", jobs=2)
    overrides = {**PLAN["overrides"], "callbacks.mirror.to": f"file://{tmp_path}/store/{{run}}"}
    there = Sweep(make_plan({**PLAN, "overrides": overrides}), tmp_path / "there")
    there.check()
    there.begin()
    there.carry_out(Nodes(tmp_path), lambda sweep, end: None)
    there.close()
    assert [run.state for run in there.runs] == ["finished"] * 6
    assert [(each.parent, each.until) for each in there.trials] == [(each.parent, each.until) for each in here.trials]
    for ours, theirs in zip(here.runs, there.runs, strict=True):
        assert_same(*(whole_state(run.run_dir) for run in (ours, theirs)))
