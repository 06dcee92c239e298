"""Reads a run from its directory. Nothing here imports torch or a plugin."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from maze_core import ConfigError
from maze_core.base.metrics import RETURN, VIOLATION, metric_named
from maze_core.base.plain_json import is_count, is_number
from maze_core.base.terminal_text import argument, printable
from maze_core.plugins.config.checksummed_yaml import read_checksummed
from maze_core.plugins.config.raw import Raw
from maze_core.plugins.config.record import CONFIG, FORKED_FROM, RECORD, read_record
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.found_run import no_run
from maze_core.run.saved.manifest import CHECKPOINTS, LAST, Extent, read_manifest, standing
from maze_core.run.saved.metrics_file import damage, read_metrics
from maze_core.run.saved.run_dir import is_locked

State = Literal["finished", "failed", "interrupted", "running", "killed"]
"""finished: completed or stopped early; killed: ended without a summary. `maze resume` continues the last three."""
Take = Literal["best", "last"]

_STATES: dict[str, State] = {
    "finished": "finished",
    "stopped": "finished",
    "failed": "failed",
    "interrupted": "interrupted",
}
_UNKNOWN = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class DamagedRun:
    """A folder that looks like a run but cannot be read."""

    path: Path
    reason: str
    """Why, in one line."""

    @property
    def changed(self) -> datetime:
        """Time at which its configuration was written, in UTC."""
        return _written(self.path)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as read from its directory."""

    path: Path
    config: Raw
    """The complete configuration as plain data."""
    facts: Raw
    """The contents of `run.json`."""
    epochs: tuple[dict[str, float | None], ...]
    """The lines of `metrics.jsonl`; empty if there is no such file."""
    state: State
    damage: str = ""
    """Damage in `metrics.jsonl`, in one sentence; empty if none."""

    @property
    def env(self) -> str:
        """The name of the environment."""
        env = self.config["env"]
        return str(env.get("id") or str(env.get("factory", "")).rpartition(":")[2] or env.get("name"))

    @property
    def algorithm(self) -> str:
        """The name of the algorithm."""
        return str(self.config["algorithm"].get("name"))

    @property
    def seed(self) -> int | None:
        """The seed; None if it was not saved."""
        seed = self.config.get("seed")
        return seed if is_count(seed) else None

    @property
    def started(self) -> datetime:
        """Start of the run in UTC; where the record names no possible one, when its configuration was written."""
        try:
            moment = datetime.fromisoformat(self.facts["started"]).astimezone(UTC)
        except (ValueError, OverflowError):
            return _written(self.path)
        return moment if _is_possible(moment) else _written(self.path)

    @property
    def summary(self) -> Raw:
        """How the run ended, as in `RunSummary`; empty before its end."""
        return self.facts.get("summary") or {}

    @property
    def reason(self) -> str:
        """Why it ended, in one sentence; empty if unknown."""
        return str(self.summary.get("reason", ""))

    @property
    def judged_by(self) -> tuple[str, bool]:
        """The metric by which the run tells its best policy, and whether lower values of it are better."""
        score = self.config.get("score")
        asked = score if isinstance(score, dict) else {}
        return str(asked.get("metric", RETURN)), asked.get("maximize") is False

    def count(self, name: str) -> float:
        """Return a counter: `env_steps`, `updates`, `seconds` or `epoch`."""
        found = self.summary.get("epochs" if name == "epoch" else name)
        if found is None and self.epochs:
            found = self.epochs[-1].get(name)
        return found if is_number(found) else 0

    def series(self, metric: str) -> list[float]:
        """Return the values of a metric by epoch, without missing ones."""
        return _series(self.epochs, metric)

    def value(self, metric: str | None = None, take: Take = "best", *, minimize: bool = False) -> float | None:
        """Return the best value of a metric over the epochs, or the last, that of the final evaluation if there is one.

        The best is one of an epoch that violates the constraints least. None if the run has no such value. `metric`
        None: what the run is judged by.
        """
        if metric is None:
            metric, lower = self.judged_by
            minimize = minimize or lower
        if take == "last":
            final = self.summary.get("final_evaluation") or {}
            found = _series([final], metric) if isinstance(final, dict) else []
            return next(reversed(found or self.series(metric)), None)
        having = [epoch for epoch in self.epochs if _series([epoch], metric)]
        least = min(map(_violation, having), default=0.0)
        series = _series([epoch for epoch in having if _violation(epoch) == least], metric)
        return (min if minimize else max)(series) if series else None

    def overview(self) -> dict[str, Any]:
        """Return what `maze runs --json` prints of the run."""
        return {
            "run": str(self.path),
            "env": self.env,
            "algorithm": self.algorithm,
            "seed": self.seed,
            "state": self.state,
            "reason": self.reason,
            "env_steps": self.count("env_steps"),
            "epochs": self.count("epoch"),
            "seconds": self.count("seconds"),
            "best_return": self.value(RETURN),
            "final_return": self.value(RETURN, "last"),
            "score": self.judged_by[0],
            "best_score": self.value(),
            "final_score": self.value(take="last"),
            "started": self.started.isoformat(),
            "forked_from": self.facts.get(FORKED_FROM),
        }


