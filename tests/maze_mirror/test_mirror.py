"""Runs that are copied while they train, and fetched back."""

import json
import os
import time
from contextlib import closing

import pytest
from maze_mirror.callback import Mirror, MirrorConfig
from maze_mirror.copier import Copier, SupersededError
from maze_mirror.fetching import fetch_run, read_file
from maze_mirror.index import PART_BYTES
from maze_mirror.snapshot import Snapshot
from maze_mirror.store import Store

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.record import read_record
from maze_core.plugins.manager import Hooks
from maze_core.run.saved import saved_run


def contents(folder):
    """The files of a run directory but the lock and the copies' own, by path."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name not in (".lock", "mirror.json")}


def mirrored(address, **more):
    return {"callbacks.mirror.to": address, **{f"callbacks.mirror.{key}": value for key, value in more.items()}}


@pytest.mark.parametrize("background", [True, False])
def test_the_copy_of_a_run_is_its_directory(quick, breaking, address, tmp_path, background):
    with quick(overrides=mirrored(address, background=background)) as context:
        context.train()
        run_dir = context.run_dir
    folder, index = fetch_run(address, tmp_path / "fetched")
    assert contents(folder) == contents(run_dir)
    assert {"checkpoints/last/manifest.json", "checkpoints/previous/manifest.json", "config.yaml"} <= index.files.keys()
    assert index.epoch == 2
    assert read_record(folder)["summary"]["outcome"] == "finished"  # as it ended, not as it was at the last checkpoint
    assert not list(tmp_path.glob(".*"))


def test_an_address_names_the_run(quick, breaking, address, tmp_path):
    with quick(overrides=mirrored(f"{address}/{{run}}")) as context:
        context.train()
        run_dir = context.run_dir
    copy = f"{address}/{run_dir.name}"
    assert contents(fetch_run(copy, tmp_path / "fetched")[0]) == contents(run_dir)
    assert read_file(copy, "metrics.jsonl") == (run_dir / "metrics.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="has no file other"):
        read_file(copy, "other")
    with pytest.raises(ConfigError, match="there is no copy of a run"):
        read_file(f"{address}/another", "metrics.jsonl")


def test_a_fetched_run_is_evaluated_and_resumed(quick, maze, tmp_path):
    address = f"file://{tmp_path / 'copies'}/first"
    with quick("CartPole-v1", overrides=mirrored(address)) as context:
        context.train()
    said = maze("fetch", address, tmp_path / "fetched").output
    assert f"maze resume {tmp_path / 'fetched'} --set callbacks.mirror.to={address}" in said
    assert "2 epochs" in said
    maze("eval", tmp_path / "fetched", "-n", 1)
    refused = maze("resume", tmp_path / "fetched", "--set", "algorithm.n_epochs=3", code=2).output
    assert "callbacks.mirror.to" in refused  # a run of others writes nowhere without permission
    assert "needs your permission" in refused
    more = ["--set", "algorithm.n_epochs=3", "--set", f"callbacks.mirror.to={address}"]
    maze("resume", tmp_path / "fetched", *more)
    assert "3 epochs" in maze("fetch", address, tmp_path / "again").output
    assert contents(tmp_path / "again") == contents(tmp_path / "fetched")


def test_only_what_has_changed_is_sent(breaking, address, tmp_path):
    run_dir = tmp_path / "run"
    for name in ("checkpoints/last", "checkpoints/previous", "replay"):
        (run_dir / name).mkdir(parents=True)
    (run_dir / "checkpoints" / "last" / "model").write_bytes(b"one")
    (run_dir / "replay" / "000001.rows").write_bytes(os.urandom(2 * PART_BYTES + 100))
    copier = Copier(Store(address), run_dir)
    copier.claim()
    copy(copier, run_dir)
    assert len([name for name in breaking.writes if name.startswith("data-")]) == 4
    breaking.writes.clear()
    (run_dir / "checkpoints" / "last" / "model").rename(run_dir / "checkpoints" / "previous" / "model")
    (run_dir / "checkpoints" / "last" / "model").write_bytes(b"two")
    with (run_dir / "replay" / "000001.rows").open("ab") as rows:
        rows.write(b"more")
    copy(copier, run_dir)
    assert len([name for name in breaking.writes if name.startswith("data-")]) == 2  # the new model, the last part
    assert len(stored(breaking)) == 6  # index, two models, three parts of the rows
    (run_dir / "replay" / "000001.rows").unlink()
    copy(copier, run_dir)
    assert len(stored(breaking)) == 3
    assert contents(fetch_run(address, tmp_path / "fetched")[0]) == contents(run_dir)


def copy(copier, run_dir, epoch=1):
    with closing(Snapshot(run_dir, epoch, copier.known)) as snapshot:
        copier.copy(snapshot)


def stored(breaking):
    return [path.rpartition("/")[2] for path in breaking.store]


def test_a_snapshot_keeps_what_training_replaces_meanwhile(breaking, address, tmp_path):
    run_dir, last = tmp_path / "run", tmp_path / "run" / "checkpoints" / "last"
    last.mkdir(parents=True)
    (last / "model").write_bytes(b"one")
    (run_dir / "metrics.jsonl").write_bytes(b"1\n")
    copier = Copier(Store(address), run_dir)
    copier.claim()
    with closing(Snapshot(run_dir, 1, copier.known)) as snapshot:
        last.rename(last.with_name("previous"))
        last.mkdir()
        (last / "model").write_bytes(b"two")
        with (run_dir / "metrics.jsonl").open("ab") as file:
            file.write(b"2\n")
        copier.copy(snapshot)
    found = contents(fetch_run(address, tmp_path / "fetched")[0])
    assert found == {"checkpoints/last/model": b"one", "metrics.jsonl": b"1\n"}


def test_very_many_files_are_not_open_at_once(breaking, address, tmp_path):
    run_dir = tmp_path / "run"
    (run_dir / "checkpoints").mkdir(parents=True)
    for number in range(300):
        (run_dir / f"{number:03d}").write_text(f"file {number}")
    (run_dir / "checkpoints" / "last").write_text("first")
    copier = Copier(Store(address), run_dir)
    copier.claim()
    with closing(Snapshot(run_dir, 1, copier.known)) as snapshot:
        opened = [entry.path for entry in snapshot.entries if entry.file is not None]
        assert len(opened) == 200
        assert opened[0] == "checkpoints/last"
        copier.copy(snapshot)
    assert contents(fetch_run(address, tmp_path / "fetched")[0]) == contents(run_dir)
    for number in range(300):
        (run_dir / f"{number:03d}").write_text(f"new {number}")
    with closing(Snapshot(run_dir, 1, copier.known)) as snapshot:
        (run_dir / "new").write_text("replaces it")
        (run_dir / "new").rename(run_dir / "299")
        with pytest.raises(OSError, match="it was replaced while it was copied"):
            copier.copy(snapshot)
    copy(copier, run_dir)
    assert contents(fetch_run(address, tmp_path / "again")[0]) == contents(run_dir)


def test_links_and_pipes_in_a_run_directory_are_not_copied(breaking, address, tmp_path):
    run_dir = tmp_path / "run"
    (run_dir / "inner").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (run_dir / "link").symlink_to(tmp_path / "secret")
    (run_dir / "folder").symlink_to(tmp_path)
    os.mkfifo(run_dir / "pipe")
    (run_dir / "file").write_text("mine")
    copier = Copier(Store(address), run_dir)
    copier.claim()
    copy(copier, run_dir)
    assert contents(fetch_run(address, tmp_path / "fetched")[0]) == {"file": b"mine"}


def test_a_failure_is_told_once_and_repaired_by_the_next_copy(quick, breaking, address, tmp_path, capsys, monkeypatch):
    original = Hooks.on_epoch_end

    def outage(self, run, epoch):
        breaking.failing = OSError(101, "Network is unreachable") if epoch.epoch in (1, 2) else None
        original(self, run, epoch)

    monkeypatch.setattr(Hooks, "on_epoch_end", outage)
    with quick(overrides={**mirrored(address, background=False), "algorithm.n_epochs": 4}) as context:
        assert context.train().outcome == "finished"
        run_dir = context.run_dir
    lines = [line for line in capsys.readouterr().err.splitlines() if address in line]
    assert lines == [
        f"warning: the run could not be copied to {address}: Network is unreachable; it is tried again after the next "
        "checkpoint",
        f"the run is copied to {address} again",
    ]
    assert contents(fetch_run(address, tmp_path / "fetched")[0]) == contents(run_dir)


def test_a_run_whose_last_copies_fail_ends_well_and_says_what_the_copy_holds(
    quick, breaking, address, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("maze_mirror.callback._PAUSES", (0.0, 0.0))
    original = Hooks.on_epoch_end

    def fail(self, run, epoch):
        if epoch.epoch == 2:
            breaking.failing = PermissionError(13, "Permission denied")
        original(self, run, epoch)

    monkeypatch.setattr(Hooks, "on_epoch_end", fail)
    with quick(overrides=mirrored(address, background=False)) as context:
        assert context.train().outcome == "finished"
    said = capsys.readouterr().err
    assert said.count("Permission denied") == 1
    assert f"warning: {address} holds the run as of epoch 1; the whole run is in {context.run_dir}" in said
    breaking.revive()
    assert fetch_run(address, tmp_path / "fetched")[1].epoch == 1


def test_training_does_not_wait_for_a_slow_network(quick, breaking, address, tmp_path, monkeypatch):
    pipe = breaking.pipe_file

    def slow(self, path, value, **kwargs):
        if "data-" in path:
            time.sleep(0.02)
        pipe(self, path, value, **kwargs)

    monkeypatch.setattr(breaking, "pipe_file", slow)
    waited, original = [], Hooks.on_checkpoint

    def timed(self, run, path):
        started = time.perf_counter()
        original(self, run, path)
        waited.append(time.perf_counter() - started)

    monkeypatch.setattr(Hooks, "on_checkpoint", timed)
    with quick(overrides={**mirrored(address), "algorithm.n_epochs": 10}) as context:
        context.train()
    assert len(waited) > 10
    assert sorted(waited)[len(waited) // 2] < 0.04  # the four new files of each take 0.08
    assert contents(fetch_run(address, tmp_path / "fetched")[0]) == contents(context.run_dir)


def test_minutes_between_copies(quick, breaking, address):
    with quick(overrides=mirrored(address, background=False, minutes=60)) as context:
        context.train()
    assert len([name for name in breaking.writes if name.startswith("index-")]) == 3  # claim, start, end


def test_an_address_that_cannot_be_written_ends_the_run_at_its_start(quick, breaking, address):
    breaking.failing = PermissionError(13, "Permission denied")
    with (
        quick(overrides=mirrored(address)) as context,
        pytest.raises(ConfigError, match=rf"^callbacks\.mirror\.to: {address} cannot be written: Permission") as caught,
    ):
        context.train()
    assert "Next: " in str(caught.value)
    assert not (context.run_dir / "metrics.jsonl").exists()


def test_an_address_with_another_run_is_refused(quick, breaking, address):
    with quick(overrides=mirrored(address)) as context:
        context.train()
    before = dict(breaking.store)
    with (
        quick(overrides=mirrored(address)) as context,
        pytest.raises(ConfigError, match=r"callbacks\.mirror\.to: .* holds another run, with 2 epochs") as caught,
    ):
        context.train()
    assert f"maze fetch {address} FOLDER" in str(caught.value)
    assert before == breaking.store


def test_an_address_that_was_only_claimed_is_free(breaking, address, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(name)
    Copier(Store(address), tmp_path / "first").claim()  # it is killed before its first copy
    second = Copier(Store(address), tmp_path / "second")
    second.claim()
    copy(second, tmp_path / "second")
    assert contents(fetch_run(address, tmp_path / "fetched")[0]) == {"metrics.jsonl": b"second"}


def test_an_address_with_other_files_is_refused(quick, breaking, address):
    breaking().pipe_file(address.removeprefix("breaking:/") + "/thesis.tex", b"mine")
    with (
        quick(overrides=mirrored(address)) as context,
        pytest.raises(ConfigError, match=r"is not empty, and what it holds is no copy of a run \('thesis.tex'\)"),
    ):
        context.train()
    assert stored(breaking) == ["thesis.tex"]


def test_the_same_run_continues_at_its_address(quick, breaking, address, tmp_path):
    with quick("CartPole-v1", overrides=mirrored(address)) as context:
        context.train()
    more = ["algorithm.n_epochs=3", f"callbacks.mirror.to={address}"]
    saved_run.resume(context.run_dir, more)
    assert fetch_run(address, tmp_path / "fetched")[1].epoch == 3


def test_a_directory_whose_run_was_continued_elsewhere_is_refused(quick, breaking, address, tmp_path):
    with quick("CartPole-v1", overrides=mirrored(address)) as context:
        context.train()
    fetched, _ = fetch_run(address, tmp_path / "fetched")
    more = ["algorithm.n_epochs=3", f"callbacks.mirror.to={address}"]
    saved_run.resume(fetched, more)
    with pytest.raises(ConfigError, match="holds this run as it was continued elsewhere, with 3 epochs"):
        saved_run.resume(context.run_dir, more)
    assert fetch_run(address, tmp_path / "third")[1].epoch == 3


def test_of_two_processes_that_copy_one_run_the_later_wins(breaking, address, tmp_path):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "metrics.jsonl").write_text("first")
    first = Copier(Store(address), run_dir)
    first.claim()
    copy(first, run_dir)
    fetched, _ = fetch_run(address, tmp_path / "fetched")
    second = Copier(Store(address), fetched)
    second.claim()
    (fetched / "metrics.jsonl").write_text("second")
    # The first one had listed the address before, and writes once more:
    sizes = dict.fromkeys((name for name in stored(breaking)), 0)
    first._point({}, {}, 1)
    assert sizes
    copy(second, fetched)
    assert contents(fetch_run(address, tmp_path / "again")[0]) == {"metrics.jsonl": b"second"}
    with pytest.raises(SupersededError):
        copy(first, run_dir)


def test_a_superseded_process_says_so_once_and_copies_no_more(quick, breaking, address, tmp_path, capsys, monkeypatch):
    original = Hooks.on_epoch_end

    def steal(self, run, epoch):
        if epoch.epoch == 1:
            fetched, _ = fetch_run(address, tmp_path / "fetched")
            Copier(Store(address), fetched).claim()
        original(self, run, epoch)

    monkeypatch.setattr(Hooks, "on_epoch_end", steal)
    with quick(overrides={**mirrored(address, background=False), "algorithm.n_epochs": 3}) as context:
        assert context.train().outcome == "finished"
    assert capsys.readouterr().err.count("another process has continued this run") == 1
    assert fetch_run(address, tmp_path / "again")[1].epoch == 0


def test_without_a_run_directory_nothing_is_copied(breaking, address, monkeypatch):
    mirror = Mirror(MirrorConfig(to=address))

    class NoFolder:
        run_dir = None

    mirror.on_run_start(NoFolder())
    mirror.on_checkpoint(NoFolder(), None)
    mirror.on_run_end(NoFolder(), None)
    assert not breaking.store


def test_what_the_copies_keep_in_the_run_directory(quick, breaking, address):
    with quick(overrides=mirrored(address)) as context:
        context.train()
    kept = json.loads((context.run_dir / "mirror.json").read_text())
    assert sorted(kept) == ["number", "of", "run", "sessions", "sha256"]
    assert address not in json.dumps(kept)
