"""TensorBoard shows the same of a run whenever it was killed or interrupted, and whatever the clock said."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest
from maze_devkit.envs import SeededWalk
from maze_tensorboard import event_file
from maze_tensorboard.callback import TensorBoard
from maze_tensorboard.event_file import read_records

from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.report import RunSummary

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
FOLDER = "tensorboard"


def reader(run_dir):
    return accumulator.EventAccumulator(str(run_dir / FOLDER), size_guidance={"scalars": 0, "tensors": 0})


def curves(events):
    """What TensorBoard's own reader shows, but for times."""
    events.Reload()
    tags = (tag for tag in events.Tags()["scalars"] if not tag.startswith("time/") and "_seconds" not in tag)
    shown = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}
    return shown | {"config": len(events.Tensors("config/text_summary"))}


@pytest.fixture(params=[1, -1000, 0], ids=["clock goes on", "clock set back", "clock stands still"])
def clock(request, monkeypatch):
    """The times at which event files are written."""
    now = [2_000_000_000]

    def tell():
        now[0] += request.param
        return now[0]

    monkeypatch.setattr(event_file, "time", SimpleNamespace(time=tell))


class Camera(Plugin):
    """Copies the run directory at every moment at which a kill would leave something else."""

    Config = PluginConfig
    copies: ClassVar[list] = []
    target = None

    def _copy(self, run, moment):
        if Camera.target is not None:
            copy = Camera.target / f"{len(Camera.copies)}-{moment}"
            shutil.copytree(run.run_dir, copy)
            Camera.copies.append(copy)

    @hookimpl
    def on_run_start(self, run):
        self._copy(run, "start")

    @hookimpl
    def on_epoch_end(self, run, epoch):
        self._copy(run, f"epoch{epoch.epoch}")

    @hookimpl
    def on_checkpoint(self, run, path):
        if path.name == "last":
            self._copy(run, f"checkpoint{run.epoch}")

    @hookimpl
    def on_run_end(self, run, summary):
        self._copy(run, "end")


@pytest.fixture
def drawn(quick, tmp_path):
    """`drawn(**parts)`: a run of two epochs that TensorBoard draws, and that a camera looks at."""
    Camera.copies, Camera.target = [], None
    values = {"callbacks.tensorboard": {"name": "tensorboard"}}
    yield lambda **parts: quick(SeededWalk, "ppo", values, callbacks={"camera": Camera}, **parts)
    Camera.copies, Camera.target = [], None


@pytest.mark.parametrize("clock", [-1000], ids=["clock set back"], indirect=True)
def test_a_run_that_was_killed_shows_each_point_once(drawn, clock, tmp_path):
    """At every moment, and a second time in the part that was resumed."""
    Camera.target = tmp_path
    whole = drawn()
    whole.train()
    wanted = curves(reader(whole.run_dir))
    assert len(wanted["final/return_mean"]) == 1
    assert len(wanted["eval/return_mean"]) == 2
    first, Camera.copies = Camera.copies, []
    assert len(first) == 1 + 2 + 2 + 1
    for copy in first:
        drawn().resume(copy)
        assert curves(reader(copy)) == wanted, copy.name
    Camera.target = None
    assert len(Camera.copies) > len(first)
    for copy in Camera.copies[::3]:
        drawn().resume(copy)
        assert curves(reader(copy)) == wanted, copy.name


def test_a_run_that_was_interrupted_shows_one_final_evaluation(drawn, clock):
    whole, cut = drawn(), drawn()
    whole.train()
    wanted = curves(reader(whole.run_dir))
    watching = reader(cut.run_dir)

    def interrupted():
        count = cut.run.count_env_steps

        def interrupting(steps):
            count(steps)
            cut.run.interrupt("the test")

        cut.run.count_env_steps = interrupting
        cut.train()
        cut.run.count_env_steps = count
        assert len(curves(watching)["final/return_mean"]) == 1

    interrupted()
    cut.close()
    cut.resume(cut.run_dir)
    assert curves(reader(cut.run_dir)) == wanted
    shown = curves(watching)  # by one that has been looking on all the time
    assert shown.pop("config") == 2  # it withdraws no texts
    assert shown == {tag: points for tag, points in wanted.items() if tag != "config"}

    again = drawn()
    for _ in range(2):
        again.train(1)
    assert curves(reader(again.run_dir)) == wanted
    assert one_file(again)


def train(run, epochs, final=None):
    board = TensorBoard(None)
    board.on_run_start(run)
    for epoch in epochs:
        board.on_epoch_end(run, epoch)
    if final is not None:
        board.on_run_end(run, RunSummary("finished", "done", run.epoch, run.env_steps, 0, 1.0, {"eval/x": final}))
    return board


