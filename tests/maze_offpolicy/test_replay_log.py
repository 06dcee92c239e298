"""Replay data on disk: every checkpoint finds its own rows again, whatever was written, cut off or damaged after it."""

from __future__ import annotations

import copy
import json
import shutil

import numpy as np
import pytest
from gymnasium import spaces
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.log import ReplayLog

from maze_core.base.errors import CheckpointError, RunError
from maze_core.envs.vector import StepResult
from maze_core.run.saved.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from maze_core.run.saved.manifest import states
from tests.training.dying import dying

OBSERVATION = spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACTION = spaces.Box(-1, 1, (1,), np.float32)


class Source:
    """Steps of two imaginary environments, the same whenever it starts from the same number."""

    def __init__(self, salt: int = 0) -> None:
        self.t, self.salt = 0, salt

    def obs(self):
        return {"observation": np.array([[self.t, i + self.salt] for i in range(2)], np.float32)}

    def feed(self, buffer, steps):
        for _ in range(steps):
            rng = np.random.default_rng((self.t, self.salt))
            self.t += 1
            ended = np.flatnonzero(rng.random(2) < 0.2)
            flags = np.isin(np.arange(2), ended)
            terminated = flags & (rng.random(2) < 0.5)
            final = {"observation": rng.random((len(ended), 2), np.float32)} if len(ended) else None
            result = StepResult(
                rng.random(2, np.float32), terminated, flags & ~terminated, np.ones(2, bool), ended, final
            )
            buffer.step({"action": rng.random((2, 1), np.float32)}, result, self.obs())


def new(capacity=60):
    return ReplayBuffer(OBSERVATION, ACTION, capacity)


def started(tmp_path, capacity=60, salt=0):
    buffer, source = new(capacity), Source(salt)
    buffer.begin(source.obs())
    return buffer, ReplayLog(tmp_path / "replay", buffer), source


def reopened(tmp_path, state, source, capacity=60):
    """What a new process makes of a checkpoint's state, which passed through JSON."""
    buffer = new(capacity)
    log = ReplayLog(tmp_path / "replay", buffer)
    log.load(json.loads(json.dumps(state)))
    buffer.begin(source.obs())
    return buffer, log


def snapshot(buffer):
    """Everything that decides what is sampled."""
    batch = buffer.sample(np.random.default_rng(1), 500, 0.9, n_step=3)
    tensors = {**batch.obs, **{f"next {k}": v for k, v in batch.next_obs.items()}, **batch.actions, **batch.extra}
    return buffer.rows, buffer.steps, len(buffer), {key: tensor.numpy() for key, tensor in tensors.items()}


def assert_equal(one, other):
    assert one[:3] == other[:3]
    for key, value in one[3].items():
        np.testing.assert_array_equal(value, other[3][key])


@pytest.mark.parametrize("steps", [1, 10, 25, 29, 100])
def test_a_checkpoint_is_found_again_exactly(tmp_path, steps):
    buffer, log, source = started(tmp_path)
    source.feed(buffer, steps)
    state = log.commit()
    assert_equal(snapshot(buffer), snapshot(reopened(tmp_path, state, source)[0]))


def test_every_one_of_many_checkpoints_is_found_again_and_goes_on_alike(tmp_path):
    buffer, log, source = started(tmp_path)
    kept = []
    for _ in range(12):
        source.feed(buffer, 9)
        kept.append((copy.deepcopy(log.commit()), source.t, snapshot(buffer)))
    last = snapshot(buffer)
    for state, t, expected in kept[-4:]:
        again = Source()
        again.t = t
        restored, log = reopened(tmp_path, state, again)
        assert_equal(snapshot(restored), expected)
        again.feed(restored, source.t - t)
        assert_equal(snapshot(restored), last)


def test_each_row_is_written_once(tmp_path):
    buffer, log, source = started(tmp_path, capacity=1000)
    for _ in range(20):
        source.feed(buffer, 10)
        log.commit()
        log.commit()
    size = sum(path.stat().st_size for path in (tmp_path / "replay").iterdir())
    assert size == buffer.settled * buffer.nbytes / buffer.capacity


