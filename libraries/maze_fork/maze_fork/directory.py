"""Forks a saved run: a new run directory that begins with the whole state of a checkpoint of another run."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from maze_core.base import files
from maze_core.base.errors import CheckpointError, ConfigError, RunError
from maze_core.plugins.config.record import CONFIG, FORKED_FROM, ID, read_record, write_record
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from maze_core.run.saved.found_run import checkpoint_folder, find_run
from maze_core.run.saved.manifest import BEST, CHECKPOINTS, LAST
from maze_core.run.saved.run_dir import NETWORK, REPLAY, claim_folder, claim_neighbour, remove_run_dir

_CONFIG_BYTES, _METRICS_BYTES = 10_000_000, 1_000_000_000


def fork_directory(parent: Path, run_dir: Path | None = None, checkpoint: str = LAST) -> Path:
    """Create the run directory of a fork, and return it: `reopen` finds it where the checkpoint was.

    The parent stays as it is, and may go on training meanwhile. Replay rows are shared by hard links, or copied where
    the file system has none: no run changes rows that are written.

    Args:
        parent: the run directory that it begins from.
        run_dir: the new one; None: beside the parent, named after it.
        checkpoint: last, previous or best.

    Raises:
        ConfigError: there is no run, or the new folder is in use or cannot be written.
        CheckpointError: the checkpoint is missing or damaged, or rows of its replay are.
    """
    parent = find_run(parent)
    if run_dir is not None and parent.resolve() in run_dir.resolve().parents:
        raise ConfigError(f"{run_dir} is in the folder of the other run", "--run-dir", "Name a folder elsewhere.")
    record, saved = read_record(parent), read_checkpoint(checkpoint_folder(parent, checkpoint))
    child = claim_neighbour(parent, "fork") if run_dir is None else claim_folder(run_dir)
    try:
        _write(child, parent, saved, _record_of_fork(record, parent, checkpoint, saved))
    except BaseException as error:
        remove_run_dir(child)
        if isinstance(error, OSError | RunError):
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"cannot write to {child}: {reason}", "--run-dir") from error
        raise
    return child


def _record_of_fork(record: dict[str, Any], parent: Path, checkpoint: str, saved: Checkpoint) -> dict[str, Any]:
    origin = {"run": str(parent), "id": record[ID], "checkpoint": checkpoint}
    counts = {name: saved.state[name] for name in ("epoch", "env_steps")}
    new = {ID: secrets.token_hex(8), "started": datetime.now(UTC).isoformat(timespec="seconds"), "summary": None}
    return {**record, **new, FORKED_FROM: {**origin, **counts}}


def _write(child: Path, parent: Path, saved: Checkpoint, record: dict[str, Any]) -> None:
    """Write all that a run directory needs, the checkpoint at the end: without one it cannot be resumed."""
    config = files.read_bytes(parent / CONFIG, _CONFIG_BYTES)
    _share_replay(child, parent, saved.state)
    with suppress(FileNotFoundError):
        files.write_bytes(child / NETWORK, files.read_bytes(parent / NETWORK, _CONFIG_BYTES))
    if METRICS_FILE in saved.extents:
        with suppress(FileNotFoundError), files.open_file(parent / METRICS_FILE, "rb") as file:
            files.write_bytes(child / METRICS_FILE, file.read(min(saved.extents[METRICS_FILE].bytes, _METRICS_BYTES)))
    write_record(child, record)
    files.write_bytes(child / CONFIG, config)
    if (best := _best_of(parent, saved)) is not None:
        write_checkpoint(child / CHECKPOINTS / BEST, best)
    write_checkpoint(child / CHECKPOINTS / LAST, saved)


def _share_replay(child: Path, parent: Path, state: dict[str, Any]) -> None:
    """Link the files of replay rows that a saved state names."""
    texts = set(_texts_in(state))
    needed = [name for name in files.names(parent / REPLAY, parent) if name in texts]
    if not needed:
        return
    files.make_folder(child / REPLAY, child)
    for name in needed:
        try:
            files.link(parent / REPLAY / name, parent, child / REPLAY / name, child)
        except FileNotFoundError:
            raise CheckpointError(
                f"{parent / REPLAY / name} was removed meanwhile, by the run that trains there.\n"
                "Next: the same command again"
            ) from None
    files.sync(child / REPLAY, child)


def _texts_in(state: Any) -> Iterator[str]:
    if isinstance(state, str):
        yield state
    elif isinstance(state, dict | list):
        for each in state.values() if isinstance(state, dict) else state:
            yield from _texts_in(each)


def _best_of(parent: Path, saved: Checkpoint) -> Checkpoint | None:
    """Return the best checkpoint so far, as a checkpoint knows it; None where there is none, or a later one."""
    with suppress(CheckpointError):
        best = read_checkpoint(parent / CHECKPOINTS / BEST)
        same = all(best.state[name] == saved.state[name] for name in ("best_score", "best_epoch"))
        return best if same else None
    return None
