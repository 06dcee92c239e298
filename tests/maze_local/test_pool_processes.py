"""The pool of the runner `local`: answers, parameters, large results, and workers that die, fail or hang."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from maze_local import processes
from maze_local.process_pool import ProcessPool
from maze_local.processes import LARGEST_MESSAGE
from maze_local.result_transfer import LARGE, Packer, Unpacker
from maze_local.runner import LocalConfig, LocalRunner

from maze_core.base.errors import ConfigError, RunError
from tests.runners.pool_contract import Answers, JobContract, PoolContract, collect_all
from tests.sockets import alive
from tests.spoilt import SPOILT_BYTES, write_everywhere


class Writes(Answers):
    """Writes the job everywhere."""

    def run(self, job, shared):
        write_everywhere(job)
        time.sleep(5)


@contextmanager
def starting():
    """`start(count, task, **options)`: a pool; afterwards none of its processes is left."""
    before = set(multiprocessing.active_children())
    with ExitStack() as stack:

        def start(count=2, task=None, **options):
            pool = ProcessPool(task or Answers(), count, **options)
            stack.callback(pool.close)
            return pool

        yield start
    assert set(multiprocessing.active_children()) <= before


@pytest.fixture
def start():
    with starting() as start:
        yield start


@pytest.fixture(scope="module")
def pool():
    """For tests that do no harm to it."""
    with starting() as start:
        yield start(2)


class TestJobs(JobContract):
    """Workers in processes of this machine."""


class TestPools(PoolContract):
    """Pools of them."""


def test_blocks_are_used_again_once_emptied():
    packer, unpacker = Packer(), Unpacker()
    blocks = set()
    for step in range(20):
        parcel = packer.pack([np.full(LARGE + step, step, np.uint8)])
        blocks.add(parcel.block)
        assert np.all(unpacker.unpack(parcel)[0] == step)
        assert not _shared(parcel.block).exists()  # nothing to leave behind
        packer.release(unpacker.emptied())
    assert len(blocks) == 1
    first, second = packer.pack(np.zeros(LARGE)), packer.pack(np.ones(LARGE))  # none emptied in between
    assert np.all(unpacker.unpack(first) == 0)
    assert np.all(unpacker.unpack(second) == 1)
    packer.close()
    unpacker.close()


def test_without_room_in_shared_memory_results_take_the_pipe(monkeypatch):
    monkeypatch.setattr("maze_local.result_transfer.has_room", lambda size: False)
    parcel = Packer().pack(np.ones(LARGE))
    assert parcel.slot == -1
    assert np.all(Unpacker().unpack(parcel) == 1)


def test_results_too_large_for_both_say_so(monkeypatch):
    monkeypatch.setattr("maze_local.result_transfer.has_room", lambda size: False)
    with pytest.raises(RunError, match=r"no room for what a worker sends \(\d+ MB\): enlarge /dev/shm"):
        Packer().pack(np.empty(LARGEST_MESSAGE, np.uint8))


@pytest.mark.parametrize("name", SPOILT_BYTES)
def test_an_environment_that_writes_into_descriptors_of_its_process(start, monkeypatch, name):
    monkeypatch.setattr("maze_local.processes._SILENCE", 1)
    pool = start(1, Writes())
    pool.submit(SPOILT_BYTES[name])
    with pytest.raises(RunError, match="writes into file descriptors"):
        collect_all(pool)


def test_parameters_keep_their_shapes(start):
    pool = start(1)
    pool.share({"weight": np.ones((2, 2), np.float32)})
    with pytest.raises(ValueError, match="differ"):
        pool.share({"weight": np.ones(3, np.float32)})


def test_parameters_are_never_torn(start):
    """Each version has one value throughout; a mixture of two would show."""
    pool = start(2)
    size = 200_000
    for version in range(1, 400):
        pool.share({name: np.full(size, version, np.float32) for name in "ab"})
        if version % 4 == 0:
            pool.submit(("constant", None))
    for result in collect_all(pool):
        version, values = result.value
        assert values == [[float(version)]] * 2


def test_a_pool_after_torch_ran(start):
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        (torch.rand(400, 400) @ torch.rand(400, 400)).sum()
        pool = start(2)
        for worker in (0, 1):
            pool.submit(("threads", None), worker)
        assert [result.value for result in collect_all(pool)] == [(1, "1")] * 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_workers_are_forked_from_a_process_with_a_single_thread(start):
    """A fork while other threads run can deadlock. The fork server has imported torch and done nothing else."""
    pool = start(2)
    server = Path(f"/proc/{pool.pids[0]}/stat").read_text().rsplit(")", 1)[1].split()[1]
    assert int(server) != os.getpid()
    assert "\nThreads:\t1\n" in Path(f"/proc/{server}/status").read_text()


def test_what_workers_need_is_imported_before_they_start():
    """The fork server passes over a module that is not there without a word."""
    assert all(find_spec(name) for name in processes._PRELOADED if name != "__main__")


def test_a_task_that_cannot_be_sent_says_so(start):
    task = Answers()
    task.ready_object = lambda: None
    with pytest.raises(ConfigError, match="--runner dev"):
        start(1, task)


@pytest.mark.filterwarnings("ignore:worker")
def test_death_is_noticed_at_once_and_the_unfinished_job_is_given_again(start, tmp_path):
    pool = start(1)
    pool.submit(("die once", str(tmp_path / "died")), worker=0)
    pool.submit(("square", 3))
    with pytest.warns(RuntimeWarning, match=r"worker 0 .* died .*SIGKILL.*1 of at most 10 restarts"):
        first = pool.collect()
    assert (first.job, first.value) == (0, "survived")
    assert pool.collect().value == 9


@pytest.mark.filterwarnings("ignore:worker")
def test_restarts_are_bounded(start):
    pool = start(2, max_restarts=2)
    pool.submit(("exit", 3))
    began = time.monotonic()
    with pytest.raises(RunError, match=r"died with exit code 3; no further restart \(runner.max_restarts is 2\)"):
        pool.collect()
    assert pool.restarts == 2
    assert time.monotonic() - began < 30


def test_without_restarts_a_death_is_an_error_within_two_seconds(start):
    pool = start(2, max_restarts=0)
    pool.submit(("who", 60.0), worker=1)
    threading.Timer(0.3, os.kill, (pool.pids[1], signal.SIGKILL)).start()
    began = time.monotonic()
    with pytest.raises(RunError, match=r"worker 1 .*SIGKILL"):
        pool.collect()
    assert time.monotonic() - began < 2


def test_a_driver_that_looks_late_does_not_take_finished_work_for_a_hang(start):
    pool = start(1, job_timeout=5.0)
    pool.job_timeout = 0.5
    jobs = [pool.submit(("who", 0.01)) for _ in range(2)]
    time.sleep(1.0)
    assert [pool.collect().job for _ in jobs] == jobs


def test_the_runner_gives_its_configuration_to_the_pool():
    config = LocalConfig(name="local", max_restarts=3, job_timeout=20.0, start_method="spawn")
    pool = LocalRunner(config).workers(Answers(), 1)
    try:
        assert (pool._max_restarts, pool.job_timeout, pool._context.get_start_method()) == (3, 20.0, "spawn")
        pool.submit(("square", 4))
        assert pool.collect().value == 16
    finally:
        pool.close()
        pool.close()


def test_closing_ends_workers_at_work(start):
    pool = start(2)
    for _ in range(2):
        pool.submit(("who", 60.0))
    victims = pool.pids
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < 3
    assert not leftovers(victims)


SCRIPT = """
import os, sys, time
from tests.maze_local.test_processes import SEEDS, walk
from tests.process_envs import process_envs
from tests.runners.pool_contract import Answers
from maze_local.process_pool import ProcessPool
import numpy as np

