"""Lists installed plugins and their states without importing a plugin into this process.

`probe` finds the states, which takes seconds. They are cached until the installation or the plugin's source changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maze_core.base.errors import ConfigError
from maze_core.base.file_systems import cache_folder
from maze_core.plugins import discovery
from maze_core.plugins.summaries import locate, summarise

_FORMAT = 1


@dataclass(frozen=True)
class PluginInfo:
    """One installed plugin."""

    kind: str
    name: str
    distribution: str
    version: str
    state: str
    """`ok`, `broken`, `clash`, `incompatible` or `not a plugin`."""
    detail: str
    """Why the state is not `ok`."""
    summary: str
    """The first line of the class's docstring."""
    file: str
    """The source file; empty if it was not found."""


def catalog(kind: str | None = None, name: str | None = None) -> list[PluginInfo]:
    """Return the installed plugins with their states, sorted by kind and name.

    Args:
        kind: only those of this kind.
        name: only those of this name, in capitals or not.
    """
    claims = [
        claim
        for claim in discovery.declarations()
        if kind in (None, claim.kind) and (name is None or claim.name.lower() == name.lower())
    ]
    claims.sort(key=lambda claim: (list(discovery.KINDS).index(claim.kind), claim.name, claim.distribution))
    cache = _cache_file()
    known = _read(cache)
    installation = _installation()
    files = [locate(claim.entry_point) for claim in claims]
    keys = [_key(claim, file, installation) for claim, file in zip(claims, files, strict=True)]
    fresh = [(claim, file, key) for claim, file, key in zip(claims, files, keys, strict=True) if key not in known]
    if fresh:
        from maze_core.plugins.probe import examine

        states = examine([claim for claim, _, _ in fresh])
        for (claim, file, key), (state, detail) in zip(fresh, states, strict=True):
            known[key] = [state, detail, summarise(claim.entry_point, file)]
        _write(cache, known if kind or name else {key: known[key] for key in keys})
    return _with_clashes([_info(claim, file, known[key]) for claim, file, key in zip(claims, files, keys, strict=True)])


def preset_catalog() -> list[PluginInfo]:
    """Return every installed package of presets, with what it contains as its summary."""
    from maze_core.plugins.config.presets import GROUP  # reading YAML takes time that a list of plugins can spare

    infos = []
    for claim in discovery.group(GROUP):
        contents, problem = _looked_at(claim)
        file, state = locate(claim.entry_point), "broken" if problem else "ok"
        summary, place = ", ".join(contents), str(file) if file else ""
        infos.append(
            PluginInfo("presets", claim.name, claim.distribution, claim.version, state, problem, summary, place)
        )
    return infos


def _looked_at(claim: discovery.Declaration) -> tuple[list[str], str]:
    """Return what a package of the group contains, as texts, and what is wrong with it."""
    from maze_core.plugins.config.presets import package_folder, presets_of_package, readable, yaml_files

    try:
        module = claim.entry_point.module
    except (AttributeError, ValueError):  # a malformed value
        return [], f"{claim.entry_point.value!r} is not the name of a package"
    if package_folder(module) is None:
        return [], f"there is no package {module}"
    problems: list[ConfigError] = []
    of = [pair for each in presets_of_package(module) for pair in each.contents(problems.append)]
    files = [file for each in presets_of_package(module, folder="experiments") for file in yaml_files(each.folder)]
    found = [f"{name} ({algorithm})" for name, algorithm in of]
    found += [f"{file.stem} (experiment)" for file in files if readable(file, problems.append) is not None]
    if not found and not problems:
        return [], f"{module} has neither presets nor experiments"
    return found, "\n".join(map(str, problems))


def _info(claim: discovery.Declaration, file: Path | None, record: list[str]) -> PluginInfo:
    state, detail, summary = record
    place = str(file) if file else ""
    return PluginInfo(claim.kind, claim.name, claim.distribution, claim.version, state, detail, summary, place)


def _with_clashes(infos: list[PluginInfo]) -> list[PluginInfo]:
    count = Counter((info.kind, info.name) for info in infos)
    return [_rival(info, infos) if count[info.kind, info.name] > 1 else info for info in infos]


def _rival(info: PluginInfo, infos: list[PluginInfo]) -> PluginInfo:
    """Return the entry of one of several plugins that claim a name: `clash`, unless it is the one that is used."""
    hidden = [claim.distribution for claim in discovery.hidden(info.kind, info.name)]
    rivals = [f"{i.distribution} {i.version}" for i in infos if (i.kind, i.name) == (info.kind, info.name)]
    if info.distribution in hidden:
        detail = "Maze has a command of this name, so this one is never called"
    elif len(rivals) > 1 + len(hidden):
        detail = "its distribution claims the name twice"
        if len(owners := sorted(set(rivals))) > 1:
            detail = f"claimed by {' and '.join(owners)}: uninstall one"
    else:
        return info
    return PluginInfo(**{**asdict(info), "state": "clash", "detail": detail})


def _installation() -> str:
    """Return a key that changes when a package on `sys.path` is installed, removed or upgraded."""
    return _digest([_FORMAT, sys.executable, discovery.core_version(), [(p, _mtime(p)) for p in sys.path]])


def _key(claim: discovery.Declaration, file: Path | None, installation: str) -> str:
    """Return a key that changes with the plugin's distribution and with the source files in its folder."""
    sources: list[tuple[str, int, int]] = []
    if file:
        with suppress(OSError), os.scandir(file.parent) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    stat = entry.stat()
                    sources.append((entry.name, stat.st_mtime_ns, stat.st_size))
    identity = [claim.kind, claim.name, claim.origin, claim.entry_point.value, str(file)]
    return _digest([installation, *identity, sorted(sources)])


def _digest(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _mtime(path: str) -> int:
    try:
        return os.stat(path or ".").st_mtime_ns  # noqa: PTH116 — sys.path holds strings, and many of them
    except OSError:
        return -1


def _cache_file() -> Path | None:
    """Return the cache file, one per Python installation; None if there is no home folder."""
    folder = cache_folder()
    return folder and folder / f"plugins-{_digest(sys.prefix)[:12]}.json"


def _read(cache: Path | None) -> dict[str, list[str]]:
    """Return the well-formed records of the cache; a damaged cache counts as empty."""
    try:
        data = json.loads(cache.read_text(encoding="utf-8")) if cache else {}
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {
        key: record
        for key, record in data.items()
        if isinstance(record, list) and len(record) == 3 and all(isinstance(part, str) for part in record)
    }


def _write(cache: Path | None, records: dict[str, list[str]]) -> None:
    if cache is None:
        return
    with suppress(OSError):  # the cache only saves time
        cache.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=cache.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(records, file)
        Path(name).replace(cache)
