"""What tests of resuming share: environments that a new process can name, and the whole of a run to compare."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from maze_local.pooled_envs import PooledVectorEnv

from maze_core.collect.pools.dev import DevRunner
from tests.forgetful import Forgetful
from tests.forked import Forked

MODULE = """
import gymnasium

for name in ("Workshop", "Steady", "Doors"):
    gymnasium.register(f"{name}-v0", entry_point=f"maze_devkit.probes:{name}")
gymnasium.register("Carousel-v0", entry_point="maze_devkit.turns:Carousel")
gymnasium.register("Walk-v0", entry_point="maze_devkit.envs:SeededWalk")
gymnasium.register("Failing-v0", entry_point="maze_devkit.envs:FailingEnv")
"""


@pytest.fixture
def probes(tmp_path, monkeypatch):
    """The name of a module that registers the test environments, here and in processes that `maze` starts."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "probes_of_tests.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    return "probes_of_tests"


@pytest.fixture
def maze(tmp_path):
    """`maze(*arguments, wait=True)`: the command line in a process of its own."""
    started = []

    def run(*arguments, wait=True, env=None):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **(env or {})}
        process = Forked(arguments, tmp_path, environment)
        started.append(process)
        if not wait:
            return process
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def metrics():
    """`metrics(run_dir)`: the epochs of metrics.jsonl without what depends on time."""

    def read(run_dir):
        lines = Path(run_dir, "metrics.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        return [{k: v for k, v in each.items() if k != "seconds" and not k.startswith("time/")} for each in records]

    return read


@pytest.fixture
def shared(monkeypatch):
    """`shared(workers, every=0)`: from now on `dev` collects with so many workers; every few jobs one is lost."""

    in_process = DevRunner.vector_env

    def share(workers, every=0):
        def vector_env(runner, builder, num_envs):
            if not workers or builder.purpose != "training" or builder.vector_env(num_envs) is not None:
                return in_process(runner, builder, num_envs)
            return PooledVectorEnv(builder, num_envs, workers, Forgetful)

        monkeypatch.setattr(DevRunner, "has_collectors", bool(workers))
        monkeypatch.setattr(DevRunner, "vector_env", vector_env)
        monkeypatch.setattr(Forgetful, "every", every)

    return share
