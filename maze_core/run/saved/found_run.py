"""The run that a path or an address means, and its checkpoints; the errors say what may have been meant."""

from __future__ import annotations

import os
import re
from pathlib import Path

from maze_core.base import files
from maze_core.base.errors import CheckpointError, ConfigError
from maze_core.base.terminal_text import argument, counted, printable
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import is_class_name
from maze_core.plugins.config.record import CONFIG
from maze_core.plugins.extensions import extension
from maze_core.run.saved.manifest import BEST, CHECKPOINTS, LAST, checkpoints
from maze_core.run.saved.run_dir import ONLY_BEGAN, only_began

ADDRESSES = "maze.addresses"
"""The entry-point group of `open`, which returns the run directory of the policy at an address."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:/.*|zoo:.*|.*#sha256=.*", re.DOTALL)
_ANEW = "Next: delete that folder and train again."


def find_run(path: Path) -> Path:
    """Return the run directory at `path`, or that of the published policy at this address, resolved.

    Raises:
        ConfigError: there is no run, or one without a checkpoint.
    """
    path = run_at(path)
    try:
        there = files.names(path, path)
        began = CONFIG not in there and only_began(path)
    except OSError:
        there, began = [], False
    if began:
        raise ConfigError(f"{printable(path)} holds {ONLY_BEGAN}", hint=_ANEW)
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
        raise CheckpointError(f"{printable(run_dir)} holds {ONLY_BEGAN}.\n{_ANEW}")
    if (wanted, there) == ([LAST], [BEST]):
        problem = f"{printable(run_dir)} is a policy that was published without the state of its training"
        raise CheckpointError(f"{problem}.\nNext: a new run from its weights: --init-from {argument(run_dir)}")
    raise CheckpointError(
        f"{printable(run_dir)} has no checkpoint {' or '.join(wanted)}; it has {', '.join(map(printable, there))}."
    )


def is_address(path: Path) -> bool:
    """Return True for what was typed in place of a run, and is an address or an archive."""
    return not path.is_dir() if _ADDRESS.fullmatch(str(path)) else path.suffix == ".zip" and path.is_file()


def run_at(path: Path) -> Path:
    """Return the run directory of the published policy at an address; `path` itself where it is none."""
    if not is_address(path):
        return path
    found: Path = extension(ADDRESSES, "open", "the address of a policy", "maze-publish")(str(path))
    return found
