"""Sweeps from Python; `maze sweep` is built on this."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from maze_core import ConfigError
from maze_core.base.interruption import Preemption, graceful_interrupts
from maze_core.collect.policies.said_classes import said_classes
from maze_core.plugins.closing import releasing
from maze_core.plugins.config.assembly import Assembly, part_config
from maze_core.plugins.extensions import in_notebook
from maze_sweep.best_preset import write_best
from maze_sweep.plan import SweepPlan, make_plan, read_plan
from maze_sweep.pool import JobEnd, open_pool
from maze_sweep.ranking import check_ranked
from maze_sweep.sweep import Sweep, Watch


def run_sweep(
    plan: SweepPlan | Mapping[str, Any],
    folder: Path | str | None = None,
    *,
    jobs: int | None = None,
    runner: str | Mapping[str, Any] = "local",
    watch: Watch | None = None,
    said: Any = None,
) -> Sweep:
    """Execute a sweep, or continue an interrupted one; only missing runs are executed.

        sweep = run_sweep({"algorithm": "ppo", "env": "CartPole-v1", "over": {"algorithm.lr": [1e-4, 1e-3]}}, "lr")

    Ctrl-C and SIGTERM let running runs save themselves; a second one ends them at once. The same call continues.

    Args:
        plan: a plan, or plain data as in `sweep.yaml`.
        folder: the sweep's own folder; None: a new one below `runs/`.
        jobs: runs in parallel; None: as many as the runner chooses.
        runner: executes the runs: a runner that supports sweeps, by name or with parameters.
        watch: called with the progress.
        said: plain data that the user has typed: only these policy classes `module:Class` are used. None: the plan.

    Returns:
        The sweep: its `trials`, and the `runs` of each with `state` and `run_dir`. See `maze_sweep.ranking`.

    Raises:
        ConfigError: the plan is not valid; nothing was run. Or the runs do not record its metric: they have saved
            themselves, and the same sweep with another metric goes on.
        KeyboardInterrupt: it was interrupted; `read_sweep` returns what was reached.
    """
    try:
        sweep, preemption = execute_sweep(plan, folder, jobs=jobs, runner=runner, watch=watch, said=said)
        preemption.pass_on()
    except BaseException as error:
        in_notebook("shorten", error)
        raise
    return sweep


def execute_sweep(
    plan: SweepPlan | Mapping[str, Any],
    folder: Path | str | None = None,
    *,
    jobs: int | None = None,
    runner: str | Mapping[str, Any] = "local",
    watch: Watch | None = None,
    said: Any = None,
) -> tuple[Sweep, Preemption]:
    """Execute a sweep as `run_sweep` does, and return what was reached, also after a signal, which is not passed on.

    Arguments and errors as for `run_sweep`.
    """
    plan = plan if isinstance(plan, SweepPlan) else make_plan(plan)
    load = said_classes([plan.overrides, plan.over, plan.config] if said is None else said)
    part = {"name": runner} if isinstance(runner, str) else dict(runner)
    config = part_config("runner", part)
    with closing(Sweep(plan, None if folder is None else Path(folder), load)) as sweep:
        sweep.check()
        with releasing(open_pool(config, jobs)) as pool, graceful_interrupts(sweep.interrupt) as preemption:
            sweep.begin()
            sweep.carry_out(pool, watch or _say_nothing)
        write_best(sweep, Assembly(load))
    return sweep, preemption


def read_sweep(
    folder: Path | str, *, metric: str | None = None, take: str | None = None, minimize: bool | None = None
) -> Sweep:
    """Return a sweep as it stands, under way or not, to rank its trials; nothing is run or written.

    Args:
        folder: the sweep's folder.
        metric: rank by this one instead of the plan's.
        take: which of its values counts, instead of the plan's.
        minimize: True if smaller values are better, instead of what the plan says.

    Raises:
        ConfigError: there is no sweep, or no run has a value of the metric.
    """
    raw = read_plan(Path(folder))
    if not raw:
        raise ConfigError(f"{folder} contains no sweep", "--dir")
    changes = {"metric": metric, "take": take, "minimize": minimize}
    plan = make_plan(raw | {name: value for name, value in changes.items() if value is not None})
    with closing(Sweep(plan, Path(folder))) as sweep:
        sweep.look()
    check_ranked(sweep, rank=True)
    return sweep


def _say_nothing(sweep: Sweep, end: JobEnd | None) -> None:
    pass
