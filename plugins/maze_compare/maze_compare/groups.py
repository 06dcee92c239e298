"""Groups runs that differ only in the seed, and finds where the groups differ."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from maze_compare.records import RunRecord
from maze_core import ConfigError
from maze_core.base.metrics import mean
from maze_core.base.terminal_text import printable

LEFT_OUT = ("seed", "callbacks.console", "callbacks.tensorboard", "callbacks.jsonl")
"""Paths ignored in comparisons: the seed, and callbacks that only display or log."""
MISSING = "-"
_SHOWN = 3
"""Most packages, and most versions of each, that are named."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation of values over several runs."""

    mean: float
    std: float | None
    """Standard deviation of the sample (n - 1); None for a single value."""
    count: int

    def __str__(self) -> str:
        return number(self.mean) if self.std is None else f"{number(self.mean)} ± {number(self.std, 3)}"


@dataclass(frozen=True, slots=True)
class Group:
    """Runs whose configurations differ only in the seed."""

    settings: dict[str, Any]
    """The flat configuration: a value for each path."""
    runs: tuple[RunRecord, ...]

    @property
    def seeds(self) -> list[int | None]:
        """The seeds of the runs."""
        return [run.seed for run in self.runs]


def spread(values: Iterable[float | None]) -> Spread | None:
    """Return mean and deviation of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(mean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


def no_metric(groups: Iterable[Group], metric: str) -> ConfigError:
    """Return the error for a metric that no run has; the message suggests others."""
    from maze_core.plugins.config.explain import nearest  # imports pydantic

    known = {name for each in groups for run in each.runs for epoch in run.epochs for name in epoch}
    return ConfigError(f"no run has {printable(metric)}; {nearest(metric, sorted(known))}", "--metric")


def number(value: float, digits: int = 5) -> str:
    """Format a number for tables with that many significant digits, and all digits before the point up to 1e15."""
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 1e15:
        return f"{value:.{digits}g}"
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:,.{digits}g}"


def group(runs: Iterable[RunRecord]) -> list[Group]:
    """Return the groups in the order in which they first appear."""
    members: dict[str, list[RunRecord]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for run in runs:
        flat = settings_of(run)
        key = json.dumps(flat, sort_keys=True, default=str)
        members.setdefault(key, []).append(run)
        settings[key] = flat
    return [Group(settings[key], tuple(each)) for key, each in members.items()]


def settings_of(run: RunRecord) -> dict[str, Any]:
    """Return a run's flat configuration without `LEFT_OUT`; with the run it started from, if any."""
    flat = flatten({key: value for key, value in run.config.items() if value is not None})
    # An empty mapping or list equals a missing one.
    kept = {path: value for path, value in flat.items() if value not in ({}, []) and not _left_out(path)}
    return kept | ({"init_from": run.facts["init_from"]} if run.facts["init_from"] else {})


def differing(groups: Sequence[Group]) -> list[str]:
    """Return the paths at which groups differ, in the order of the configuration; names of parts first.

    A path that only some plugins have (`algorithm.clip_range`) counts if the runs that have it differ in it; the
    plugin's name already shows that the others lack it.
    """
    paths = list(dict.fromkeys(path for each in groups for path in each.settings))
    found = [path for path in paths if len(_values(path, groups)) > 1 or _only_some(path, paths, groups)]
    return sorted(found, key=lambda path: not path.endswith((".name", ".id")))


def versions(groups: Iterable[Group]) -> list[str]:
    """Return the packages of which runs were written with different versions, some of them, as `maze-foo 1.0, 2.0`."""
    found: dict[str, set[str]] = {}
    for run in (run for each in groups for run in each.runs):
        for name, version in run.facts["versions"].items():
            found.setdefault(printable(name, 60), set()).add(printable(version, 20))
    return [f"{name} {', '.join(sorted(each)[:_SHOWN])}" for name, each in sorted(found.items()) if len(each) > 1][
        :_SHOWN
    ]


def text(value: Any) -> str:
    """Return a value of the configuration as shown in tables."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else str(value)
    return json.dumps(value) if isinstance(value, list | dict) else str(value)


def labels(groups: Sequence[Group]) -> list[str]:
    """Return a short label for each group: names of parts that differ, and as few other values as needed."""
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
    """Return a shortened path: `lr` for `algorithm.lr`, `model` for `model.name`."""
    part, _, rest = path.partition(".")
    return part if rest in ("name", "id") else path.removeprefix("algorithm.")


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Return leaves of nested mappings by path; lists of plain values are leaves, lists of mappings are numbered."""
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
    """Return True if only some groups have a path and no part's name explains that."""
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
