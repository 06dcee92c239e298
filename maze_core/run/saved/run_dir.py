"""The run directory: one folder that describes a run completely, and the lock for writing to it."""

from __future__ import annotations

import os
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
from maze_core.base.errors import CheckpointError, ConfigError
from maze_core.base.file_systems import free_bytes, say_once, take_lock
from maze_core.base.terminal_text import argument, counted, printable
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import is_class_name
from maze_core.plugins.config.record import CONFIG, RECORD
from maze_core.plugins.distribution_facts import facts_of
from maze_core.plugins.extensions import extension
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.manifest import BEST, CHECKPOINTS, LAST, checkpoints

NETWORK, LOCK, REPLAY = "network.svg", ".lock", "replay"
ADDRESSES = "maze.addresses"
"""The entry-point group of `open`, which returns the run directory of the policy at an address."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/.*|zoo:.*|.*#sha256=.*", re.DOTALL)

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
    if _only_began(folder):
        message = f"{folder} is not empty: it holds {_ONLY_BEGAN}"
        return ConfigError(message, "--run-dir", "Next: delete that folder and repeat the command, or name a new one.")
    hint = "Name a new folder."
    if CONFIG in files.names(folder, folder):
        hint = f"Name a new folder, or resume the run in it: maze resume {argument(folder)}"
    return ConfigError(f"{folder} is not empty", "--run-dir", hint)


_ONLY_BEGAN = (
    "a run without a checkpoint, which was killed before its first one or has just started; it cannot be resumed"
)
_ANEW = "Next: delete that folder and train again."


def _only_began(folder: Path) -> bool:
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


def find_run(path: Path) -> Path:
    """Return the run directory at `path`, or that of the published policy at this address, resolved.

    Raises:
        ConfigError: there is no run, or one without a checkpoint.
    """
    path = run_at(path)
    try:
        there = files.names(path, path)
        began = CONFIG not in there and _only_began(path)
    except OSError:
        there, began = [], False
    if began:
        raise ConfigError(f"{printable(path)} holds {_ONLY_BEGAN}", hint=_ANEW)
    if CONFIG not in there:
        raise no_run(path)
    return path.resolve()


def no_run(path: Path) -> ConfigError:
    """Return the error for what was typed in place of a run and is none, with what may have been meant."""
    name = str(path)
    there = os.path.exists(path)  # noqa: PTH110 — False for a name that is too long
    if is_class_name(name) and not there:
        return ConfigError(
            f"{name!r} is not a run, but the name of a class",
            hint=f"A policy acts in the environment of a run: maze eval RUN --policy {name}\n"
            f"or in any other: maze rollout --policy {name} --env ID",
        )
    if there:
        return ConfigError(f"{printable(path)} is not a run directory (it has no {CONFIG})", hint=_runs_below(path))
    if name in discovery.names("algorithm"):
        return ConfigError(f"{name} is not a run directory, but an algorithm", hint=f"Next: maze train {name} --env ID")
    hint = "Runs are in `runs` unless --run-dir named another folder."
    if name == "runs":
        hint = "Nothing was trained in this folder yet. Next: maze train ALGORITHM --env ID, or name the runs' folder."
    return ConfigError(f"{printable(path)} is not a run directory: there is no such folder", hint=hint)


def _runs_below(folder: Path) -> str | None:
    """Return which runs a folder holds, three levels deep; None where it holds none."""
    found = [each for depth in range(1, 4) for each in folder.glob(f"{'*/' * depth}{CONFIG}")]
    if not found:
        return None
    newest = max(found, key=lambda file: file.stat().st_mtime).parent
    return f"It holds {counted(len(found), 'run')}, the newest {argument(newest)}. `maze runs list` shows all."


def checkpoint_folder(run_dir: Path, name: str | None) -> Path:
    """Return the folder of checkpoint `name`; by default the best, or the last if no best was kept.

    Raises:
        CheckpointError: the run has no such checkpoint.
    """
    wanted = [name] if name else [BEST, LAST]
    try:
        there = checkpoints(run_dir)
    except OSError as error:
        raise CheckpointError(f"{error.filename} cannot be used: {error.strerror}") from error
    for candidate in wanted:
        if candidate in there:
            return run_dir / CHECKPOINTS / candidate
    if not there:
        raise CheckpointError(f"{printable(run_dir)} holds {_ONLY_BEGAN}.\n{_ANEW}")
    if (wanted, there) == ([LAST], [BEST]):
        problem = f"{printable(run_dir)} is a policy that was published without the state of its training"
        raise CheckpointError(f"{problem}.\nNext: a new run from its weights: --init-from {argument(run_dir)}")
    raise CheckpointError(
        f"{printable(run_dir)} has no checkpoint {' or '.join(wanted)}; it has {', '.join(map(printable, there))}."
    )


def versions(distributions: list[str]) -> dict[str, str]:
    """Return the versions that affect a run: Python, the libraries, the core and the plugins in use."""
    found = {"python": platform.python_version()}
    for name in ["maze-core", "torch", "gymnasium", "numpy", *distributions]:
        try:
            found[name] = facts_of(name).version
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def is_address(path: Path) -> bool:
    """Return True for what was typed in place of a run, and is an address or an archive."""
    return not path.is_dir() if _ADDRESS.fullmatch(str(path)) else path.suffix == ".zip" and path.is_file()


def run_at(path: Path) -> Path:
    """Return the run directory of the published policy at an address; `path` itself where it is none."""
    if not is_address(path):
        return path
    found: Path = extension(ADDRESSES, "open", "the address of a policy", "maze-publish")(str(path))
    return found
