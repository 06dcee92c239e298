import gc
import os
import re
import signal
import threading
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TransformAction
from maze_devkit.envs import FailingEnv, SeededWalk, SpacesEnv
from maze_local.process_pool import ProcessPool

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from tests.process_envs import process_envs
from tests.sockets import alive
from tests.spoilt import SPOILT_BYTES, write_everywhere

SEEDS = EpisodeSeeds(21, Purpose.TRAIN_EPISODES)
pytestmark = pytest.mark.timeout(60)


class ProbeEnv(gymnasium.Env):
    """Observes [OMP threads, torch threads] of the process it lives in."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        import torch

        threads = [float(os.environ["OMP_NUM_THREADS"]), float(torch.get_num_threads())]
        return np.array(threads, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


def walk(index):
    return SeededWalk()


def nested(index):
    space = gymnasium.spaces.Dict(
        {"image": gymnasium.spaces.Box(0, 255, (3, 5, 3), np.uint8), "n": gymnasium.spaces.Discrete(3, start=2)}
    )
    return SpacesEnv(space, gymnasium.spaces.Dict({"a": gymnasium.spaces.Box(-1, 2, (2,)), "b": space["n"]}))


def probe(index):
    return ProbeEnv()


class Failing:
    """Environment 1 fails in some way, the others do not."""

    def __init__(self, way):
        self.way = way

    def __call__(self, index):
        if index == 1 and self.way == "construct":
            raise OSError("no such level")
        if index == 1 and self.way == "refuse":
            raise ConfigError("no such map", where="env.map")
        if index == 1 and self.way == "exit at start":
            FailingEnv("exit", at=1).step(0)
        return FailingEnv(self.way) if index == 1 else SeededWalk()


class Writing:
    """The environment writes these bytes into all descriptors at each step."""

    def __init__(self, content):
        self.content = content

    def __call__(self, index):
        return TransformAction(SeededWalk(), self._written, SeededWalk().action_space)

    def _written(self, action):
        write_everywhere(self.content)
        return action


@pytest.fixture
def start():
    envs = []

    def start(make, n=3, workers=2, **arguments):
        env = process_envs(make, n, workers, **arguments)
        envs.append(env)
        out = allocate(space_specs(env.observation_space, "observation"), (n,))
        env.reset(SEEDS, out)
        return env, out

    yield start
    for env in envs:
        env.close()


def actions_at(env, t):
    rng = np.random.default_rng([t, 4])
    actions = allocate(space_specs(env.action_space, "action"), (env.num_envs,))
    for array in actions.values():
        array[...] = rng.integers(0, 3, array.shape)
    return actions


def drive(env, out, times):
    seen = []
    for t in times:
        result = env.step(actions_at(env, t), out)
        flags = (result.reward, result.terminated, result.truncated, result.valid, result.final_indices)
        final = result.final_obs or {}
        seen.append(({k: v.copy() for k, v in out.items()}, [f.copy() for f in flags], final, result.episodes))
    return seen


@pytest.mark.parametrize("make", [walk, nested])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_transitions_as_in_one_process(start, make, workers):
    env, out = start(make, 4, workers)
    serial = SerialVectorEnv(make, 4)
    out2 = allocate(space_specs(serial.observation_space, "observation"), (4,))
    serial.reset(SEEDS, out2)
    np.testing.assert_equal(out, out2)
    np.testing.assert_equal(drive(env, out, range(60)), drive(serial, out2, range(60)))
    np.testing.assert_equal(env.state(), serial.state())


def test_states_move_between_processes_and_one_process(start):
    env, out = start(walk, 4, 3)
    drive(env, out, range(23))
    state = env.state()
    rest = drive(env, out, range(23, 60))
    serial = SerialVectorEnv(walk, 4)
    out2 = {k: np.zeros_like(v) for k, v in out.items()}
    serial.restore(SEEDS, state, out2)
    np.testing.assert_equal(rest, drive(serial, out2, range(23, 60)))
    other, out3 = start(walk, 4, 2)
    other.restore(SEEDS, state, out3)
    np.testing.assert_equal(out3, state["observation"])
    np.testing.assert_equal(rest, drive(other, out3, range(23, 60)))


def test_a_worker_that_raises_gives_its_traceback_and_index(start):
    env, out = start(Failing("raise"))
    with pytest.raises(RunError, match="the wheel came off") as caught:
        drive(env, out, range(5))
    text = str(caught.value)
    assert "environment 1 (episode 0, step 3) raised ZeroDivisionError" in text
    assert (
        'raise ZeroDivisionError("the wheel came off")' in caught.value.__notes__[0]
    )  # the line of the original traceback
    with pytest.raises(RunError, match="closed"):
        env.step(actions_at(env, 0), out)
    assert_ended(env)


def test_a_killed_worker_is_replaced_and_changes_nothing(start):
    """Another process replays its unfinished episodes; one worker is killed between steps, one within a step."""
    env, out = start(walk, 4, 2)
    serial = SerialVectorEnv(walk, 4)
    expected = {key: np.zeros_like(leaf) for key, leaf in out.items()}
    serial.reset(SEEDS, expected)
    np.testing.assert_equal(drive(env, out, range(23)), drive(serial, expected, range(23)))
    os.kill(env.workers.pids[1], signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="worker 1 of environments 2 to 3 .* died with exit code -9"):
        np.testing.assert_equal(drive(env, out, range(23, 40)), drive(serial, expected, range(23, 40)))
    pid = env.workers.pids[0]
    threading.Timer(0.02, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.warns(RuntimeWarning, match="worker 0 of environments 0 to 1 .* died with exit code -9"):
        compare_until(lambda: env.workers.pids[0] != pid, env, out, serial, expected)
    np.testing.assert_equal(env.state(), serial.state())


def compare_until(over, env, out, serial, expected):
    while not over():
        np.testing.assert_equal(drive(env, out, [7]), drive(serial, expected, [7]))


def test_a_killed_worker_without_restarts_is_an_error_within_two_seconds(start):
    env, out = start(walk, max_restarts=0)
    os.kill(env.workers.pids[1], signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(RunError, match=r"environments 1 to 2 \(process \d+\) died with exit code -9 \(SIGKILL\)"):
        drive(env, out, range(2))
    assert time.monotonic() - began < 2
    assert_ended(env)


def test_a_worker_killed_during_a_step_is_noticed_at_once(start):
    env, out = start(Failing("hang"), step_timeout=30, max_restarts=0)
    pid = env.workers.pids[1]

    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    began = time.monotonic()
    with pytest.raises(RunError, match="SIGKILL"):
        drive(env, out, range(5))
    assert time.monotonic() - began < 2.5
    assert_ended(env)


def test_a_hanging_worker_is_an_error_after_the_timeout(start):
    env, out = start(Failing("hang"), step_timeout=0.5)
    began = time.monotonic()
    with pytest.raises(RunError, match=r"environments 1 to 2 \(process \d+\) did not answer within 0.5 seconds"):
        drive(env, out, range(5))
    assert time.monotonic() - began < 3
    assert_ended(env)


@pytest.mark.parametrize("name", SPOILT_BYTES)
def test_an_environment_that_writes_into_descriptors_of_its_process(start, monkeypatch, name):
    monkeypatch.setattr("maze_local.processes._SILENCE", 1)
    env, out = start(Writing(SPOILT_BYTES[name]), n=1, workers=1)
    with pytest.raises(RunError, match="writes into file descriptors"):
        drive(env, out, range(2))


def test_an_environment_that_leaves_the_process_is_named(start):
    env, out = start(Failing("exit"), max_restarts=0)
    with pytest.raises(RunError, match=r"environments 1 to 2 \(process \d+\) died with exit code 7"):
        drive(env, out, range(5))


def test_an_environment_that_calls_exit_is_named_like_one_that_raises(start):
    env, out = start(Failing("sys.exit"))
    with pytest.raises(RunError, match=r"environment 1 \(episode 0, step 3\) called sys.exit\(0\)\n"):
        drive(env, out, range(5))


def test_failures_while_starting():
    with pytest.raises(RunError, match="OSError: no such level"):
        process_envs(Failing("construct"), 2, 2)
    with pytest.raises(ConfigError, match=r"^env.map: no such map$"):
        process_envs(Failing("refuse"), 2, 2)
    with pytest.raises(RunError, match=r"environment 1 \(process \d+\) died with exit code 7\n.*__main__"):
        process_envs(Failing("exit at start"), 2, 2)


def test_shared_memory_without_room_is_named(start, monkeypatch):
    """To write there would end the process with a signal."""
    monkeypatch.setattr("maze_local.step_arrays.has_room", lambda size: False)
    with pytest.raises(RunError, match=r"shared memory has no room .* enlarge /dev/shm"):
        start(walk, 2, 2)


def test_a_factory_that_cannot_be_sent_says_so():
    with pytest.raises(ConfigError, match="worker processes") as caught:
        process_envs(lambda index: SeededWalk(), 2, 2)
    assert "--runner dev" in str(caught.value)


def test_one_thread_in_each_worker_and_the_parents_settings_stay(start, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    _, out = start(probe, 2, 2)
    assert out["observation"].tolist() == [[1, 1], [1, 1]]
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_pool_after_threads_of_torch_are_running(start, method):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.randn(300, 300) @ torch.randn(300, 300)
    env, out = start(walk, 2, 2, start_method=method)
    drive(env, out, range(3))
    torch.set_num_threads(before)


def own_blocks() -> set[Path]:
    """Return the blocks of shared memory that this process has, and whose names are still there."""
    named = {Path(path) for path in re.findall(r"/dev/shm/\S+", Path("/proc/self/maps").read_text())}
    return {path for path in named if path.exists()}


def test_nothing_is_left_behind(start):
    before = own_blocks()
    env, out = start(walk)
    drive(env, out, range(3))
    pids, blocks = env.workers.pids, own_blocks() - before
    assert blocks
    env.close()
    env.close()
    assert not any(map(alive, pids))
    assert not any(block.exists() for block in blocks)
    other, _ = start(walk)
    blocks = own_blocks() - before
    assert blocks
    os.kill(other.workers.pids[0], signal.SIGKILL)
    other.close()
    assert not any(block.exists() for block in blocks)


def test_workers_end_when_the_last_reference_is_gone():
    env = process_envs(walk, 2, 2)
    pids = env.workers.pids
    del env
    gc.collect()
    assert not any(map(alive, pids))


def test_workers_do_not_mind_ctrl_c(start):
    env, out = start(walk)
    for pid in env.workers.pids:
        os.kill(pid, signal.SIGINT)
    drive(env, out, range(3))


def test_an_interrupted_step_is_taken_again(start, monkeypatch):
    """The workers have taken it, and the driver does not know."""
    env, out = start(walk)
    serial = SerialVectorEnv(walk, 3)
    expected = {key: np.zeros_like(leaf) for key, leaf in out.items()}
    serial.reset(SEEDS, expected)
    with monkeypatch.context() as patch:
        patch.setattr(ProcessPool, "_receive", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            env.step(actions_at(env, 0), out)
    assert env.state()["length"].tolist() == [0, 0, 0]
    np.testing.assert_equal(drive(env, out, range(1, 4)), drive(serial, expected, range(1, 4)))


def raise_interrupt(*arguments):
    raise KeyboardInterrupt


def assert_ended(env):
    assert env.workers.pids == []


@pytest.mark.parametrize("limit", [1e7, 1e300])
def test_a_time_limit_longer_than_the_system_can_wait(limit):
    env = process_envs(walk, 2, 2, step_timeout=limit)
    assert env.num_envs == 2
    env.close()
