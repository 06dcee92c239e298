"""Whether the runs of a begun sweep have the settings that its plan gives now.

A plan names a preset and leaves values to defaults. Another version of a package may have others, and runs of both
would be ranked side by side.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from maze_core import ConfigError
from maze_core.base.terminal_text import argument, shown
from maze_core.plugins.config.record import changed_since

if TYPE_CHECKING:
    from pathlib import Path

    from maze_sweep.trials import Trial

_SHOWN = 3


def check_same_settings(trials: Iterable[Trial], folder: Path) -> None:
    """Check all runs that there are by the configurations of their trials.

    Raises:
        ConfigError: one has another value; the message names it, and which packages have changed.
    """
    for trial in trials:
        for run in trial.runs if trial.config is not None else ():
            record = run.record()
            if record is None or trial.config is None:
                continue
            now = trial.config.model_dump(mode="json", exclude={"seed"})
            if found := list(islice(_differences(record.config, now, ""), _SHOWN)):
                written = changed_since(run.run_dir)
                since = f"{run.name} was written with {', '.join(written)}. " if written else ""
                raise ConfigError(
                    f"{run.name} has {', '.join(found)}: runs with both cannot be compared",
                    "--dir",
                    f"{since}Next: install what the sweep began with, rank what there is (maze sweep --dir "
                    f"{argument(folder)} --rank), or begin another sweep.",
                )


def _differences(saved: Any, now: Any, place: str) -> Iterator[str]:
    """Yield what differs, as `algorithm.lr=0.1, and now would have 0.2`; what was not saved is new, and its default."""
    if isinstance(saved, dict) and isinstance(now, dict):
        for key in (key for key in now if key in saved):
            yield from _differences(saved[key], now[key], f"{place}.{key}" if place else key)
    elif isinstance(saved, list) and isinstance(now, list) and len(saved) == len(now):
        for number, (one, two) in enumerate(zip(saved, now, strict=True)):
            yield from _differences(one, two, f"{place}.{number}")
    elif saved != now and not _both_nan(saved, now):
        yield f"{place}={shown(saved)}, and now would have {shown(now)}"


def _both_nan(one: Any, two: Any) -> bool:
    return all(isinstance(each, float) and math.isnan(each) for each in (one, two))
