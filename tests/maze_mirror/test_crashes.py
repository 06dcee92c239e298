"""The process dies at every operation on the file system of the copy, and by kill -9: what is there can be resumed."""

import shutil
from contextlib import closing, suppress
from itertools import pairwise

import pytest
from maze_devkit.envs import SeededWalk
from maze_mirror.copier import Copier
from maze_mirror.fetching import fetch_run
from maze_mirror.snapshot import Snapshot
from maze_mirror.store import Store

from maze_core.base.errors import ConfigError
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.killed import SMALL, arguments, maze_until_killed
from tests.maze_mirror.conftest import Killed
from tests.maze_mirror.test_mirror import contents

SAC = {
    "algorithm.n_epochs": 5,
    "algorithm.epoch_length": 4,
    "algorithm.num_envs": 2,
    "algorithm.replay_buffer_size": 24,
    "algorithm.initial_buffer_size": 8,
    "algorithm.batch_size": 4,
    "algorithm.critic_hidden": "[8,8]",
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": "null",
}
"""Its replay is overwritten several times, so files of rows grow, begin and are deleted."""


@pytest.fixture
def states(quick, tmp_path):
    """Copies of a SAC run's directory after each of its checkpoints `last`."""
    found = []

    class Keep(Plugin):
        @hookimpl
        def on_checkpoint(self, run, path):
            if path.name == "last":
                found.append(tmp_path / f"state{len(found)}")
                shutil.copytree(run.run_dir, found[-1])

    values = {**SAC, "algorithm.critic_hidden": [8, 8], "callbacks.tensorboard": None, "algorithm.n_epochs": 4}
    with quick(SeededWalk, "sac", values, callbacks={"keep": Keep}) as context:
        context.train()
    rows = [{path.name for path in (state / "replay").iterdir()} for state in found]
    assert any(before - after for before, after in pairwise(rows))  # one was deleted
    return found


def test_a_crash_at_every_operation_leaves_a_whole_copy(states, breaking, address, tmp_path):
    """What is fetched equals one of the states, not older than the last that was copied completely."""
    wanted = [contents(state) for state in states]
    at, resumed = 0, set()
    while True:
        breaking.store.clear()
        breaking.revive(at)
        completed = copied(states, address, tmp_path / "run")
        died = breaking.dead
        breaking.revive()
        try:
            folder, index = fetch_run(address, tmp_path / "fetched")
        except ConfigError:
            assert completed == -1  # not even the first one
        else:
            found = wanted.index(contents(folder))
            assert found in (completed, completed + 1)
            assert index.epoch == found
            resumed.add(found)
            assert_resumable(folder)
            after_the_crash(states, found, folder, address, tmp_path, wanted)
        if not died:
            assert completed == len(states) - 1
            break
        at += 1
    assert at > 40
    assert resumed == set(range(len(states)))


def test_a_failure_at_any_operation_is_made_good_by_the_next_copy(states, breaking, address, tmp_path, monkeypatch):
    wanted, at, failed = [contents(state) for state in states], 0, True
    while failed:
        breaking.store.clear()
        breaking.revive(at)
        monkeypatch.setattr("tests.maze_mirror.conftest.Killed", OSError)  # what an operation raises
        copier, failed = Copier(Store(address), emptied(tmp_path / "run")), False
        for number, state in enumerate([None, *states]):
            try:
                advance(copier, state, number - 1, tmp_path / "run")
            except OSError:
                failed = True
                breaking.revive()
                advance(copier, state, number - 1, tmp_path / "run")
        folder, index = fetch_run(address, tmp_path / "fetched")
        assert contents(folder) == wanted[-1]
        assert set(Store(address).sizes()) == {index.name, *index.parts}
        shutil.rmtree(folder)
        at += 3
    assert at > 40


def emptied(run_dir):
    shutil.rmtree(run_dir, ignore_errors=True)
    run_dir.mkdir()
    return run_dir


def advance(copier, state, number, run_dir):
    """Copy a state; None: claim the address."""
    if state is None:
        copier.claim()
        return
    put(state, run_dir)
    with closing(Snapshot(run_dir, number, copier.known)) as snapshot:
        copier.copy(snapshot)


def copied(states, address, run_dir):
    """Copy states one after the other until the file system dies; the number of the last that was done."""
    completed = -2
    copier = Copier(Store(address), emptied(run_dir))
    with suppress(Killed):
        for completed, state in enumerate([None, *states], -2):
            advance(copier, state, completed + 1, run_dir)
        completed += 1
    return max(completed, -1)


def put(state, run_dir):
    """Give a run directory the contents of a state."""
    for path in run_dir.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "mirror.json":
            path.unlink()
    shutil.copytree(state, run_dir, dirs_exist_ok=True)


def assert_resumable(folder):
    """Check that all checkpoints are whole, and that the rows that they refer to are there."""
    for path in (folder / "checkpoints").iterdir():
        saved = read_checkpoint(path)
        segments = saved.state["algorithm"]["collector"]["replay"]["segments"]
        assert all((folder / "replay" / each["file"]).is_file() for each in segments)


def after_the_crash(states, found, folder, address, tmp_path, wanted):
    """Continue from the fetched folder, in a new process so to speak: the copy follows, and nothing is left over."""
    copier = Copier(Store(address), folder)
    copier.claim()
    put(states[-1], folder)
    with closing(Snapshot(folder, len(states) - 1, copier.known)) as snapshot:
        copier.copy(snapshot)
    again, index = fetch_run(address, tmp_path / "again")
    assert contents(again) == wanted[-1]
    assert set(Store(address).sizes()) == {index.name, *index.parts}
    for each in (folder, again):
        shutil.rmtree(each)


@pytest.mark.parametrize(
    ("algorithm", "when"),
    [
        ("sac", "after"),
        pytest.param("ppo", "after", marks=pytest.mark.slow),
        pytest.param("sac", "before", marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_that_was_fetched_resumes_bit_equal(tmp_path, maze, whole_state, assert_same, algorithm, when):
    """Kill -9 at a checkpoint, perhaps while the one before it is copied; the directory of the run is lost."""
    address = f"file://{tmp_path}/copy"
    copying = {"callbacks.mirror.to": address}
    maze_until_killed(words(algorithm, tmp_path / "killed", copying), when, 4)
    shutil.rmtree(tmp_path / "killed")
    maze("fetch", address, tmp_path / "fetched")
    epoch = read_checkpoint(tmp_path / "fetched" / "checkpoints" / "last").state["epoch"]
    assert 0 <= epoch < 4
    maze("resume", tmp_path / "fetched", "--set", f"callbacks.mirror.to={address}")
    maze(*words(algorithm, tmp_path / "whole", {}))
    for name in ("last", "best"):
        assert_same(state(whole_state, tmp_path / "fetched", name), state(whole_state, tmp_path / "whole", name))
    maze("fetch", address, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "fetched")


def words(algorithm, run_dir, values):
    if algorithm == "ppo":
        return arguments(run_dir, values)
    sets = [part for path, value in (SAC | values).items() for part in ("--set", f"{path}={value}")]
    return ["train", "sac", "--env", "Pendulum-v1", "--preset", "none", "--seed", "1", "--run-dir", str(run_dir), *sets]


def state(whole_state, run_dir, name):
    """The whole state; of the replay what it is, not which files it lies in."""
    found = whole_state(run_dir, name)
    found["algorithm"].get("collector", {}).get("replay", {}).pop("segments", None)
    return found


def test_small_is_small_enough():
    assert SMALL["algorithm.n_epochs"] == SAC["algorithm.n_epochs"] == 5
