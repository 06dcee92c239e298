"""Whether the runs of a sweep record the metric that ranks its trials, and what to say if they do not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core import ConfigError
from maze_core.base.metrics import metric_named
from maze_core.base.plain_json import is_number
from maze_core.base.terminal_text import argument, printable, shown
from maze_sweep.searchers.space import Range, Space

if TYPE_CHECKING:
    from maze_sweep.trials import SweepRun

_STATISTICS = ("return_mean", "return_std", "return_min", "return_max", "length_median", "episodes", "steps")
"""What every evaluation reports; an environment may report other values, later ones too."""
_RETURNS = {"return", "returns", "reward", "rewards"}
_LIKE_THEM = 0.6
_MISTYPED = 0.7
"""Similarities from which one name is taken for another."""
_SHOWN = 8


class MetricWatch:
    """Notices as early as is safe that no run will ever record a metric.

    | metric | it is wrong |
    |---|---|
    | `eval/…`, similar to a statistic of every evaluation or about returns | after the first evaluation |
    | `train/…`, likewise | when the first run has finished: an episode has to end |
    | `eval/…` and `train/…` otherwise | never: the environment may report it later, or in other trials |
    | `loss/…`, `time/…` | when the first run has finished, if the trials differ in numbers only |
    | any other, similar to a recorded one | after the first evaluation |
    | any other | as `loss/…` |
    """

    def __init__(self, metric: str, space: Space) -> None:
        self.metric = metric
        self.known: set[str] = set()
        """The names that runs have recorded."""
        self._alike = all(isinstance(each, Range) or all(map(is_number, each.values)) for each in space.values())

    def is_wrong(self, lines: Iterable[Mapping[str, Any]], run: SweepRun) -> bool:
        """Take note of new lines of a run's `metrics.jsonl`; return True if its metric will never come."""
        self.known.update(*lines)
        finished = run.state == "finished"
        if finished:
            self.known |= final_metrics(run)
        if metric_named(dict.fromkeys(self.known, True), self.metric):
            return False
        group, _, name = self.metric.rpartition("/")
        if group in ("eval", "train"):
            return _like_a_statistic(name) and (finished or (group == "eval" and self._evaluated))
        if self.metric.startswith(("eval/", "train/")):
            return False
        mistyped = self._evaluated and group not in ("loss", "time") and bool(near(self.metric, self.known, _MISTYPED))
        return mistyped or (finished and self._alike)

    @property
    def _evaluated(self) -> bool:
        return any(name.startswith("eval/") for name in self.known)


def _like_a_statistic(name: str) -> bool:
    similar = difflib.get_close_matches(name.lower(), _STATISTICS, n=1, cutoff=_LIKE_THEM)
    return bool(similar) or not _RETURNS.isdisjoint(name.lower().split("_"))


def final_metrics(run: SweepRun) -> set[str]:
    """Return the names of a finished run's final evaluation."""
    record = run.record()
    final = {} if record is None else record.summary.get("final_evaluation")
    return set(final) if isinstance(final, dict) else set()


def near(metric: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return up to three recorded names that are similar to one, or whose last part is."""
    names = sorted(name for name in known if "/" in name)  # others are counters
    found = difflib.get_close_matches(metric.lower(), names, n=3, cutoff=cutoff)
    ends: dict[str, list[str]] = {}
    for name in names:
        ends.setdefault(name.rpartition("/")[2], []).append(name)
    alike = difflib.get_close_matches(metric.lower().rpartition("/")[2], list(ends), n=3, cutoff=cutoff)
    return list(dict.fromkeys([*found, *(name for end in alike for name in ends[end])]))[:3]


def unrecorded(metric: str, known: set[str], folder: Path, *, rank: bool = False, early: bool = False) -> ConfigError:
    """Return the error for a metric that no run records, with names of those that are recorded.

    `rank`: only a ranking was asked for. `early`: runs go on, and might record it yet.
    """
    goes_on = f"maze sweep --dir {argument(folder)}{' --rank' if rank else ''} --metric"
    if metric in known:
        return ConfigError(f"no run has a number for {shown(metric)}", "metric", f"Next: {goes_on} NAME")
    if not known:
        hint = "They write no metrics.jsonl: the callback jsonl was left out."
        return ConfigError(f"no run records {shown(metric)}", "metric", hint)
    similar = near(metric, known)
    if similar:
        hint = f"Did you mean {' or '.join(map(printable, similar))}?\nNext: {goes_on} {argument(similar[0])}"
    else:
        names = sorted(known, key=lambda name: (not name.startswith("eval/"), name))
        hint = f"They record {', '.join(map(printable, names[:_SHOWN]))}{', …' if len(names) > _SHOWN else ''}"
        hint = f"{hint}\nNext: {goes_on} NAME"
    if early:
        hint = f"{hint}\nIf it comes later in a run: {goes_on} {argument(metric)} --late-metric"
    return ConfigError(f"no run records {shown(metric)}", "metric", hint)
