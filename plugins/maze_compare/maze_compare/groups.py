"""Runs that differ in nothing but the seed, together; and where the groups differ."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from maze_compare.records import RunRecord

LEFT_OUT = ("seed", "callbacks.console", "callbacks.tensorboard", "callbacks.jsonl")
"""Paths that do not make runs different experiments: the seed, and what only shows or logs."""
MISSING = "-"


@dataclass(frozen=True, slots=True)
class Spread:
    """Values of several runs in two numbers."""

    mean: float
    std: float | None
    """Standard deviation of the sample (n - 1); None for a single value."""
    count: int

    def __str__(self) -> str:
        return number(self.mean) if self.std is None else f"{number(self.mean)} ± {number(self.std, 3)}"


@dataclass(frozen=True, slots=True)
class Group:
    """Runs with the same configuration but for the seed."""

    settings: dict[str, Any]
    """The configuration, flat: a value for each path."""
    runs: tuple[RunRecord, ...]

    @property
    def seeds(self) -> list[int | None]:
        """The seeds of the runs."""
        return [run.seed for run in self.runs]


def spread(values: Iterable[float | None]) -> Spread | None:
    """Mean and deviation of the values that are there; None where none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


def number(value: float, digits: int = 5) -> str:
    """A number as tables show it: so many significant digits, and all digits before the point."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:,.{digits}g}"


def group(runs: Iterable[RunRecord]) -> list[Group]:
    """The groups in the order in which they first appear."""
    members: dict[str, list[RunRecord]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for run in runs:
        flat = settings_of(run)
        key = json.dumps(flat, sort_keys=True, default=str)
        members.setdefault(key, []).append(run)
        settings[key] = flat
    return [Group(settings[key], tuple(each)) for key, each in members.items()]


def settings_of(run: RunRecord) -> dict[str, Any]:
    """A run's configuration, flat, without what is left out; with the run it started from, where there was one."""
    flat = flatten({key: value for key, value in run.config.items() if value is not None})
    # An empty mapping or list says no more than a missing one.
    kept = {path: value for path, value in flat.items() if value not in ({}, []) and not _left_out(path)}
    return kept | ({"init_from": run.facts["init_from"]} if run.facts.get("init_from") else {})


def differing(groups: Sequence[Group]) -> list[str]:
    """The paths at which some of the groups differ, in the order of the configuration; names of parts first.

    A path that only some plugins have (`algorithm.clip_range`) counts where runs that have it differ in it; that the
    others lack it is told by the plugin's name.
    """
    paths = list(dict.fromkeys(path for each in groups for path in each.settings))
    found = [path for path in paths if len(_values(path, groups)) > 1 or _only_some(path, paths, groups)]
    return sorted(found, key=lambda path: not path.endswith((".name", ".id")))


def text(value: Any) -> str:
    """A value of the configuration as tables show it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else str(value)
    return json.dumps(value) if isinstance(value, list | dict) else str(value)


def labels(groups: Sequence[Group]) -> list[str]:
    """Each group in a few words: the names of its parts that differ, and as few other values as tell groups apart."""
    paths = differing(groups)
    found = [_label(each, paths) for each in groups]
    for path in sorted(paths, key=lambda path: len(_values(path, groups))):
        if path.endswith((".name", ".id")):
            continue
        fewer = [other for other in paths if other != path]
        shorter = [_label(each, fewer) for each in groups]
        if len(set(shorter)) == len(groups):
            paths, found = fewer, shorter
    return found


def short(path: str) -> str:
    """A path without what goes without saying: `lr` for `algorithm.lr`, `model` for `model.name`."""
    part, _, rest = path.partition(".")
    return part if rest in ("name", "id") else path.removeprefix("algorithm.")


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """The leaves of nested mappings by path; lists of plain values are leaves, lists of mappings are numbered."""
    if isinstance(tree, list) and any(isinstance(each, dict) for each in tree):
        tree = {str(index): each for index, each in enumerate(tree)}
    if not isinstance(tree, dict) or not tree:
        return {prefix: tree} if prefix else {}
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= flatten(value, f"{prefix}.{key}" if prefix else key)
    return found


def _left_out(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}.") for each in LEFT_OUT)


def _values(path: str, groups: Sequence[Group]) -> set[str]:
    return {json.dumps(each.settings[path], default=str) for each in groups if path in each.settings}


def _only_some(path: str, paths: Sequence[str], groups: Sequence[Group]) -> bool:
    """Whether only some groups have a path, and no name of a part explains that."""
    lacking = [each for each in groups if path not in each.settings]
    if not lacking:
        return False
    owner = f"{path.rpartition('.')[0]}.name"
    return path == owner or owner not in paths or len(_values(owner, groups)) < 2


def _label(each: Group, paths: Sequence[str]) -> str:
    parts = [
        text(each.settings[path]) if path.endswith((".name", ".id")) else f"{short(path)}={text(each.settings[path])}"
        for path in paths
        if path in each.settings
    ]
    return ", ".join(parts) or f"{each.runs[0].algorithm} on {each.runs[0].env}"
