"""Where an exported policy comes from: the run, its checkpoint and score, as plain data without paths of Maze's own."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from maze_core.base.metrics import metric_named
from maze_core.base.terminal_text import counted
from maze_core.plugins.config.external_fields import Outside, marked_fields
from maze_core.plugins.config.record import CONFIG
from maze_core.run.saved.append_only import METRICS_FILE
from maze_core.run.saved.manifest import CHECKPOINTS, MODEL
from maze_core.run.saved.metrics_file import read_metrics
from maze_core.run.saved.run_dir import versions

if TYPE_CHECKING:
    from maze_core import PluginConfig, Run

_SCORES = ("eval/return_mean", "eval/return_std", "eval/episodes")
_ELSEWHERE = (Outside.FOLDER, Outside.ADDRESS, Outside.CONNECTION)


def facts_of(run: Run) -> dict[str, Any]:
    """Return what a file says of the run that its policy comes from."""
    origin = {
        "name": None if run.run_dir is None else run.run_dir.resolve().name,
        "algorithm": run.config.algorithm.name,
        "env": run.config.env_title,
        "wrappers": [wrapper.name for wrapper in run.config.wrappers],
        "epoch": run.epoch,
        "env_steps": run.env_steps,
        "seed": run.seed,
        "checkpoint": run.checkpoint,
        "score": _score(run),
        "sha256": _sums(run),
    }
    if planners := planner_names(run):
        origin["without_look_ahead_of"] = list(planners)
    return {
        "description": _description(run),
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": origin,
        "env": _parameters(run.config.env),
        "wrappers": [_parameters(wrapper) for wrapper in run.config.wrappers],
        "versions": versions(["maze-export", "onnx", "onnxscript", "onnxruntime"]),
    }


def planner_names(run: Run) -> tuple[str, ...]:
    """Return the plugins with which a run looks ahead where it acts."""
    if run.planners is None or run.planning("acting") is None:
        return ()
    return run.planners.source.names


def _description(run: Run) -> str:
    """Return a sentence for people."""
    which = f"checkpoint {run.checkpoint}, " if run.checkpoint else ""
    score = _score(run)
    mean, count = (score.get(name) for name in ("return_mean", "episodes"))
    reached = "" if mean is None or count is None else f"; mean return {mean:.6g} of {counted(int(count), 'episode')}"
    after = f"{which}after epoch {run.epoch:,} and {run.env_steps:,} environment steps"
    return f"Policy of {run.config.algorithm.name} for {run.config.env_title}, {after}{reached}"


def _score(run: Run) -> dict[str, float]:
    """Return what the evaluation of this epoch found; empty if there was none."""
    if run.run_dir is None:
        return {}
    epochs = read_metrics(run.run_dir / METRICS_FILE).epochs
    found = [epoch for epoch in epochs if epoch.get("epoch") == run.epoch]
    asked = run.config.score
    names = (*_SCORES, *(() if asked is None else (asked.metric,)))
    values = {name.removeprefix("eval/"): metric_named(found[-1], name) for name in names} if found else {}
    return {name: value for name, value in values.items() if value is not None}


def _sums(run: Run) -> dict[str, str]:
    """Return the checksums of the files that the policy was read from; empty if it is that of a run in memory."""
    if run.run_dir is None or run.checkpoint is None:
        return {}
    places = {MODEL: run.run_dir / CHECKPOINTS / run.checkpoint / MODEL, CONFIG: run.run_dir / CONFIG}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in places.items() if path.is_file()}


def _parameters(config: PluginConfig) -> dict[str, Any]:
    """Return the parameters of an environment or a wrapper, without folders and addresses that it writes to."""
    private = {
        field.partition(".")[0] for field, mark in marked_fields(type(config)).items() if mark.kind in _ELSEWHERE
    }
    return config.model_dump(mode="json", exclude=private)
