"""File systems that cannot do everything: what is harmless is left with a line, and what loses data ends the run.

The calls of the system fail here as on NFS, FUSE, SMB, Lustre and overlayfs; the rest is real.
"""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from maze_core.base import files
from maze_core.base.errors import ConfigError, RunError
from maze_core.base.file_systems import free_bytes
from maze_core.run.context import RunContext
from maze_core.run.saved.manifest import is_whole
from maze_core.run.saved.run_dir import is_locked, lock

LAST = ("checkpoints", "last")


def failing(monkeypatch, module, name, number, where=lambda *arguments: True):
    """Let a function of the system fail with an error where a condition holds; return what it was asked then."""
    known, asked = getattr(module, name), []

    def fails(*arguments, **named):
        if where(*arguments):
            asked.append(arguments)
            raise OSError(number, os.strerror(number))
        return known(*arguments, **named)

    monkeypatch.setattr(module, name, fails)
    return asked


def is_folder(descriptor):
    return Path(f"/proc/self/fd/{descriptor}").is_dir()


def resumed(run_dir, epochs):
    """Go on with a run; the number of its last epoch."""
    with RunContext.reopen(run_dir, {"algorithm.n_epochs": epochs, "callbacks.console": None}) as context:
        return context.train().epochs


def test_folders_that_cannot_be_flushed(quick, monkeypatch, capsys):
    asked = failing(monkeypatch, os, "fsync", errno.EINVAL, is_folder)
    context = quick(env="CartPole-v1")
    assert context.train().outcome == "finished"
    assert len(asked) > 5
    assert capsys.readouterr().err.count("does not flush") == 1
    assert resumed(context.run_dir, 3) == 3


def test_which_errors_are_harmless(tmp_path, monkeypatch):
    """Each by the call that has it; the same number may be harmless for one and not for another."""
    full = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT)
    unable = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM)
    (tmp_path / "old").mkdir()
    for module, name, harmless, call in (
        (os, "fsync", (*unable, errno.EACCES, errno.EISDIR), lambda: files.sync(tmp_path, tmp_path)),
        (fcntl, "flock", (*unable, errno.ENOLCK), lambda: lock(tmp_path)),
        (
            os,
            "rmdir",
            (errno.EBUSY, errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM, errno.ESTALE),
            lambda: files.discard(tmp_path / "old", tmp_path),
        ),
    ):
        for number in harmless + full:
            with monkeypatch.context() as patch:
                assert failing(patch, module, name, number) == []
                if number in harmless:
                    call()
                else:
                    with pytest.raises((OSError, ConfigError), match=os.strerror(number)):
                        call()


def test_files_that_cannot_be_flushed(quick, monkeypatch):
    failing(monkeypatch, os, "fsync", errno.EINVAL)
    assert quick().train().outcome == "finished"


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("fsync", errno.ENOSPC),
        ("rename", errno.EIO),
        ("mkdir", errno.EROFS),
    ],
)
def test_what_loses_data_ends_the_run_and_keeps_the_last_checkpoint(quick, monkeypatch, call, number):
    context = quick(env="CartPole-v1")
    context.train(1)
    before = (context.run_dir.joinpath(*LAST) / "manifest.json").read_bytes()
    with monkeypatch.context() as patch:
        failing(patch, os, call, number)
        with pytest.raises(RunError, match=os.strerror(number)):
            context.train(1)
    context.close()
    last = context.run_dir.joinpath(*LAST)
    assert is_whole(last)
    assert (last / "manifest.json").read_bytes() == before
    assert resumed(context.run_dir, 2) == 2


@pytest.mark.parametrize("number", [errno.EBUSY, errno.ENOTEMPTY])
def test_old_checkpoints_that_cannot_be_removed(quick, monkeypatch, capsys, number):
    """They stay for now, and a later save removes them."""
    context = quick(env="CartPole-v1")
    with monkeypatch.context() as patch:
        asked = failing(patch, os, "rmdir", number)
        context.train()
        assert asked
    said = capsys.readouterr().err
    assert said.count("a later one removes it") == 1
    folder = context.run_dir / "checkpoints"
    assert {"last", "previous"} < {each.name for each in folder.iterdir()}
    assert [each.name for each in folder.iterdir() if each.name.startswith(".last")]
    context.close()
    assert resumed(context.run_dir, 3) == 3
    assert not [each.name for each in folder.iterdir() if each.name.startswith(".last")]