def test_rows_after_the_last_checkpoint_are_ignored(tmp_path):
    buffer, log, source = started(tmp_path)
    source.feed(buffer, 20)
    state, expected, t = copy.deepcopy(log.commit()), snapshot(buffer), source.t
    source.feed(buffer, 15)
    log.commit()  # the process dies before this checkpoint is whole, in the middle of a write
    with (tmp_path / "replay" / state["segments"][-1]["file"]).open("ab") as file:
        file.write(b"torn")
    again = Source()
    again.t = t
    restored, log = reopened(tmp_path, state, again)
    assert_equal(snapshot(restored), expected)
    # What the resumed run writes is found again, and so is the checkpoint it started from.
    again.feed(restored, 7)
    newer = log.commit()
    assert_equal(snapshot(restored), snapshot(reopened(tmp_path, newer, again)[0]))
    first = Source()
    first.t = t
    assert_equal(expected, snapshot(reopened(tmp_path, state, first)[0]))


def test_two_branches_from_one_checkpoint_do_not_disturb_each_other(tmp_path):
    buffer, log, source = started(tmp_path)
    source.feed(buffer, 20)
    fork, t = copy.deepcopy(log.commit()), source.t
    source.feed(buffer, 20)
    one, expected = copy.deepcopy(log.commit()), snapshot(buffer)
    other = Source(salt=5)
    other.t = t
    branch, branch_log = reopened(tmp_path, fork, other)
    other.feed(branch, 30)
    two, branched = branch_log.commit(), snapshot(branch)
    assert_equal(snapshot(reopened(tmp_path, one, source)[0]), expected)
    assert_equal(snapshot(reopened(tmp_path, two, other)[0]), branched)


def test_files_go_when_no_checkpoint_speaks_of_them(tmp_path):
    buffer, log, source = started(tmp_path, capacity=80)
    states = []
    for _ in range(40):
        source.feed(buffer, 10)
        states.append((copy.deepcopy(log.commit()), source.t, snapshot(buffer)))
        documents = [json.dumps(state) for state, _, _ in (states[0], *states[-2:])]
        log.prune(documents)
    files = list((tmp_path / "replay").iterdir())
    used = {segment["file"] for state, _, _ in (states[0], *states[-2:]) for segment in state["segments"]}
    assert {path.name for path in files} == used
    record = buffer.nbytes / buffer.capacity
    assert sum(path.stat().st_size for path in files) < 3 * 80 * record
    for state, t, expected in (states[0], *states[-2:]):
        then = Source()
        then.t = t
        assert_equal(snapshot(reopened(tmp_path, state, then, capacity=80)[0]), expected)


def test_more_rows_than_the_buffer_holds_between_two_checkpoints(tmp_path):
    buffer, log, source = started(tmp_path, capacity=30)
    source.feed(buffer, 5)
    log.commit()
    source.feed(buffer, 200)
    state = log.commit()
    assert_equal(snapshot(buffer), snapshot(reopened(tmp_path, state, source, capacity=30)[0]))


@pytest.mark.parametrize("capacity", [20, 500])
def test_a_resumed_run_may_change_the_size_of_its_buffer(tmp_path, capacity):
    buffer, log, source = started(tmp_path)
    source.feed(buffer, 100)
    state = log.commit()
    restored, _ = reopened(tmp_path, state, source, capacity)
    known = {tuple(obs) for obs in snapshot(buffer)[3]["observation"].tolist()}
    found = {tuple(obs) for obs in snapshot(restored)[3]["observation"].tolist()}
    assert found <= known
    assert len(found) > 10


def test_an_empty_buffer_is_a_checkpoint_too(tmp_path):
    buffer = new()
    state = ReplayLog(tmp_path / "replay", buffer).commit()
    assert not (tmp_path / "replay").exists()
    restored = new()
    ReplayLog(tmp_path / "replay", restored).load(state)
    assert (restored.rows, restored.steps) == (0, 0)


