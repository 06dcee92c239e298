"""How a run shows itself in a notebook: what is trained, how far, its curve, and what to call next."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core.base.metrics import RETURN, metric_named
from maze_core.base.terminal_text import counted
from maze_core.cli.console.table import duration, score
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.metrics_file import read_metrics
from maze_notebook.curve import Point, curve
from maze_notebook.markup import safe

if TYPE_CHECKING:
    from maze_core.plugins.config.run import RunConfig
    from maze_core.run.run import Run

_MOST_BYTES = 50_000_000
"""A longer file of metrics is not drawn: to read it would take seconds."""
_TRAINING = "train/return_mean"


def card(config: RunConfig, run: Run | None, trains: bool) -> str:
    """Return a run as HTML, in which nothing of a run directory is trusted.

    Args:
        config: of the run.
        run: it, once it is built; to show it builds nothing.
        trains: True if it can be trained, False if it was opened to act.
    """
    title = f"<b>{safe(config.algorithm.name)}</b> on <b>{safe(config.env_title)}</b>"
    epochs = () if run is None or run.run_dir is None else _epochs(run.run_dir)
    rows = "".join(f"<tr>{_cell(name, 0.65)}{_cell(text)}</tr>" for name, text in _facts(config, run, trains, epochs))
    table = f'<table style="border:0;margin:.3em 0;background:none">{rows}</table>'
    calls = "\n".join(map(safe, _next_calls(run, trains)))
    following = f'<pre style="margin:.3em 0;background:none;white-space:pre-wrap">{calls}</pre>'
    return f'<div style="max-width:540px">{title}{table}{_drawn(config, epochs)}{following}</div>'


def _cell(text: str, opacity: float = 1.0) -> str:
    return f'<td style="text-align:left;padding:.1em .8em .1em 0;border:0;opacity:{opacity}">{safe(text)}</td>'


def _epochs(folder: Path) -> Sequence[Mapping[str, Any]]:
    file = folder / METRICS_FILE
    try:
        return read_metrics(file).epochs if file.stat().st_size <= _MOST_BYTES else ()
    except OSError:
        return ()


def _facts(
    config: RunConfig, run: Run | None, trains: bool, epochs: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str]]:
    if run is None:
        seed = "drawn when it begins" if config.seed is None else str(config.seed)
        end = f"{counted(config.steps, 'step')}" if config.steps else "open"
        return [("seed", seed), ("end", end), ("state", "not begun")]
    facts = [("seed", str(config.seed)), ("state", _state(run, trains))]
    trained = f"{counted(run.env_steps, 'step')}, {counted(run.epoch, 'epoch')} in {duration(run.seconds)}"
    facts += [("trained", trained)] if run.env_steps else []
    if epochs and (last := _number(epochs[-1], RETURN)) is not None:
        deviation = _number(epochs[-1], "eval/return_std") or 0.0
        facts.append(("last", f"return {score(last)} ± {score(deviation, last)}"))
    if run.best_score is not None:
        facts.append(("best", f"{config.judged_by} {score(run.best_score)}"))
    return facts + ([] if run.run_dir is None else [("run", str(run.run_dir))])


def _state(run: Run, trains: bool) -> str:
    if not trains:
        return "opened to evaluate and to act"
    if (summary := run.summary) is not None:
        return f"{summary.outcome}: {summary.reason}" if summary.reason else summary.outcome
    return "not trained yet" if not run.env_steps else "finished" if run.finished else "to be continued"


def _drawn(config: RunConfig, epochs: Sequence[Mapping[str, Any]]) -> str:
    """Return the curve of what the run is judged by; of training's returns where nothing is evaluated."""
    for metric, spread in ((config.judged_by, "eval/return_std"), (_TRAINING, "train/return_std")):
        spread = spread if metric in (RETURN, _TRAINING) else ""
        if drawn := curve([each for epoch in epochs if (each := _point(epoch, metric, spread))], metric):
            return drawn
    return ""


def _point(epoch: Mapping[str, Any], metric: str, spread: str) -> Point | None:
    steps, value = _number(epoch, "env_steps"), _number(epoch, metric)
    return None if steps is None or value is None else (steps, value, _number(epoch, spread) or 0.0)


def _number(epoch: Mapping[str, Any], metric: str) -> float | None:
    known = {name: value for name, value in epoch.items() if isinstance(value, int | float)}
    value = metric_named(known, metric)
    return float(value) if value is not None and math.isfinite(value) else None


def _next_calls(run: Run | None, trains: bool) -> list[str]:
    if run is None:
        return ["context.train()"]
    folder = json.dumps(str(run.run_dir), ensure_ascii=False)
    if not trains:
        return ["context.evaluate(20)", "context.compute_action(observation)", f"RunContext.reopen({folder}).train()"]
    if not run.finished and run.summary is None:
        return ["context.train()"]
    more = [] if run.finished else [f"RunContext.reopen({folder}).train()"]
    return ["context.evaluate(20)", f"RunContext.open({folder})", *more]
