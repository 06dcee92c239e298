"""What a logger sends of a run, and when: the points of its curves, its configuration, its best checkpoint."""

from __future__ import annotations

import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core.base import files
from maze_core.base.plain_json import checksummed, parse_object, unsealed
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.record import CONFIG, RECORD, run_id
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.manifest import BEST, CHECKPOINTS

if TYPE_CHECKING:
    from maze_core.run.report import EpochReport
    from maze_core.run.run import Run


_COUNTERS = ("epoch", "env_steps", "updates", "seconds")
_OWNER = "of"
# The `run_id` of the run that a file belongs to.
_IDENTITY_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class Point:
    """One epoch on all curves of a run."""

    step: int
    """The x position: environment steps, or updates in a run that takes no steps."""
    seconds: float
    """Seconds of training since the start of the run."""
    values: dict[str, float]
    """The metrics that are finite, and `epoch`."""


def point(epoch: EpochReport) -> Point:
    """Return an epoch as a point."""
    return _point(epoch.epoch, epoch.env_steps, epoch.updates, epoch.seconds, epoch.metrics)


def points_so_far(run: Run) -> list[Point]:
    """Return the epochs that the run's state contains, oldest first, as `metrics.jsonl` holds them.

    A logger that starts in a resumed run sends those it has not sent before. Empty without the callback `jsonl`.
    """
    if run.run_dir is None:
        return []
    from maze_core.run.saved.metrics_file import read_metrics

    found: dict[int, Point] = {}
    for line in read_metrics(run.run_dir / METRICS_FILE).epochs:
        number, env_steps, updates, seconds = (line.get(name) for name in _COUNTERS)
        if isinstance(number, int) and isinstance(env_steps, int) and isinstance(updates, int) and number <= run.epoch:
            found.setdefault(number, _point(number, env_steps, updates, _finite(seconds) or 0.0, line))
    return [found[number] for number in sorted(found)]


def _point(epoch: int, env_steps: int, updates: int, seconds: float, metrics: Mapping[str, Any]) -> Point:
    values = {name: _finite(value) for name, value in metrics.items() if name not in _COUNTERS}
    finite = {name: value for name, value in values.items() if value is not None}
    return Point(env_steps or updates, seconds, {"epoch": float(epoch), **finite})


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def final_values(evaluation: Mapping[str, float]) -> dict[str, float]:
    """Return the finite metrics of a run's final evaluation, `final/…` instead of `eval/…`."""
    named = {"final/" + name.removeprefix("eval/"): _finite(value) for name, value in evaluation.items()}
    return {name: value for name, value in named.items() if value is not None}


def best_files(run_dir: Path) -> dict[str, Path]:
    """Return the files of the checkpoint `best` with the run's configuration and record, by path in `run_dir`.

    In a folder of their own they are a run directory, which `maze eval` opens. Empty if there is no such checkpoint.
    """
    folder = run_dir / CHECKPOINTS / BEST
    names = [f"{CHECKPOINTS}/{BEST}/{name}" for name in files.names(folder, run_dir)]
    return {name: run_dir / name for name in [CONFIG, RECORD, *names]} if names else {}


def read_identity(run_dir: Path, name: str) -> dict[str, str]:
    """Return what `write_identity` wrote; empty if nothing, and, with a warning, if the file is of no use.

    It is of no use where it is damaged, or was written for another run.
    """
    try:
        values = unsealed(parse_object(files.read_bytes(run_dir / name, _IDENTITY_BYTES)))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        warnings.warn(f"{run_dir / name} is damaged ({error}): the run gets a new id", RuntimeWarning, stacklevel=2)
        return {}
    owner, own = values.pop(_OWNER, None), run_id(run_dir)
    if owner is not None and own is not None and owner != own:
        message = f"{run_dir / name} belongs to another run: this run gets a new id"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return {}
    return {key: value for key, value in values.items() if isinstance(value, str)}


def write_identity(run_dir: Path, name: str, values: Mapping[str, str]) -> None:
    """Write under which id a logger knows the run to the file `name`, for a resume."""
    own = run_id(run_dir)
    owned = dict(values) if own is None else {**values, _OWNER: own}
    files.write_bytes(run_dir / name, json.dumps(checksummed(owned), indent=2).encode() + b"\n")


class PointLogger(Plugin, ABC):
    """Sends each epoch once, after the checkpoint that contains it: a killed and resumed run has no point twice."""

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.logged = -1
        """The x position of the newest point that was sent; a subclass sets it when it continues a run."""
        self._pending: list[Point] = []

    @abstractmethod
    def send(self, run: Run, points: Iterator[Point]) -> None:
        """Send points, oldest first; each counts as sent when the next one is asked for."""

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Keep the epoch until its checkpoint is written."""
        self._pending.append(point(epoch))

    @hookimpl
    def on_checkpoint(self, run: Run, path: Path) -> None:
        """Send the epochs that the checkpoint `last` contains."""
        if path.name == "last":
            self.send(run, self.unsent(self._pending))
            self._pending = []

    def unsent(self, points: Iterable[Point]) -> Iterator[Point]:
        """Yield the points that were not sent yet, for `send`."""
        for each in points:
            if each.step > self.logged:
                yield each
                self.logged = each.step