@pytest.mark.parametrize(("damage", "words"), [("cut", "cut short"), ("flip", "checksum"), ("gone", "cannot be read")])
def test_damage_is_one_error_that_names_the_file(tmp_path, damage, words):
    buffer, log, source = started(tmp_path)
    source.feed(buffer, 20)
    state = log.commit()
    path = tmp_path / "replay" / state["segments"][0]["file"]
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-1])
    else:
        data[10] ^= 1
        path.write_bytes(data)
    with pytest.raises(CheckpointError, match=words) as caught:
        reopened(tmp_path, state, source)
    assert str(path) in str(caught.value)
    assert "maze resume" in str(caught.value)


def test_a_full_disk_is_an_error_and_spoils_nothing(tmp_path, monkeypatch):
    buffer, log, source = started(tmp_path)
    source.feed(buffer, 10)
    state, expected, t = copy.deepcopy(log.commit()), snapshot(buffer), source.t
    source.feed(buffer, 10)

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(RunError, match="No space left"):
            log.commit()
    # The disk has room again: nothing is missing and nothing is counted twice.
    newer = log.commit()
    assert_equal(snapshot(buffer), snapshot(reopened(tmp_path, newer, source)[0]))
    then = Source()
    then.t = t
    assert_equal(expected, snapshot(reopened(tmp_path, state, then)[0]))


def test_the_files_are_plain_records(tmp_path):
    buffer, log, source = started(tmp_path, capacity=500)
    source.feed(buffer, 30)
    (segment,) = log.commit()["segments"]
    record = [("observation", "f4", 2), ("action", "f4", 1), ("reward", "f4"), ("flags", "?", 2), ("ahead", "i4")]
    rows = np.fromfile(tmp_path / "replay" / segment["file"], np.dtype(record))
    assert len(rows) == buffer.settled
    np.testing.assert_array_equal(rows["observation"][0], [0, 0])
    assert rows["ahead"].max() <= 4


def epoch(run_dir, at=None):
    """Go on from the newest checkpoint, if there is one, write the next and prune; or be killed at a file operation."""
    last, source = run_dir / "checkpoints" / "last", Source()
    if last.parent.exists():
        state = read_checkpoint(last).state
        source.t = state["t"]
        buffer, log = reopened(run_dir, state["replay"], source)
    else:
        buffer, log, _ = started(run_dir)
    with dying(at) as disk:
        source.feed(buffer, 10)
        state = {"t": source.t, "replay": log.commit()}
        write_checkpoint(last, Checkpoint({}, state), last.with_name("previous"))
        log.prune(states(run_dir))
    return disk


def found(run_dir, name="last"):
    """The step of a checkpoint, and what its buffer holds."""
    state, source = read_checkpoint(run_dir / "checkpoints" / name).state, Source()
    source.t = state["t"]
    return source.t, snapshot(reopened(run_dir, state["replay"], source)[0])


def test_rows_that_any_checkpoint_needs_outlive_two_kills_at_any_file_operations(tmp_path):
    whole, expected = tmp_path / "whole", {}
    whole.mkdir()
    for _ in range(8):
        before = tmp_path / f"{len(expected)}"
        shutil.copytree(whole, before)
        operations = epoch(whole).done
        t, rows = found(whole)
        expected[t] = rows
    assert (t, operations > 20) == (80, True)
    for first in range(operations):
        for second in range(first % 19, operations, 19):
            run_dir = tmp_path / f"{first}-{second}"
            shutil.copytree(tmp_path / "5", run_dir)
            for at in (first, second):
                earlier = found(run_dir)[0]
                epoch(run_dir, at)
                t, rows = found(run_dir)
                assert t in (earlier, earlier + 10)
                assert_equal(rows, expected[t])
            epoch(run_dir)
            for name in ("last", "previous"):
                t, rows = found(run_dir, name)
                assert_equal(rows, expected[t])
            shutil.rmtree(run_dir)
