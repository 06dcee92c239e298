"""The `run.json` of a run: facts about it besides its configuration, with a checksum of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from maze_core.base import files
from maze_core.base.errors import ConfigError
from maze_core.base.plain_json import checksummed, parse_object, unsealed
from maze_core.base.terminal_text import printable
from maze_core.plugins.distribution_facts import facts_of

CONFIG, RECORD = "config.yaml", "run.json"
LIBRARIES = ("torch", "gymnasium", "numpy")
"""What every run is written with besides Maze and its plugins: it decides numbers, but no configuration."""
ID = "id"
"""The key with the name that a run has among all: its checkpoints have it too."""
FORKED_FROM = "forked_from"
"""The key of a run that began with the state of another one: which `run`, its `id`, and where it was then."""

_BYTES = 10_000_000
_FORMAT = 2
_DIGESTS = "config_sha256"
"""The key with the checksums that `config.yaml` may have: one, but two while a changed one replaces it."""
_TYPES: dict[str, Any] = {
    ID: str,
    "started": str,
    "versions": dict,
    "preset": str | None,
    "init_from": str | None,
    "parameters": dict,
    "observers": dict,
    "observation_space": str,
    "action_space": str,
    _DIGESTS: list,
}
"""What every record has from its first moment; `summary` comes with the end of the run, `forked_from` with a fork."""


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write `run.json`, with a checksum."""
    files.write_bytes(folder / RECORD, encoded_record(record))


def encoded_record(record: dict[str, Any]) -> bytes:
    """Return the contents of `run.json`."""
    return json.dumps(checksummed({"format": _FORMAT, **record}), indent=1).encode()


def read_record(folder: Path) -> dict[str, Any]:
    """Read `run.json`.

    Raises:
        ConfigError: it is missing or damaged.
    """
    path = folder / RECORD
    try:
        record = parse_object(files.read_bytes(path, _BYTES))
        record = unsealed(record)
        if record.pop("format", None) != _FORMAT:
            raise ValueError(f"it has another format than {_FORMAT}, which this version of Maze reads")
    except FileNotFoundError:
        raise ConfigError(f"there is no {printable(path)}, which every run needs") from None
    except OSError as error:
        raise ConfigError(f"{printable(path)} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{printable(path)} is damaged: {printable(error, 200)}") from error
    if missing := _TYPES.keys() - record.keys():
        raise ConfigError(f"{printable(path)} is damaged: it has no {min(missing)!r}")
    right = all(isinstance(record[name], kind) for name, kind in _TYPES.items())
    if not right or not all(isinstance(record.get(name), dict | None) for name in ("summary", FORKED_FROM)):
        raise ConfigError(f"{printable(path)} is damaged: it has values of wrong types")
    return record


def run_id(folder: Path) -> str | None:
    """Return the name that a run has among all; None where `run.json` is missing or damaged."""
    try:
        found: str = read_record(folder)[ID]
    except ConfigError:
        return None
    return found


def changed_since(folder: Path, besides: Sequence[str] = ()) -> list[str]:
    """Return how the distributions that a run was written with differ from those installed here, some of them.

    Each as `NAME 1.0 (not installed here)` or `NAME 1.0 (here 2.0)`; without Python and those in `besides`.
    """
    try:
        found = read_record(folder)["versions"].items()
    except ConfigError:
        return []
    pairs = [(name, before, _version_here(name)) for name, before in found if name not in ("python", *besides)]
    return [
        f"{printable(name, 60)} {printable(before, 20)} ({f'here {now}' if now else 'not installed here'})"
        for name, before, now in pairs
        if before not in (now, "not installed")
    ][:3]


def _version_here(name: str) -> str:
    """Return the version of an installed distribution; empty if it is not installed."""
    try:
        return printable(facts_of(name).version, 20)
    except (PackageNotFoundError, ValueError):
        return ""


def with_configurations(record: dict[str, Any], digests: list[str]) -> dict[str, Any]:
    """Return the record of a run whose `config.yaml` has one of these checksums."""
    return {**record, _DIGESTS: digests}


def configurations(record: dict[str, Any]) -> list[str]:
    """Return the checksums that the `config.yaml` of a run may have; empty before it is written."""
    found: list[str] = record.get(_DIGESTS, [])
    return found
