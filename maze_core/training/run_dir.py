"""The run directory: one folder that describes a run completely, and the lock of who writes to it."""

from __future__ import annotations

import fcntl
import json
import platform
import re
import shutil
import time
from contextlib import suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from maze_core.errors import CheckpointError, ConfigError
from maze_core.files import write_bytes
from maze_core.plain_json import parse_object
from maze_core.wording import argument, printable

CONFIG, RECORD, NETWORK, CHECKPOINTS, LOCK = "config.yaml", "run.json", "network.svg", "checkpoints", ".lock"


def create_run_dir(run_dir: Path | None, env_name: str, algorithm: str, seed: int) -> Path:
    """Create the folder of a new run: `run_dir` itself, which must be new or empty, or one below `runs/`.

    Raises:
        ConfigError: the folder is in use, is no folder, or cannot be written.
    """
    try:
        if run_dir is not None:
            return _claim(run_dir)
        return new_folder(env_name, algorithm, f"s{seed}")
    except OSError as error:
        where = error.filename or run_dir
        raise ConfigError(
            f"cannot create {where}: {error.strerror}", "--run-dir", "Name a folder you may write to."
        ) from error


def new_folder(env_name: str, algorithm: str, ending: str) -> Path:
    """Create `runs/ENV/ALGORITHM/TIME-ENDING`; two that are created in the same instant differ."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    parent = Path("runs") / re.sub(r"[^\w.+-]+", "-", env_name) / algorithm
    parent.mkdir(parents=True, exist_ok=True)
    return _claim_free(parent / f"{stamp}-{ending}")


def _claim(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) or not _first_in(folder):
        raise ConfigError(
            f"{folder} is not empty",
            "--run-dir",
            f"Name a new folder, or go on with the run in it: maze resume {argument(folder)}",
        )
    return folder.resolve()


def _first_in(folder: Path) -> bool:
    """Whether this process is the first of those that found the folder empty."""
    try:
        (folder / LOCK).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _claim_free(folder: Path) -> Path:
    """`folder`, or with a number behind it where another run was started in the same second."""
    for number in range(1, 10_000):
        candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        try:
            candidate.mkdir()
        except FileExistsError:
            continue
        return candidate.resolve()
    raise ConfigError(f"{folder} and 9,998 numbered neighbours exist already", "--run-dir", "Name a new folder.")


def discard_run_dir(folder: Path) -> None:
    """Take back what the start of a run wrote, so that the same folder can be named again."""
    for name in (CONFIG, RECORD, NETWORK, LOCK):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    with suppress(OSError):  # something else is in it
        folder.rmdir()


def check_disk_space(folder: Path, needed: int) -> None:
    """Raise ConfigError where the disk of `folder` has less than `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
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
        file = (folder / LOCK).open("ab")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}") from error
    for patience in (0.05, None):  # once more, since `is_locked` holds it for a moment
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if patience is None:
                file.close()
                hint = "Wait for it, or stop it first."
                raise ConfigError(f"another process is training in {folder}", hint=hint) from None
            time.sleep(patience)
    return file


def is_locked(folder: Path) -> bool:
    """Whether a process holds the run directory."""
    try:
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def find_run(path: Path) -> Path:
    """The run directory at `path`, resolved.

    Raises:
        ConfigError: there is no run.
    """
    if not (path / CONFIG).is_file():
        raise ConfigError(f"{printable(path)} is no run directory (it has no {CONFIG})")
    return path.resolve()


def checkpoint_folder(run_dir: Path, name: str | None) -> Path:
    """The folder of checkpoint `name`; by default the best, or the last where no best was kept.

    Raises:
        CheckpointError: the run has no such checkpoint.
    """
    root = run_dir / CHECKPOINTS
    names = [name] if name else ["best", "last"]
    for candidate in names:
        if (root / candidate).is_dir() or (candidate == "last" and (root / "previous").is_dir()):
            return root / candidate
    there = sorted(p.name for p in root.glob("[!.]*")) if root.is_dir() else []
    raise CheckpointError(
        f"{printable(run_dir)} has no checkpoint {' or '.join(names)}; "
        + (f"it has {', '.join(there)}." if there else "the run ended before its first one.")
    )


def versions(distributions: list[str]) -> dict[str, str]:
    """The versions that decide a run: Python, the libraries, the core and the plugins in use."""
    found = {"python": platform.python_version()}
    for name in ["maze-core", "torch", "gymnasium", "numpy", *distributions]:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write `run.json`, what is known about a run beside its configuration."""
    write_bytes(folder / RECORD, json.dumps(record, indent=1).encode())


def read_record(folder: Path) -> dict[str, Any]:
    """Read `run.json`; empty where the run has none.

    Raises:
        ConfigError: it is damaged.
    """
    path = folder / RECORD
    try:
        record = parse_object(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{printable(path)} is damaged: {printable(error, 200)}") from error
    summary = record.get("summary")
    texts = [record.get(name) for name in ("preset", "observation_space", "action_space")]
    if not isinstance(summary, dict | None) or not all(isinstance(text, str | None) for text in texts):
        raise ConfigError(f"{printable(path)} is damaged: it has values of wrong types")
    return record
