"""What of a run is published: the files of a run directory that acts, without what only training needs.

Optimizers, replay and random states stay behind, and so do callbacks, folders and addresses of where it was trained.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from maze_core import ConfigError, MazeError
from maze_core.base import files
from maze_core.base.terminal_text import printable
from maze_core.plugins import discovery
from maze_core.plugins.config.checksummed_yaml import checksum, checksummed, read_checksummed
from maze_core.plugins.config.external_fields import marked_fields
from maze_core.plugins.config.plain_yaml import parse_mapping, to_yaml
from maze_core.plugins.config.preferences import DEFAULT_CALLBACKS
from maze_core.plugins.config.record import encoded_record, read_record, with_configurations
from maze_core.run.progress import RunState
from maze_core.run.saved.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from maze_core.run.saved.found_run import checkpoint_folder
from maze_core.run.saving import EVALUATED
from maze_publish import manifest

_ELSEWHERE = ("/", "~", "..")


def stripped(run_dir: Path, checkpoint: str | None, here: Path) -> dict[str, bytes]:
    """Return what is published of a run, by name: configuration, record and one checkpoint.

    Args:
        run_dir: the run directory.
        checkpoint: best, last or previous; None: best, or last.
        here: a new folder to work in.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
        ConfigError: the run is damaged.
    """
    record, saved = read_record(run_dir), read_checkpoint(checkpoint_folder(run_dir, checkpoint))
    left_out = _left_out(record["observers"])
    text = checksummed(to_yaml(_configuration(run_dir, left_out)))
    digests = [digest for digest in [checksum(text)] if digest is not None]
    observers = {key: name for key, name in record["observers"].items() if key not in left_out}
    fresh: dict[str, Any] = {
        "init_from": None,
        "observers": observers,
        "summary": None,
        "versions": acting_versions(record),
    }
    kept = {key: value for key, value in record.items() if key != "forked_from"}
    contents = {
        manifest.CONFIG: text.encode(),
        manifest.RECORD: encoded_record(with_configurations({**kept, **fresh}, digests)),
    }
    here.mkdir()
    files.write_bytes(here / manifest.RECORD, contents[manifest.RECORD])  # its identity goes into the checkpoint
    write_checkpoint(here / manifest.CHECKPOINT, Checkpoint(saved.model, _acting_state(saved.state)))
    for name in manifest.OF_CHECKPOINT:
        contents[name] = (here / name).read_bytes()
    return contents


def acting_versions(record: dict[str, Any]) -> dict[str, str]:
    """Return the versions in the record of a run, without distributions that only have callbacks that stay behind."""
    gone = _left_out(record["observers"])
    kept = {name for key, name in record["observers"].items() if key not in gone}
    needed: dict[str, bool] = {}
    for each in discovery.declarations():
        acts = each.kind != "callback" or each.name in kept
        needed[each.distribution] = needed.get(each.distribution, False) or acts
    return {str(name): str(version) for name, version in record["versions"].items() if needed.get(name, True)}


def _configuration(run_dir: Path, left_out: Container[str]) -> dict[str, Any]:
    """Return the configuration without some callbacks, and with the runner of this process."""
    config = dict(read_checksummed(run_dir / manifest.CONFIG))
    callbacks = config.get("callbacks")
    if isinstance(callbacks, dict):
        config["callbacks"] = {key: value for key, value in callbacks.items() if key not in left_out}
    return {**config, "runner": {"name": "dev"}}


def _left_out(observers: dict[str, Any]) -> set[str]:
    """Return the keys of the callbacks that stay behind: the default ones, and those that write or connect.

    Others say what the policy was trained for, such as constraints.
    """
    return {key for key, name in observers.items() if name in DEFAULT_CALLBACKS or _reaches_out(str(name))}


def _reaches_out(callback: str) -> bool:
    try:
        plugin = discovery.load("callback", callback)
    except MazeError:
        return True  # nobody knows
    return bool(marked_fields(plugin.Config))


def _acting_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the counters, and what wrappers remember for evaluations."""
    names = [*(each.name for each in fields(RunState)), *EVALUATED]
    if missing := [name for name in names if name not in state]:
        raise ConfigError(f"the checkpoint has no {missing[0]}", "RUN")
    return {name: state[name] for name in names} | {"compiled_kinds": {}}


def private_values(contents: dict[str, bytes]) -> list[str]:
    """Return the settings of a published configuration that look like a path or an address of this machine."""
    config = parse_mapping(contents[manifest.CONFIG].decode(), manifest.CONFIG)
    return [f"{path}={printable(value, 100)}" for path, value in _texts(config, "")]


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _texts(each, f"{path}.{number}")
    elif isinstance(value, str) and (value.startswith(_ELSEWHERE) or "://" in value):
        yield path, value