def _series(epochs: Iterable[Mapping[str, Any]], metric: str) -> list[float]:
    """Return the values of a metric, or of the KPI of its name, without missing ones."""
    return [value for epoch in epochs if is_number(value := metric_named(epoch, metric))]


def _violation(epoch: Mapping[str, Any]) -> float:
    """Return by how much an epoch's evaluation violates the constraints; infinity where nobody knows."""
    found = epoch.get(VIOLATION, 0.0)
    return found if is_number(found) else math.inf


def read_run(path: Path) -> RunRecord:
    """Return the run in the folder `path`.

    Raises:
        ConfigError: there is none, or a file is damaged.
    """
    if not os.path.lexists(path / CONFIG):
        raise no_run(path)
    config = read_checksummed(path / CONFIG)
    if not all(isinstance(config.get(part), dict) for part in ("env", "algorithm")):
        raise ConfigError(f"{path / CONFIG} is not the configuration of a run")
    facts = read_record(path)
    summary = facts.get("summary")
    outcome = summary.get("outcome") if isinstance(summary, dict) else None
    ended = _STATES.get(outcome) if isinstance(outcome, str) else None
    if summary is not None and ended is None:
        raise ConfigError(f"{path / RECORD} is damaged: it does not say how the run ended")
    state = ended or ("running" if is_locked(path) else "killed")
    try:
        metrics = read_metrics(path / METRICS_FILE)
    except OSError as error:
        raise ConfigError(f"{path / METRICS_FILE} cannot be read: {error.strerror}") from error
    # A run resumed from an earlier checkpoint has dropped epochs that the last checkpoint refers to.
    extents = {} if state == "running" else _last_extents(path)
    return RunRecord(path, config, facts, metrics.epochs, state, damage(path, metrics, extents))


def find_records(places: Iterable[Path], skipped: Callable[[str], None]) -> list[RunRecord]:
    """Return the runs in and below some folders, each once, sorted by path; `skipped` is called with damaged ones.

    Raises:
        ConfigError: a place does not exist or holds no run.
    """
    found = []
    for each in find_runs(places):
        if isinstance(each, DamagedRun):
            skipped(f"skipped {each.path}: {each.reason}")
        else:
            if each.damage:
                skipped(each.damage)
            found.append(each)
    return found


def find_runs(places: Iterable[Path]) -> list[RunRecord | DamagedRun]:
    """Like `find_records`, but include damaged runs in the result."""
    found: dict[Path, RunRecord | DamagedRun] = {}
    for place in places:
        if not os.path.exists(place):  # noqa: PTH110 — False for a name that is too long
            raise no_run(place)
        folders = list(run_folders(place))
        if not folders:
            csv = place.suffix == ".csv"
            hint = f"--csv {argument(place)}" if csv else "maze train ppo --env CartPole-v1"
            raise ConfigError(f"{printable(place, 200)} contains no run", hint=f"Next: {hint}")
        for folder in folders:
            if folder.resolve() not in found:
                found[folder.resolve()] = read_or_damaged(folder)
    return list(found.values())


def read_or_damaged(folder: Path) -> RunRecord | DamagedRun:
    """Return the run in a folder, or why it cannot be read."""
    try:
        return read_run(folder)
    except (ConfigError, OSError) as error:
        sentences = (" ".join(line.split()).rstrip(".") for line in str(error).splitlines())
        return DamagedRun(folder, ". ".join(sentences))


def _written(run_dir: Path) -> datetime:
    """Return when a configuration, or a link in its place, was written; 1970 if it does not say a possible time."""
    try:
        moment = datetime.fromtimestamp((run_dir / CONFIG).lstat().st_mtime, UTC)
    except (OSError, ValueError, OverflowError):
        return _UNKNOWN
    return moment if _is_possible(moment) else _UNKNOWN


def _is_possible(moment: datetime) -> bool:
    """Return True for a time that is valid in every time zone."""
    return 1971 <= moment.year < 9999


def run_folders(place: Path) -> Iterable[Path]:
    """Yield the folders that look like runs; runs are not nested."""
    for folder, below, names in os.walk(place):
        below.sort()
        if CONFIG in names:
            below.clear()
            yield Path(folder)


def _last_extents(run_dir: Path) -> dict[str, Extent]:
    """Return the extents of append-only files in the last checkpoint; empty if it has no readable manifest."""
    try:
        return read_manifest(standing(run_dir / CHECKPOINTS / LAST)).extents
    except (OSError, ValueError):
        return {}