def test_a_file_that_is_open_elsewhere_stays_on_nfs(quick, monkeypatch):
    """Its name becomes `.nfs…`, which cannot be removed before it is closed, nor can its folder."""
    context = quick(env="CartPole-v1")
    context.train(1)
    held, known = context.run_dir.joinpath(*LAST) / "model.safetensors", os.unlink
    inode = held.stat().st_ino

    def unlink(path, *, dir_fd=None):
        if os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_ino != inode:
            return known(path, dir_fd=dir_fd)
        if str(path).startswith(".nfs"):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return os.rename(path, ".nfs000000000001", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        for _ in range(4):
            context.train(1)
        left = list((context.run_dir / "checkpoints").rglob(".nfs*"))
        assert len(left) == 1
    context.train(1)
    assert not list((context.run_dir / "checkpoints").rglob(".nfs*"))
    assert context.run.epoch == 6


@pytest.mark.parametrize(("busy", "number"), [("last", errno.EBUSY), ("previous", errno.EACCES)])
def test_a_checkpoint_that_cannot_be_moved_does_not_hide_the_new_one(quick, monkeypatch, capsys, busy, number):
    """As on SMB, and disks of Windows, where a program has a file in it open."""
    context = quick(env="CartPole-v1")
    context.train(1)
    with monkeypatch.context() as patch:
        asked = failing(patch, os, "rename", number, lambda old, new: old == busy)
        for _ in range(3):
            context.train(1)
        assert asked
        assert "has a hidden name for now" in capsys.readouterr().err
    hidden = [each.name for each in (context.run_dir / "checkpoints").iterdir() if each.name.startswith(".")]
    assert len(hidden) <= 2, "each save leaves one more"
    context.close()
    with RunContext.open(context.run_dir, "last") as opened:
        assert opened.run.epoch == 4
    assert resumed(context.run_dir, 5) == 5
    assert sorted(each.name for each in (context.run_dir / "checkpoints").iterdir()) == ["best", "last", "previous"]


def test_folders_of_a_lower_layer_are_copied(quick, monkeypatch):
    """overlayfs renames no folder of an image; a run that came with the image goes on all the same."""
    context = quick(env="CartPole-v1")
    context.train(1)
    context.close()
    lower = {each.stat().st_ino for each in (context.run_dir / "checkpoints").iterdir()}

    def of_lower(old, new):
        return any(each.stat().st_ino in lower for each in (context.run_dir / "checkpoints").glob(old))

    asked = failing(monkeypatch, os, "rename", errno.EXDEV, of_lower)
    assert resumed(context.run_dir, 4) == 4
    assert asked
    assert all(is_whole(context.run_dir / "checkpoints" / name) for name in ("last", "previous", "best"))


def test_without_locks_a_run_goes_on_with_a_line(quick, monkeypatch, capsys):
    failing(monkeypatch, fcntl, "flock", errno.ENOLCK)
    context = quick()
    assert context.train().outcome == "finished"
    assert capsys.readouterr().err.count("has no locks") == 1
    assert not is_locked(context.run_dir)


def test_a_lock_that_another_process_holds_is_one_whatever_its_error(tmp_path, monkeypatch):
    for number in (errno.EWOULDBLOCK, errno.EACCES):
        with monkeypatch.context() as patch:
            failing(patch, fcntl, "flock", number)
            with pytest.raises(ConfigError, match="another process is training"):
                lock(tmp_path)
            assert is_locked(tmp_path)
    with lock(tmp_path):
        assert is_locked(tmp_path)
        with pytest.raises(ConfigError, match="another process is training"):
            lock(tmp_path)
    with monkeypatch.context() as patch:
        failing(patch, fcntl, "flock", errno.EIO)
        with pytest.raises(ConfigError, match="cannot be locked: Input/output error"):
            lock(tmp_path)


def test_disks_that_do_not_say_what_is_free(quick, monkeypatch):
    with monkeypatch.context() as patch:
        failing(patch, os, "statvfs", errno.ENOSYS)
        assert free_bytes(Path("/")) is None
        assert quick().train(1).epochs == 1
    real = os.statvfs("/")

    def says(total, free):
        return lambda path: SimpleNamespace(f_frsize=real.f_frsize, f_blocks=total, f_bfree=free, f_bavail=free)

    monkeypatch.setattr(os, "statvfs", says(0, 0))
    assert free_bytes(Path("/")) is None
    assert quick().train(1).epochs == 1
    monkeypatch.setattr(os, "statvfs", says(1000, 1))
    with pytest.raises(ConfigError, match="the disk is full"):
        quick().train(1)


@pytest.mark.parametrize("number", [errno.ENODEV, errno.EINVAL])
def test_recordings_that_cannot_be_mapped_are_read(quick, tmp_path, monkeypatch, number):
    import mmap

    from maze_recordings.loader import load_trajectories

    quick().rollout(3, record=tmp_path / "recorded", seed=1)
    mapped = load_trajectories(tmp_path / "recorded")

    def fails(*arguments, **named):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(mmap, "mmap", fails)
    read = load_trajectories(tmp_path / "recorded")
    for one, other in zip(mapped, read, strict=True):
        np.testing.assert_array_equal(one.rewards, other.rewards)


SWEPT = """
import json, os, sys
from pathlib import Path
from maze_core.plugins.config.assembly import assemble
from maze_core.run.saved.run_dir import is_locked
from maze_sweep.execute import execute
from maze_sweep.pool import SweepJob

known = os.unlink
def unlink(path, *, dir_fd=None):
    if path == ".lock" and is_locked(Path(os.readlink(f"/proc/self/fd/{dir_fd}"))):
        return os.rename(path, ".nfs0001", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    if str(path).startswith(".nfs") and open_ones():
        raise OSError(16, "Device or resource busy")
    return known(path, dir_fd=dir_fd)

def open_ones():
    return [link for link in Path("/proc/self/fd").iterdir() if ".nfs0001" in os.readlink(link)]

os.unlink = unlink
small = {"algorithm.n_rollout_steps": 8, "algorithm.n_epochs": 1, "evaluation.n_episodes": 1, "seed": 1}
config = assemble("ppo", "CartPole-v1", "none", flags=small).model_dump(mode="json")
end = execute(SweepJob("run", str(Path("run").resolve()), str(Path("log").resolve()), config))
os._exit(0 if end.outcome == "finished" else 3)
"""


@pytest.mark.slow
def test_a_folder_with_an_open_lock_is_begun_anew(tmp_path):
    """A sweep trains a run anew that was killed before its first checkpoint, and holds its lock meanwhile."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("")
    done = subprocess.run([sys.executable, "-c", SWEPT], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, (done.stderr, (tmp_path / "log").read_text())
    assert is_whole(tmp_path / "run" / "checkpoints" / "last")