if __name__ == "__main__":
    pool = ProcessPool(Answers(), 2)
    pool.share({"w": np.zeros(1000)})
    pool.submit(("array", 100_000))
    pool.collect()
    pool.submit(("who", 60.0))
    env = process_envs(walk, 1, 1)
    env.reset(SEEDS, {"observation": np.zeros((1, *env.observation_space.shape), np.float32)})
    print(*pool.pids, *env.workers.pids, pool._parameters.name, env._steps.block, flush=True)
    END
"""


@pytest.mark.parametrize("end", ["time.sleep(60)", pytest.param("sys.exit(0)", marks=pytest.mark.slow)])
def test_no_process_outlives_the_driver_however_it_ends(tmp_path, end):
    script = tmp_path / "driver.py"
    script.write_text(SCRIPT.replace("END", end))
    root = Path(__file__).parents[2]
    driver = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    *workers, parameters, steps = driver.stdout.readline().split()
    workers = [int(pid) for pid in workers]
    assert len(workers) == 3
    if "sleep" in end:
        assert _shared(parameters).exists()
        assert _shared(steps).exists()
        driver.kill()
    driver.wait()
    driver.stdout.close()
    assert not leftovers(workers, patience=5.0)
    deadline = time.monotonic() + 5.0
    while (_shared(parameters).exists() or _shared(steps).exists()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _shared(parameters).exists()
    assert not _shared(steps).exists()


WHOLE_GROUP = """
import os, signal, time, warnings
from tests.runners.pool_contract import Answers
from maze_local.process_pool import ProcessPool

