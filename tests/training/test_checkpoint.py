"""Checkpoints: whole or not there, whatever happens while they are written."""

import errno
import os
import resource
import shutil
import time
from itertools import count

import numpy as np
import pytest
import torch

from maze_core.base import files
from maze_core.base.errors import CheckpointError, ConfigError, PluginError, RunError
from maze_core.run import api
from maze_core.run.saved import saved_run
from maze_core.run.saved.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from maze_core.run.saved.manifest import FORMAT, checkpoints, is_whole
from tests.assemblies import assembly_of
from tests.training.dying import dying

FILES = ("model.safetensors", "state.json", "state.safetensors", "manifest.json")


def numbered(number):
    return Checkpoint({"weight": torch.full((3,), float(number))}, {"number": number, "array": np.arange(number)})


def number_in(folder):
    saved = read_checkpoint(folder)
    assert saved.model["weight"].tolist() == [float(saved.state["number"])] * 3
    assert saved.state["array"].tolist() == list(range(saved.state["number"]))
    return saved.state["number"]


def test_every_kind_of_value_comes_back_as_it_was(tmp_path):
    state = {
        "none": None, "yes": True, "text": "ä\n", "big": 2**100, "nan": float("nan"), "infinity": float("-inf"),
        "list": [1, [2.5, {"deep": torch.tensor(3)}]], "empty": {}, "numbers as keys": {0: {"step": 1}, 1: {}},
        "half": torch.tensor([0.5, 1 / 3], dtype=torch.float16), "bytes": torch.arange(5, dtype=torch.uint8),
        "array": np.array([[1.0, np.pi]]), "scalar array": np.array(7), "none of them": np.zeros((0, 3), np.int8),
        "a/b": torch.ones(1), "numpy number": np.float64(0.1), "$dollar": 1, "odd": {"$tensor": "a trick"},
        "view": torch.arange(6.0).reshape(2, 3).T,
    }  # fmt: skip
    write_checkpoint(tmp_path / "last", Checkpoint({"w": torch.tensor([0.1])}, state))
    again = read_checkpoint(tmp_path / "last").state
    assert str(again.pop("nan")) == str(state.pop("nan"))
    assert again.keys() == state.keys()
    for key, value in state.items():
        other = again[key]
        if isinstance(value, torch.Tensor | np.ndarray):
            assert type(other) is type(value)
            assert other.dtype == value.dtype
            assert other.shape == value.shape
            assert bool((other == value).all())
        else:
            assert other == value, key


def test_what_a_checkpoint_cannot_hold_is_refused_with_its_place(tmp_path):
    with pytest.raises(PluginError, match=r"/a/0/b has type set"):
        write_checkpoint(tmp_path / "last", Checkpoint({}, {"a": [{"b": {1}}]}))


def written(root, number, previous, at=None):
    """Write a checkpoint, or be killed at a file operation; whether it was, and how many there were."""
    with dying(at) as disk:
        write_checkpoint(root / "last", numbered(number), root / previous if previous else None)
    return disk.dead, disk.done


def sound(root, previous):
    """All checkpoints of a root, after one was written to its end."""
    there = {path.name for path in root.iterdir()}
    assert there == {"last", previous} - {None}
    return [number_in(root / name) for name in sorted(there)]


@pytest.fixture(scope="module", params=["previous", None])
def two_written(request, tmp_path_factory):
    """A folder with checkpoints, what the one before the last is called, and the operations that one more takes."""
    root = tmp_path_factory.mktemp("run") / "checkpoints"
    for number in (1, 2):
        written(root, number, request.param)
    other = root.parent / "other"
    shutil.copytree(root, other)
    _, operations = written(other, 3, request.param)
    assert operations > 15
    return root, request.param, operations


def test_a_kill_at_each_file_operation_of_a_write_leaves_a_whole_checkpoint(two_written, tmp_path):
    source, previous, operations = two_written
    outcomes = []
    for at in range(operations):
        root = tmp_path / f"{at}" / "checkpoints"
        shutil.copytree(source, root)
        assert written(root, 3, previous, at)[0]
        outcomes.append(found := number_in(root / "last"))
        assert "last" in checkpoints(root.parent)
        written(root, 4, previous)
        assert sound(root, previous) == ([4, found] if previous else [4])
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {2, 3}


def test_a_second_kill_during_the_next_write_loses_nothing_that_was_found_after_the_first(two_written, tmp_path):
    """Every operation of the first write, and every ninth of the second, each time other ones."""
    source, previous, operations = two_written
    for first in range(operations):
        dead, second = True, first % 9
        while dead:
            root = tmp_path / f"{first}-{second}" / "checkpoints"
            shutil.copytree(source, root)
            written(root, 3, previous, first)
            found = number_in(root / "last")
            dead, _ = written(root, found + 1, previous, second)
            after = number_in(root / "last")
            assert after in (found, found + 1)
            written(root, after + 1, previous)
            assert sound(root, previous) == ([after + 1, after] if previous else [after + 1])
            second += 9
        assert after == found + 1


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["torn", "changed", "gone", "empty", "nonsense"])
def test_damage_is_found_and_another_checkpoint_offered(tmp_path, name, damage):
    root = tmp_path / "checkpoints"
    for number in (1, 2):
        write_checkpoint(root / "last", numbered(number), root / "previous")
    spoil(root / "last" / name, damage)
    assert not is_whole(root / "last")
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(root / "last")
    assert str(root / "last") in str(caught.value)
    assert "Next: the same command with --checkpoint previous" in str(caught.value)
    spoil(root / "previous" / name, damage)
    with pytest.raises(CheckpointError, match="no other intact checkpoint"):
        read_checkpoint(root / "last")


