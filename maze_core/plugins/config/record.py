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

_BYTES = 10_000_000
_FORMAT = 2
"""The format of `run.json`; files of earlier versions name none, and the oldest have no checksum."""
_DIGESTS = "config_sha256"
"""The key with the checksums that `config.yaml` may have: one, but two while a changed one replaces it."""


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
        record = unsealed(record, required="format" in record)
        if record.pop("format", _FORMAT) != _FORMAT:
            raise ValueError(f"it has another format than {_FORMAT}, which this version of Maze reads")
    except FileNotFoundError:
        raise ConfigError(f"there is no {printable(path)}, which every run needs") from None
    except OSError as error:
        raise ConfigError(f"{printable(path)} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{printable(path)} is damaged: {printable(error, 200)}") from error
    if not {"versions", "preset"} <= record.keys():  # every version wrote them
        raise ConfigError(f"{printable(path)} is damaged: it is not the record of a run")
    summary, digests = record.get("summary"), record.get(_DIGESTS)
    texts = [record.get(name) for name in ("preset", "observation_space", "action_space")]
    right = isinstance(summary, dict | None) and all(isinstance(text, str | None) for text in texts)
    if not right or not isinstance(digests, list | None):
        raise ConfigError(f"{printable(path)} is damaged: it has values of wrong types")
    return record


def run_id(folder: Path) -> str | None:
    """Return the name that a run has among all; None in runs of earlier versions, and where `run.json` is damaged."""
    try:
        found = read_record(folder).get(ID)
    except ConfigError:
        return None
    return found if isinstance(found, str) else None


def changed_since(folder: Path, besides: Sequence[str] = ()) -> list[str]:
    """Return how the distributions that a run was written with differ from those installed here, some of them.

    Each as `NAME 1.0 (not installed here)` or `NAME 1.0 (here 2.0)`; without Python and those in `besides`.
    """
    try:
        versions = read_record(folder)["versions"]
    except ConfigError:
        return []
    found = versions.items() if isinstance(versions, dict) else ()
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
    """Return the checksums that the `config.yaml` of a run may have; empty in records of earlier versions."""
    return record.get(_DIGESTS) or []