if __name__ == "__main__":
    signals = []
    signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    pool = ProcessPool(Answers(), 2)
    pids = pool.pids
    os.killpg(0, signal.SIGTERM)
    time.sleep(0.5)
    pool.submit_each([("square", 2), ("square", 3)])
    assert sorted(pool.collect().value for _ in range(2)) == [4, 9]
    assert (signals, pool.pids, pool.restarts) == ([signal.SIGTERM], pids, 0)
    os.kill(pids[0], signal.SIGKILL)  # only the fork server can replace it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pool.submit(("square", 4), worker=0)
        assert pool.collect().value == 16
    print(pool.restarts)
"""


def test_a_termination_of_all_processes_is_the_drivers_business(tmp_path):
    """As when a batch system ends a job: the driver still needs its workers to end well."""
    script = tmp_path / "driver.py"
    script.write_text(WHOLE_GROUP)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, script],
        env=environment,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def leftovers(workers, patience=2.0):
    """The processes still alive after a while."""
    deadline = time.monotonic() + patience
    while (left := [pid for pid in workers if alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def _shared(name):
    return Path("/dev/shm", name)


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_no_folder(tmp_path):
    program = """
        import time
        from maze_local.process_pool import ProcessPool
        from tests.runners.pool_contract import Answers
        if __name__ == "__main__":
            pool = ProcessPool(Answers(), 1)
            pool.submit(("square", 1))
            print(pool.collect().job, flush=True)
            time.sleep(600)
    """
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    root = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory(prefix="m") as folder:  # the path of `tmp_path` may be too long for a socket
        temporary = Path(folder)
        environment = {**os.environ, "TMPDIR": folder}
        environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
        with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE) as driver:
            assert driver.stdout is not None
            assert driver.stdout.readline() == b"0\n"  # the worker has begun
            assert any(temporary.iterdir())
            driver.kill()
        deadline = time.monotonic() + 60
        while any(temporary.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(temporary.iterdir())


def test_a_path_too_long_for_a_socket_is_named(tmp_path, monkeypatch):
    long = tmp_path / ("long" * 30)
    monkeypatch.setattr("maze_local.processes.util.get_temp_dir", lambda: str(long / "pymp-12345678"))
    with pytest.raises(ConfigError, match=r"(?s)TMPDIR.*longlong.*too long.*/tmp"):
        ProcessPool(Answers(), 1)


@pytest.mark.parametrize(
    ("file", "said"), [("<stdin>", "read from standard input"), ("/gone/script.py", "is not there")]
)
def test_a_script_that_workers_cannot_import_is_named(monkeypatch, file, said):
    main = ModuleType("__main__")
    main.__file__, main.__spec__ = file, None
    monkeypatch.setitem(sys.modules, "__main__", main)
    with pytest.raises(ConfigError, match=rf"^runner\.name: .*{said}\n.*Save it in a file"):
        ProcessPool(Answers(), 1)


@pytest.mark.parametrize("limit", [1e7, 1e300])
def test_time_limits_longer_than_the_system_can_wait(limit):
    with starting() as start:
        pool = start(1, job_timeout=limit)
        job = pool.submit(("who", 0.0))
        assert pool.collect().job == job