def test_epochs_without_a_step_are_told_apart(make_run, make_epoch):
    """As where an algorithm learned from what had come before, or an epoch was filler."""
    second, again = (replace(make_epoch(2, loss__x=value), env_steps=100) for value in (2.0, 3.0))
    train(make_run(), [make_epoch(1, loss__x=1.0), second])
    resumed = make_run(resumed=True, epoch=1, env_steps=100)
    train(resumed, [again])
    assert curves(reader(resumed.run_dir))["loss/x"] == [(100, 1.0), (100, 3.0)]


def test_another_configuration_is_written_beside_the_old_one(make_run):
    train(make_run(), [])
    train(make_run(resumed=True), [])
    assert curves(reader(make_run().run_dir))["config"] == 1
    train(make_run(resumed=True, steps=2000), [])
    assert curves(reader(make_run().run_dir))["config"] == 2


def one_file(run):
    """The event file; at most one more is there, an empty one."""
    *empty, path = sorted((run.run_dir / FOLDER).iterdir())
    assert [each.stat().st_size for each in empty] in ([], [0])
    return path


@pytest.mark.parametrize("cut", [1, 3, 5, 20])
def test_a_record_that_was_cut_short_is_left_out(make_run, make_epoch, cut, recwarn):
    run = make_run()
    train(run, [make_epoch(n, loss__x=float(n)) for n in (1, 2)])
    data = one_file(run).read_bytes()
    one_file(run).write_bytes(data[:-cut])
    train(make_run(resumed=True, epoch=1, env_steps=100), [make_epoch(2, loss__x=2.5)])
    assert curves(reader(run.run_dir))["loss/x"] == [(100, 1.0), (200, 2.5)]
    assert not [each for each in recwarn.list if "damaged" in str(each.message)]


@pytest.mark.parametrize("place", [-10, -60])
def test_a_damaged_record_is_left_out_with_a_warning(make_run, make_epoch, place):
    """What comes after the damage is shown again; TensorBoard alone would stop there."""
    run = make_run()
    train(run, [make_epoch(n, loss__x=float(n)) for n in (1, 2, 3)])
    data = bytearray(one_file(run).read_bytes())
    data[place] ^= 0x55
    one_file(run).write_bytes(data)
    with pytest.warns(RuntimeWarning, match="is damaged"):
        train(make_run(resumed=True, epoch=3, env_steps=300), [make_epoch(4, loss__x=4.0)])
    shown = curves(reader(run.run_dir))["loss/x"]
    assert shown[0] == (100, 1.0)
    assert shown[-1] == (400, 4.0)


def test_links_and_pipes_are_not_read_and_files_of_others_stay(make_run, make_epoch, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    theirs = make_run(run_dir=elsewhere)
    train(theirs, [make_epoch(1, loss__x=1.0)])
    kept = one_file(theirs).read_bytes()

    linked = make_run(run_dir=tmp_path / "linked")
    linked.run_dir.mkdir()
    (linked.run_dir / FOLDER).symlink_to(elsewhere / FOLDER)
    with pytest.raises(OSError, match="link"):
        train(linked, [])

    run = make_run(run_dir=tmp_path / "run")
    (run.run_dir / FOLDER).mkdir(parents=True)
    path = run.run_dir / FOLDER / "events.out.tfevents.0000000001.0000"
    path.symlink_to(one_file(theirs))
    with pytest.raises(OSError, match="link"):
        train(run, [])
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        train(run, [])
    path.unlink()
    other = run.run_dir / FOLDER / "events.out.tfevents.1700000000.host.123.0"
    other.write_bytes(kept)
    (run.run_dir / FOLDER / ".events.01234567.new").write_bytes(b"left by a kill")
    train(run, [make_epoch(2, loss__y=1.0)])
    assert other.read_bytes() == one_file(theirs).read_bytes() == kept
    assert len(list((run.run_dir / FOLDER).iterdir())) == 2
    tags = [value.tag for record in read_records(run.run_dir / FOLDER) for value in record.values]
    assert tags == ["config/text_summary", "_hparams_/session_start_info", "loss/y"]


def test_a_full_disk_leaves_the_earlier_file_as_it_was(make_run, make_epoch, monkeypatch):
    run = make_run()
    train(run, [make_epoch(1, loss__x=1.0)])
    before = one_file(run).read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        train(make_run(resumed=True, epoch=1, env_steps=100), [])
    assert one_file(run).read_bytes() == before
