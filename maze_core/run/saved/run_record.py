"""What a run directory tells of its run besides checkpoints: `config.yaml` and `run.json`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.files import write_bytes
from maze_core.models.blocks import parameter_counts
from maze_core.plugins.config.assembly import dump
from maze_core.plugins.config.checksummed_yaml import checksum, checksummed
from maze_core.plugins.config.raw import NAMED, name_of
from maze_core.plugins.config.record import CONFIG, configurations, read_record, with_configurations, write_record
from maze_core.plugins.discovery import origin
from maze_core.run.saved.run_dir import versions

if TYPE_CHECKING:
    from maze_core.run.run import Run


def describe_run(run: Run) -> None:
    """Set the versions of the run's plugins and the number of its parameters."""
    origins = [member.origin for member in run.hooks.members]
    named = {place[-1]: getattr(run.config.model, place[-1], None) for place in NAMED}
    origins += [origin(kind, name_of(part)) for kind, part in named.items()]
    plugins = {each.split(" ")[0] for each in origins if each}
    run.versions = versions(sorted(plugins - {"maze-core"}))
    run.parameter_counts = parameter_counts(run.policy)


def observers(run: Run) -> dict[str, str]:
    """Return the callbacks that have no part in acting: their keys and the names of their plugins."""
    members = [each for each in run.hooks.members if each.kind == "callback"]
    callbacks = zip(run.config.callbacks, members, strict=True)
    acting = ("build_policy", "build_planner")
    return {key: each.name for key, each in callbacks if not any(hasattr(each.plugin, hook) for hook in acting)}


def noted_observers(run_dir: Path) -> dict[str, str]:
    """Return what `observers` returned when the run was written; empty if it is not known."""
    noted: dict[str, str] = {}
    with suppress(ConfigError):  # a folder without a record is refused later, by what it lacks
        noted = read_record(run_dir)["observers"]
    return noted


def spaces_of(run: Run) -> dict[str, str]:
    """Return the run's spaces as texts, which a later run compares with its own."""
    return {"observation_space": str(run.observation_space), "action_space": str(run.action_space)}


def write_config(run: Run, run_dir: Path, record: dict[str, Any]) -> None:
    """Write `config.yaml` and `run.json`, which has the checksum of the other; killed at any moment, both still fit."""
    lines = [f"# {name} {version}" for name, version in run.versions.items()]
    text = checksummed("\n".join([dump(run.config), "# Written with:", *lines, ""]))
    new = [digest for digest in [checksum(text)] if digest is not None]
    write_record(run_dir, with_configurations(record, [*configurations(record), *new]))
    write_bytes(run_dir / CONFIG, text.encode())
    write_record(run_dir, with_configurations(record, new))


def rewrite_config(run: Run, run_dir: Path) -> None:
    """Write a changed configuration of a saved run, and which of its callbacks only observe.

    Raises:
        ConfigError: the folder cannot be written.
    """
    try:
        write_config(run, run_dir, {**read_record(run_dir), "observers": observers(run)})
    except OSError as error:
        raise ConfigError(f"cannot write to {run_dir}: {error.strerror}") from error


def note_summary(run: Run) -> None:
    """Write to `run.json` how the run ended, or that it has not ended."""
    if run.run_dir is None:
        return
    try:
        record = read_record(run.run_dir)
        record["summary"] = None if run.summary is None else asdict(run.summary)
        write_record(run.run_dir, record)
    except OSError as error:
        raise RunError(f"cannot write to {run.run_dir}: {error.strerror}") from None
    except ConfigError as error:
        raise RunError(f"cannot record how the run ended: {error}") from None
