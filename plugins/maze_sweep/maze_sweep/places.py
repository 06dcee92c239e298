"""The folder of a sweep, and what is in it before any run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from maze_core import ConfigError
from maze_core.base import files
from maze_core.run.saved.run_dir import new_folder
from maze_sweep.trials import LOGS, RUNS

if TYPE_CHECKING:
    from maze_core import RunConfig

_ANOTHER = "Name another folder."


def fresh_folder(first: RunConfig, algorithm: str) -> Path:
    """Create a new folder below `runs/`, named after the environment of the first run, the algorithm and the time.

    Raises:
        ConfigError: it cannot be created.
    """
    try:
        return new_folder(first.env_title, algorithm, "sweep")
    except OSError as error:
        raise _not_created(error, Path("runs")) from error


def make_folder(folder: Path) -> bool:
    """Create a folder; return False if it was there.

    Raises:
        ConfigError: it cannot be created, or is a file.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        if not folder.is_dir():
            raise ConfigError(f"{error.filename} is not a folder", "--dir", _ANOTHER) from error
        return False
    except OSError as error:
        raise _not_created(error, folder) from error
    return True


def make_places(folder: Path) -> None:
    """Create the folders of runs and logs; in an untrusted folder they might be links out of it.

    What a run that was killed has left beside the others, such as half of a fork, is removed. The sweep is locked.

    Raises:
        ConfigError: they cannot be used.
    """
    try:
        for name in (RUNS, LOGS):
            files.make_folder(folder / name, folder)
        for name in files.names(folder / RUNS, folder):
            if files.is_leftover(name, name[1:].partition(".")[0]):
                files.discard(folder / RUNS / name, folder)
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be used: {error.strerror}", "--dir") from error


def _not_created(error: OSError, folder: Path) -> ConfigError:
    return ConfigError(f"cannot create {error.filename or folder}: {error.strerror}", "--dir", _ANOTHER)
