"""Forks of runs in a sweep: which values can change in one, and how one begins."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core import ConfigError, MazeError
from maze_core.base import files
from maze_core.base.errors import combined
from maze_core.base.files import GuardedFolder
from maze_core.plugins.config.checksummed_yaml import read_checksummed
from maze_core.plugins.config.record import CONFIG
from maze_core.run.saved.changed_env import differing
from maze_sweep.budget import CALLBACK, ENDS
from maze_sweep.searchers.space import Point

if TYPE_CHECKING:
    from maze_core import RunConfig
    from maze_core.plugins.config.assembly import Assembly
    from maze_sweep.plan import SweepPlan

_KEPT = ("env", "wrappers", "model", "algorithm.name")
"""What no fork changes: its networks and its unfinished episodes are those of the other run."""
_HINT = "Next: search it with --searcher random or asha, or fix it with --set"


def check_ends(plan: SweepPlan) -> None:
    """Raise ConfigError if trials differ in how far they train, and their searcher divides that into budgets."""
    for path in plan.space:
        if path in ENDS.values() or path == "algorithm":
            problem = f"{plan.searcher.name} divides how far runs train, which is the same for all"
            raise ConfigError(problem, f"over.{path}", "Next: leave it out, or --searcher random")


def check_forks(plan: SweepPlan, points: Iterable[Point], assembly: Assembly) -> None:
    """Fork a new run of the first point with the values of each other one, as trials do that go on from others.

    Raises:
        ConfigError: a value cannot change in a fork; the message names its path.
    """
    for path in plan.space:
        if any(f"{path}.".startswith(f"{kept}.") for kept in _KEPT) or path == "algorithm":
            problem = (
                f"{plan.searcher.name} cannot change it: a trial that goes on from another one has its environment"
            )
            hint = "Next: search it with --searcher random or asha, or fix it with --set"
            raise ConfigError(f"{problem}, model and algorithm", f"over.{path}", hint)
    first, *others = points
    problems: dict[str, MazeError] = {}
    with closing(GuardedFolder("maze-forks-")) as folder:
        source = folder.path / "first"
        _begin(plan, _probe(plan, first, assembly), source)
        for number, point in enumerate(others):
            other = _probe(plan, point, assembly)
            try:
                begin_fork(folder.path / str(number), source, other.model_dump(mode="json"), assembly)
            except MazeError as error:
                path = next(path for path in plan.space if point[path] != first[path])
                problems.setdefault(path, error)
    if problems:
        raise combined([_cannot_change(path, error, plan.searcher.name) for path, error in problems.items()])


def _probe(plan: SweepPlan, point: Point, assembly: Assembly) -> RunConfig:
    """Return the configuration of a run that pauses after its first update and tells nobody."""
    config, _ = plan.run_config(point, assembly, {f"callbacks.{CALLBACK}": {"name": CALLBACK, "steps": 1}})
    acting = ("build_policy", "build_planner")
    kept = {
        key: each
        for key, each in config.callbacks.items()
        if key == CALLBACK or any(hasattr(each.plugin_class("callback"), hook) for hook in acting)
    }
    evaluation = config.evaluation.model_copy(update={"n_episodes": 0})
    return config.model_copy(update={"seed": plan.seeds[0], "callbacks": kept, "evaluation": evaluation})


def _begin(plan: SweepPlan, config: RunConfig, run_dir: Path) -> None:
    """Train a run for one update: what is saved before it does not yet say all that a fork has to fit."""
    from maze_core.run import api

    with closing(api.start(config, run_dir, None if plan.init_from is None else Path(plan.init_from))) as run:
        api.carry_out(run)


def _cannot_change(path: str, error: MazeError, searcher: str) -> ConfigError:
    reason = " ".join(str(error).partition("\n")[0].split())
    problem = f"{searcher} cannot change it in a run that goes on from another one: {reason}"
    return ConfigError(problem, f"over.{path}", _HINT)


def begin_fork(run_dir: Path, parent: Path, config: dict[str, Any], assembly: Assembly) -> None:
    """Create the folder of a run that begins with the last state of its parent, and its own configuration.

    Killed before it is complete, there is no such folder.

    Raises:
        ConfigError, CheckpointError: the parent has no complete checkpoint, or the configuration cannot go on from it.
    """
    from maze_fork.directory import fork_directory

    from maze_core.run.saved.saved_run import reopen

    home = run_dir.parent
    for name in files.names(home, home):
        if files.is_leftover(name, run_dir.name):
            files.discard(home / name, home)
    fresh = run_dir.with_name(files.leftover(run_dir.name))
    try:
        fork_directory(parent, fresh)
        changed = differing(read_checksummed(fresh / CONFIG), config)
        overrides = [f"{path}={_text(value)}" for path, _, value in changed]
        reopen(fresh, overrides, assembly=assembly, agreed=config, named=parent).close()
        files.rename(fresh, run_dir, home)
    except BaseException:
        files.discard(fresh, home)
        raise
    files.sync(home, home)


def _text(value: Any) -> str:
    """Return a value as `path=value` takes it."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": ".inf", "-inf": "-.inf"}.get(str(value), ".nan")
    return json.dumps(value)
