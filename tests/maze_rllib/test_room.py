"""Resources that do not exist, or are not free, end a run with what is there and what is needed."""

import sys
import time
from importlib import import_module

import pytest

pytest.importorskip("ray")

from maze_devkit.envs import SeededWalk
from maze_rllib.nodes import missing_module
from maze_rllib.room import check_exists, wait_until_free

from maze_core.base.errors import ConfigError, RunError

RUNNER = ("env runner", {"CPU": 1.0})
LEARNER = ("learner", {"CPU": 1.0, "GPU": 1.0})


@pytest.mark.parametrize(
    ("needed", "nodes", "words"),
    [
        ([RUNNER] * 3 + [LEARNER] * 2, [{"CPU": 5.0, "GPU": 2.0}], ""),
        (
            [RUNNER] * 3 + [LEARNER] * 2,
            [{"CPU": 4.0, "GPU": 2.0}],
            "runner.workers: 3 env runners and 2 learners need 5 CPUs, and the cluster has 4",
        ),
        ([RUNNER, LEARNER], [{"CPU": 5.0}], "num_gpus_per_learner: each learner needs 1 GPU, and the cluster has none"),
        (
            [LEARNER] * 3,
            [{"CPU": 9.0, "GPU": 2.0}],
            "num_gpus_per_learner: 3 learners need 3 GPUs, and the cluster has 2",
        ),
        (
            [("learner", {"GPU": 2.0})],
            [{"GPU": 1.0}, {"GPU": 1.0}],
            "num_gpus_per_learner: each learner needs 2 GPUs, and no node of the cluster has more than 1",
        ),
        (
            [("env runner", {"tpu": 1.0})],
            [{"CPU": 8.0}],
            "custom_resources_per_env_runner: each env runner needs 1 tpu, and the cluster has none",
        ),
        ([("learner", {"CPU": 16.0})], [{"CPU": 8.0}] * 4, "num_learners: each learner needs 16 CPUs, and no node"),
    ],
)
def test_more_than_there_is_is_refused(needed, nodes, words):
    if not words:
        check_exists(needed, nodes)
        return
    with pytest.raises(ConfigError, match=words) as caught:
        check_exists(needed, nodes)
    assert "\nNext: " in str(caught.value)


@pytest.mark.slow
def test_resources_that_stay_occupied_end_the_run(ray_session):
    import ray

    class Occupant:
        def is_there(self):
            return True

    cpus = int(ray.cluster_resources()["CPU"])  # another test may have started the Ray
    occupant = ray.remote(num_cpus=cpus - 1)(Occupant).remote()
    assert ray.get(occupant.is_there.remote(), timeout=60)
    wait_until_free([RUNNER], 10)
    told = rf"2 env runners need 2 CPUs, and the cluster has free 1 of {cpus} CPUs, after 1 s"
    with pytest.raises(RunError, match=told):
        wait_until_free([RUNNER] * 2, 1)
    ray.kill(occupant)
    wait_until_free([RUNNER] * cpus, 30)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "runner", "where"),
    [
        ({"algorithm.num_learners": 1, "algorithm.num_gpus_per_learner": 1}, "dev", "num_gpus_per_learner"),
        ({"algorithm.num_gpus_per_env_runner": 0.5}, "local", "num_gpus_per_env_runner"),
        ({"algorithm.num_learners": 2, "algorithm.num_gpus_per_learner": 0.5}, "ray", "num_gpus_per_learner"),
    ],
)
def test_a_gpu_that_is_nowhere_ends_the_run_in_time(small, overrides, runner, where):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    begun = time.monotonic()
    workers = {} if runner == "dev" else {"workers": 1}
    context = small("rllib-ppo", SeededWalk, overrides, runner={"name": runner, **workers})
    with pytest.raises(ConfigError, match=rf"algorithm\.{where}: each .* needs .* GPU.*, and the cluster has none"):
        context.train()
    assert time.monotonic() - begun < 60


@pytest.mark.slow
def test_a_module_that_a_node_lacks_is_named_with_the_node(ray_session, tmp_path, monkeypatch):
    import ray

    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "only_in_this_process.py"
    file.write_text("def work():\n    return 1\n")
    work = ray.remote(import_module(file.stem).work)
    file.unlink()
    try:
        with pytest.raises(ray.exceptions.RayError) as caught:
            ray.get(work.remote(), timeout=120)
        error = missing_module(caught.value)
    finally:
        del sys.modules[file.stem]
    assert error.where == "runner.code"
    assert "cannot import only_in_this_process, which the run needs" in error.message
    assert "the node " in error.message
    assert "--set runner.code=[only_in_this_process]" in error.hint
    assert missing_module(ImportError("No module named 'x'")) is None  # of this process
