"""The run directory: one folder that describes a run completely, and the lock for writing to it."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import IO

from maze_core.base import files
from maze_core.base.errors import ConfigError
from maze_core.base.file_systems import free_bytes, say_once, take_lock
from maze_core.base.terminal_text import argument
from maze_core.plugins.config.record import CONFIG, RECORD
from maze_core.plugins.distribution_facts import facts_of
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.manifest import CHECKPOINTS, checkpoints

NETWORK, LOCK, REPLAY = "network.svg", ".lock", "replay"
_BEGINNING = (CONFIG, RECORD, NETWORK, LOCK, CHECKPOINTS, REPLAY, METRICS_FILE)
"""What a run, or a fork of one, writes before its first checkpoint."""


def create_run_dir(run_dir: Path | None, env_name: str, algorithm: str, seed: int, here: Path = Path()) -> Path:
    """Create the folder of a new run: `run_dir` itself, which must be new or empty, or a folder below `runs/`.

    `here`: the folder from which both are meant.

    Raises:
        ConfigError: the folder is in use, is not a folder, or cannot be written.
    """
    if run_dir is not None:
        return claim_folder(here / run_dir)
    with _creating(here):
        return new_folder(env_name, algorithm, f"s{seed}", here)


def new_folder(env_name: str, algorithm: str, ending: str, here: Path = Path()) -> Path:
    """Create `runs/ENV/ALGORITHM/TIME-ENDING`; two created at the same time get different names."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    parent = here / "runs" / re.sub(r"[^\w.+-]+", "-", env_name) / algorithm
    parent.mkdir(parents=True, exist_ok=True)
    return _claim_free(parent / f"{stamp}-{ending}")


def claim_folder(folder: Path) -> Path:
    """Create the folder of a new run, `folder` itself. Errors as for `create_run_dir`."""
    with _creating(folder):
        return _claim(folder)


def claim_neighbour(run_dir: Path, ending: str) -> Path:
    """Create `NAME-ENDING` beside the folder of a run, with a number if it exists. Errors as for `create_run_dir`."""
    folder = run_dir.with_name(f"{run_dir.name}-{ending}")
    with _creating(folder):
        return _claim_free(folder)


@contextmanager
def _creating(folder: Path) -> Iterator[None]:
    """Turn an error of the file system into that of a folder which cannot be created."""
    try:
        yield
    except OSError as error:
        problem = f"cannot create {error.filename or folder}: {error.strerror}"
        raise ConfigError(problem, "--run-dir", "Name a folder you may write to.") from error


def _claim(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if files.names(folder, folder) or not _first_in(folder):
        raise _occupied(folder)
    return folder.resolve()


def _first_in(folder: Path) -> bool:
    """Return True if this process is the first to claim the empty folder."""
    try:
        files.open_file(folder / LOCK, "xb").close()
    except FileExistsError:
        return False
    return True


def _occupied(folder: Path) -> ConfigError:
    if only_began(folder):
        message = f"{folder} is not empty: it holds {ONLY_BEGAN}"
        return ConfigError(message, "--run-dir", "Next: delete that folder and repeat the command, or name a new one.")
    hint = "Name a new folder."
    if CONFIG in files.names(folder, folder):
        hint = f"Name a new folder, or resume the run in it: maze resume {argument(folder)}"
    return ConfigError(f"{folder} is not empty", "--run-dir", hint)


ONLY_BEGAN = (
    "a run without a checkpoint, which was killed before its first one or has just started; it cannot be resumed"
)


def only_began(folder: Path) -> bool:
    """Return True if the folder holds only what a run writes before its first checkpoint."""
    there = files.names(folder, folder)
    known = all(name in _BEGINNING or any(files.is_leftover(name, of) for of in _BEGINNING) for name in there)
    return known and LOCK in there and not checkpoints(folder)


def _claim_free(folder: Path) -> Path:
    """Create and return `folder`, with a number appended if another run started in the same second."""
    for number in range(1, 10_000):
        candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        try:
            candidate.mkdir()
        except FileExistsError:
            continue
        _first_in(candidate)
        return candidate.resolve()
    raise ConfigError(f"{folder} and 9,998 numbered neighbours exist already", "--run-dir", "Name a new folder.")


def discard_run_dir(folder: Path) -> None:
    """Delete what the start of a run wrote, so that the same folder can be used again."""
    with suppress(OSError):
        for name in _BEGINNING:
            files.remove(folder / name, folder)
        folder.rmdir()  # unless something else is in it


def remove_run_dir(folder: Path) -> bool:
    """Delete all that is in the folder of a run, the folder, and the empty ones around it below `runs`.

    The current folder stays. Returns False where something cannot be deleted.
    """
    try:
        for name in files.names(folder, folder):
            files.remove(folder / name, folder)
        if folder == Path.cwd():
            return True
        folder.rmdir()
    except OSError:
        return False
    if len(folder.parents) > 2 and folder.parents[2].name == "runs":
        with suppress(OSError):  # there are further runs
            for parent in folder.parents[:3]:
                parent.rmdir()
    return True


def check_disk_space(folder: Path, needed: int) -> None:
    """Raise ConfigError if the disk of `folder` has fewer than `needed` bytes free."""
    free = free_bytes(folder)
    if free is not None and free < needed:
        raise ConfigError(
            f"the disk is full: {free / 1e6:.1f} MB free at {folder}, and this run needs {needed / 1e6:.1f} MB",
            "--run-dir",
            "Free some space, or name a folder on another disk.",
        )


def lock(folder: Path) -> IO[bytes]:
    """Hold the run directory for this process until the returned file is closed or the process ends.

    Raises:
        ConfigError: another process is training in it.
    """
    try:
        file = files.open_file(folder / LOCK, "ab")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from error
    try:
        held = take_lock(file.fileno())
        if held is False:
            time.sleep(0.05)  # `is_locked` holds it for a moment
            held = take_lock(file.fileno())
    except OSError as error:
        file.close()
        raise ConfigError(f"{folder} cannot be locked: {error.strerror}") from error
    if held is False:
        file.close()
        raise ConfigError(f"another process is training in {folder}", hint="Wait for it, or stop it first.")
    if held is None:
        say_once(f"note: the file system of {folder} has no locks: nothing keeps two processes from training there")
    return file


def is_locked(folder: Path) -> bool:
    """Return True if a process holds the run directory; False, too, where the file system has no locks."""
    try:
        with files.open_file(folder / LOCK, "rb") as file:
            return take_lock(file.fileno(), shared=True) is False
    except FileNotFoundError:
        return False
    except OSError:
        return True


def versions(distributions: list[str]) -> dict[str, str]:
    """Return the versions that affect a run: Python, the libraries, the core and the plugins in use."""
    found = {"python": platform.python_version()}
    for name in ["maze-core", "torch", "gymnasium", "numpy", *distributions]:
        try:
            found[name] = facts_of(name).version
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
