"""Shows a running sweep: a live table on a terminal, otherwise a line for each run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from maze_compare.groups import MISSING, number, short

from maze_core.base.metrics import metric_named
from maze_core.base.terminal_text import counted, printable
from maze_sweep.pace import Pace, share_done, words
from maze_sweep.pool import JobEnd
from maze_sweep.ranking import FAILED, brief, ranked, table, title
from maze_sweep.sweep import Sweep, Watch
from maze_sweep.trials import SweepRun, Trial

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_SHOWN = 8
"""Trials that the live table shows."""


@contextmanager
def display(quiet: bool = False) -> Iterator[Watch]:
    """Return a `Watch` that shows a sweep's progress on the error output."""
    if quiet:
        yield lambda sweep, end: None
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
            paces: list[Pace] = []

            def show(sweep: Sweep, end: JobEnd | None) -> None:
                if not paces:
                    paces.append(Pace(sweep))
                if end is not None and end.outcome in FAILED:
                    live.console.print(printable(_line(sweep, end)), markup=False, highlight=False)
                live.update(_picture(sweep, paces[0]), refresh=True)

            yield show


class _Lines:
    """Prints a line at the start, one for each run that ends, and one if the sweep is interrupted."""

    def __init__(self) -> None:
        self._interrupted = False
        self._pace: Pace | None = None

    def __call__(self, sweep: Sweep, end: JobEnd | None) -> None:
        if self._pace is None:
            self._pace = Pace(sweep)
            print(printable(heading(sweep)), file=sys.stderr, flush=True)
        if end is not None:
            left = words(self._pace.seconds_left(sweep))
            print(printable("  ".join(filter(None, (_line(sweep, end), left)))), file=sys.stderr, flush=True)
        if sweep.interrupted_by is not None and not self._interrupted:
            self._interrupted = True
            print(_counts(sweep), file=sys.stderr, flush=True)


def heading(sweep: Sweep) -> str:
    """Return a description of the sweep in one line."""
    trials, seeds = counted(sweep.total_trials, "trial"), counted(len(sweep.plan.seeds), "seed")
    about = "about " * sweep.searcher.open_ended
    return f"sweep of {about}{trials} with {seeds} each: {counted(sweep.total_runs, 'run')} in {sweep.folder}"


def _line(sweep: Sweep, end: JobEnd) -> str:
    trial, run = next((trial, run) for trial in sweep.trials for run in trial.runs if run.name == end.name)
    done = sweep.total_runs - sum(run.state in ("waiting", "running") for run in sweep.runs)
    done -= len(sweep.plan.seeds) * (sweep.total_trials - len(sweep.trials))
    parts = [f"[{done}/{sweep.total_runs}] {run.name} {run.state}", _point(trial)]
    if run.state in FAILED:
        parts += [run.reason, f"log: {run.log}"]
    else:
        parts.append(_progress(run, sweep))
    return "  ".join(parts)


def _point(trial: Trial) -> str:
    return " ".join(f"{short(path)}={brief(value)}" for path, value in trial.point.items())


def _progress(run: SweepRun, sweep: Sweep) -> str:
    if not run.epochs:
        record = run.record() if run.state == "finished" else None  # one that has paused within its first epoch
        return "no epoch yet" if record is None else f"{record.count('env_steps'):,.0f} steps"
    last = run.epochs[-1]
    value = metric_named(last, sweep.plan.metric)
    shown = MISSING if value is None else number(value)
    return f"epoch {last['epoch']:,}, {run.count('env_steps'):,} steps, {title(sweep.plan.metric)} {shown}"


def _picture(sweep: Sweep, pace: Pace) -> RenderableType:
    from rich.columns import Columns
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Column, Table

    under_way = Table(title="running", title_justify="left", box=None)
    for name in ("run", "point", "so far"):
        under_way.add_column(name, justify="left")
    for trial in sweep.trials:
        for run in trial.runs:
            if run.state == "running":
                under_way.add_row(*map(_text, (run.name, _point(trial), _progress(run, sweep))))
    headers, rows = table(sweep, [trial for trial in ranked(sweep) if trial.ended][:_SHOWN])
    best = Table(*(Column(_text(each)) for each in headers), title="best so far", title_justify="left", box=None)
    for row in rows:
        best.add_row(*map(_text, row))
    share = share_done(sweep)
    left = "  ".join(filter(None, (f"{share:.0%}", words(pace.seconds_left(sweep)))))
    bar = Columns([ProgressBar(total=1, completed=share, width=40), _text(left)])
    parts: list[Any] = [_text(heading(sweep)), under_way, *([best] if rows else []), bar, _text(_counts(sweep))]
    return Group(*parts)


def _text(text: str) -> Text:
    from rich.text import Text

    return Text(printable(text))


def _counts(sweep: Sweep) -> str:
    done, failed = sweep.count("finished"), sweep.count(*FAILED)
    parts = [f"{done} of {sweep.total_runs} finished", f"{sweep.count('running')} running"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{sweep.count('pruned')} pruned"] if sweep.count("pruned") else []
    if sweep.interrupted_by is not None:
        parts.append(
            f"ending after {sweep.interrupted_by}: running runs are saved first (interrupt again to stop immediately)"
        )
    return ", ".join(parts)