def spoil(path, damage):
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
        return
    middle = len(data) // 2
    changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    kinds = {"torn": data[:middle], "changed": changed, "empty": b"", "nonsense": b"[1, 2, 3]"}
    path.write_bytes(kinds[damage])


@pytest.mark.parametrize("other", ["1", "3", "null"])
def test_another_format_is_refused(tmp_path, other):
    write_checkpoint(tmp_path / "last", numbered(1))
    manifest = tmp_path / "last" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 2', f'"format": {other}'))
    with pytest.raises(CheckpointError, match=f"it has format {other}; this version of Maze reads format 2"):
        read_checkpoint(tmp_path / "last")


def test_a_damaged_run_goes_on_exactly_from_the_checkpoint_before(quick, whole_state, assert_same, metrics):
    run_dir, expected, lines = damaged_run(quick, whole_state, metrics)
    with pytest.raises(CheckpointError, match="--checkpoint previous"):
        quick(overrides={"algorithm.n_epochs": 3}).resume(run_dir)
    quick(overrides={"algorithm.n_epochs": 3}).resume(run_dir, "previous")
    assert_same(whole_state(run_dir), expected)
    assert metrics(run_dir) == lines


def damaged_run(quick, whole_state, metrics):
    context = quick(overrides={"algorithm.n_epochs": 3})
    context.train()
    context.close()
    expected = whole_state(context.run_dir), metrics(context.run_dir)
    spoil(context.run_dir / "checkpoints" / "last" / "state.safetensors", "torn")
    return context.run_dir, *expected


def test_a_run_that_fails_after_a_resume_from_the_checkpoint_before_does_not_praise_the_damaged_one(
    quick, whole_state, metrics, monkeypatch
):
    run_dir, *_ = damaged_run(quick, whole_state, metrics)
    run = saved_run.reopen(run_dir, checkpoint="previous", assembly=assembly_of(quick().run))

    def fail(*_):
        raise RunError("broken")

    monkeypatch.setattr(run.hooks, "compute_loss", fail)
    with pytest.raises(RunError) as caught:
        api.carry_out(run)
    run.close()
    assert not getattr(caught.value, "__notes__", [])


def full_disk(monkeypatch, at):
    """Let the `at`-th file that is flushed find the disk full, and all after it."""
    done, original = count(), os.fsync

    def fsync(number):
        if next(done) >= at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(number)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("at", [0, 6])
def test_a_full_disk_ends_a_run_with_one_message_and_loses_nothing(quick, whole_state, assert_same, at):
    context = quick(overrides={"algorithm.n_epochs": 3})
    context.train(1)
    before = whole_state(context.run_dir)
    with pytest.MonkeyPatch.context() as patch:
        full_disk(patch, at)
        with pytest.raises(RunError, match=r"could not write the checkpoint .*: No space left on device") as caught:
            context.train()
    assert caught.value.exit_code == 1
    assert "of epoch 1. Next: RunContext.reopen(" in caught.value.__notes__[0]
    assert_same(whole_state(context.run_dir), before)
    leftovers = [path for path in context.run_dir.rglob(".*") if path.name != ".lock"]
    assert leftovers == []
    quick(overrides={"algorithm.n_epochs": 3}).resume(context.run_dir)
    whole = quick(overrides={"algorithm.n_epochs": 3})
    whole.train()
    assert_same(whole_state(context.run_dir), whole_state(whole.run_dir))


@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_full_disk_at_the_start_is_wrong_input_and_leaves_nothing(quick, monkeypatch, tmp_path, at):
    run_dir = tmp_path / "new" / "run"
    with pytest.MonkeyPatch.context() as patch:
        full_disk(patch, at)
        with pytest.raises(ConfigError, match="No space left on device"):
            _ = quick(run_dir=run_dir).run
    assert not run_dir.exists()
    quick(run_dir=run_dir).train()


def test_a_limit_on_the_size_of_files(maze, tmp_path):
    """The disk fills while a run is under way; for real, in a process."""
    run_dir = tmp_path / "run"
    small = ["--n-rollout-steps", "8", "--epoch-length", "1", "--epochs", "100000", "--patience", "0"]
    arguments = ["--env", "CartPole-v1", "--run-dir", run_dir, "--set", "evaluation.n_episodes=1", "--preset", "none"]
    process = maze("train", "ppo", *arguments, *small, wait=False)
    while not (run_dir / "checkpoints" / "previous").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (30_000, 30_000))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, out + err
    lines = err.splitlines()
    assert len(lines) == 2, err
    assert lines[0].startswith(f"error: could not write the checkpoint {run_dir}/checkpoints/")
    assert lines[0].endswith("File too large")
    assert lines[1].endswith(f"Next: maze resume {run_dir}")
    assert is_whole(run_dir / "checkpoints" / "last")


def test_files_are_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    files.write_bytes(path, b"old")
    full_disk(monkeypatch, 0)
    with pytest.raises(OSError, match="No space"):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    assert FORMAT == 2
