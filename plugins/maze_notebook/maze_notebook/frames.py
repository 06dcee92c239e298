"""Data frames of pandas: of evaluations, of episodes step by step, of the epochs of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core import ConfigError, RunContext, Trajectory
from maze_core.base.tolerant_output import to_stderr
from maze_core.run.python_words import translating
from maze_core.run.report import Scores
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.found_run import find_run
from maze_core.run.saved.metrics_file import damage, read_metrics

if TYPE_CHECKING:
    from pandas import DataFrame

_COLUMNS = 64
"""A longer vector is one column of arrays, as pictures are."""


def frame(found: Any) -> DataFrame:
    """Return scores as one row, episodes as one row for each step, and a list of mappings as one row for each.

    Raises:
        ConfigError: pandas is not installed.
    """
    pandas = _pandas()
    if isinstance(found, Scores):
        return pandas.DataFrame([dict(found)])
    if any(isinstance(each, Mapping) for each in found):
        return pandas.DataFrame(found)
    parts = [pandas.DataFrame(dict(_columns(number, each))) for number, each in enumerate(found)]
    return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame(columns=["episode", "step", "reward"])


@translating
def history(*runs: RunContext | Path | str) -> DataFrame:
    """Return the epochs of runs: `run`, `epoch`, `env_steps`, `updates`, `seconds`, and all metrics by name.

        history("runs/a", "runs/b").pivot(index="env_steps", columns="run", values="eval/return_mean").plot()

    Args:
        runs: contexts or run directories; `run` is the folder as given.

    Raises:
        ConfigError: one is no run, or pandas is not installed.
    """
    pandas = _pandas()
    parts = []
    for run in runs:
        folder = run.run_dir if isinstance(run, RunContext) else find_run(Path(run))
        metrics = read_metrics(folder / METRICS_FILE)
        if broken := damage(folder, metrics, {}):
            to_stderr(f"warning: {broken}")
        table = pandas.DataFrame(list(metrics.epochs)).astype(float)
        for counter in {"epoch", "env_steps", "updates"} & {*table.columns}:
            table[counter] = table[counter].astype("int64" if table[counter].notna().all() else float)
        table.insert(0, "run", str(folder if isinstance(run, RunContext) else run))
        parts.append(table)
    return pandas.concat(parts, ignore_index=True) if parts else pandas.DataFrame(columns=["run", "epoch"])


def _columns(number: int, episode: Trajectory) -> Iterator[tuple[str, Any]]:
    """Yield the columns of an episode of L steps: arrays [L] by name."""
    steps = len(episode)
    yield "episode", np.full(steps, number)
    yield "step", np.arange(steps)
    for tree in (episode.obs, episode.actions):
        yield from _leaves(tree, steps)
    yield "reward", episode.rewards
    if episode.wrapped_rewards is not None:
        yield "wrapped_reward", episode.wrapped_rewards
    last = np.arange(steps) == steps - 1
    yield "terminated", last & episode.terminated
    yield "truncated", last & episode.truncated


def _leaves(tree: Mapping[str, Any], steps: int) -> Iterator[tuple[str, Any]]:
    """Yield the leaves [L, …] of a tree: numbers as a column, vectors as one for each entry, pictures whole."""
    for name, leaf in tree.items():
        values = np.asarray(leaf)[:steps]
        if values.ndim == 1:
            yield name, values
        elif values.ndim == 2 and values.shape[1] <= _COLUMNS:
            yield from ((f"{name}[{place}]", values[:, place]) for place in range(values.shape[1]))
        else:
            yield name, list(values)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        problem = f"data frames need pandas, which is not installed ({error})"
        raise ConfigError(problem, hint="Next: pip install pandas") from error
    return pandas
