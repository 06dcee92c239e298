"""Shows a run in the console while it trains: a terminal with a live status at its bottom, or plain lines."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from maze_core.base.metrics import RETURN
from maze_core.base.terminal_text import argument, counted, printable
from maze_core.cli.console_table import AskedMetrics, EpochTable, Line, duration, score
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.extensions import in_notebook
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.python_words import translated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType
    from rich.live import Live

    from maze_core.cli.console_status import Status
    from maze_core.run.report import EpochReport, RunSummary
    from maze_core.run.run import Run


class ConsoleConfig(PluginConfig):
    """How much the console shows."""

    style: Literal["auto", "live", "plain", "quiet"] = "auto"
    """`live`: a table and a moving progress line; `plain`: lines only; `quiet`: no output; `auto`: live on a
    terminal, otherwise plain."""
    metrics: tuple[str, ...] = ()
    """Metrics that are shown as columns before the algorithm's own, such as `[eval/kpi/waste]`."""


class Console(Plugin):
    """Say what is trained, report every epoch as a row of a table, and end with what to type next."""

    Config: ClassVar[type[PluginConfig]] = ConsoleConfig
    config: ConsoleConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._here = Path.cwd()  # an environment may change it
        self._output: Output | None = None
        self._table: EpochTable | None = None
        self._status: Status | None = None
        self._gap = GreedyGap()
        self._asked = AskedMetrics(self.config.metrics)

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Write the header; on a terminal, start the live status."""
        if self.config.style == "quiet":
            return
        shown: Output | None = in_notebook("output") if self.config.style == "auto" else None
        live = self.config.style == "live" or (self.config.style == "auto" and is_terminal()) or shown is not None
        unicode = writes_unicode()
        self._output = shown or (LiveOutput() if live else PlainOutput())
        asked = {name: printable(name.removeprefix("train/"), 40) for name in self.config.metrics}
        self._table = EpochTable(run.total_env_steps, unicode, run.algorithm.columns, asked, run.config.judged_by)
        for line in header(run, self._here):
            self._output.write(line)
        output = self._output
        run.progress.tell = lambda text: output.write([("  " + text, "dim")])
        if live:
            from maze_core.cli.console_status import Status

            self._status = Status(run, "·" if unicode else "|")
            self._output.start(self._status)

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Write the epoch's row."""
        if self._output is None or self._table is None:
            return
        self._gap.add(epoch.metrics)
        if self._status is not None:
            self._status.epoch_ended(epoch)
        self._write_row(self._output, self._table, epoch)

    @hookimpl
    def on_evaluation(self, run: Run, epoch: EpochReport) -> None:
        """Write a row for an evaluation within an epoch."""
        if self._output is not None and self._table is not None:
            self._write_row(self._output, self._table, epoch)

    def _write_row(self, output: Output, table: EpochTable, epoch: EpochReport) -> None:
        lines = table.lines(epoch, output.width())
        notes = [*self._asked.missing(epoch.metrics), *self._asked.left_out(table.left_out(), output.width())]
        for line in [*lines, *(_fact("note", each) for each in notes)]:
            output.write(line)

    @hookimpl
    def on_run_end(self, run: Run, summary: RunSummary) -> None:
        """Remove the live status; write how the run ended and what to type next."""
        if self._output is None:
            return
        self._output.stop()
        # Returns of an exploring policy say nothing about its samples.
        sampled = run.config.evaluation.deterministic and not run.explores
        gap = self._gap.find() if sampled and summary.outcome != "failed" else None
        advice = [] if gap is None else sampling_advice(run, summary, gap, self._here)
        for each in self._asked.missing(summary.final_evaluation, last=True):
            self._output.write(_fact("note", each))
        lines = ending(summary, writes_unicode(), run.config.judged_by)
        for line in [*lines, *advice, *next_commands(run, summary, self._here)]:
            self._output.write(line)
        self._output = self._table = self._status = None


def header(run: Run, here: Path) -> list[Line]:
    """Return lines about what is trained, on what, and where it is saved."""
    config = run.config
    environment = config.env_title
    counts = run.parameter_counts
    size = counts.get("total", sum(counts.values()))
    model = getattr(run.policy, "title", config.model.name)  # a plugin may have built another network
    lines: list[Line] = [
        [],
        [("Maze  ", "bold magenta"), (config.algorithm.name, "bold"), (" on ", ""), (environment, "bold")],
        _fact("model", f"{model}, {size:,} parameters" if counts else model),
        *([_fact("preset", run.preset)] if run.preset else []),
        *([_fact("from", _short(run.init_from, here))] if run.init_from else []),
        _fact("seed", str(config.seed)),
        *([_fact("run", _short(run.run_dir, here))] if run.run_dir else []),
        *(_fact("note", note) for note in run.notes),
    ]
    if run.resumed:
        where = f"after epoch {run.epoch}, {counted(run.env_steps, 'step')}"
        origin = run.forked_from
        lines.append(_fact("forked", f"from {_short(origin, here)}, {where}") if origin else _fact("resumed", where))
    return [*lines, []]


def ending(summary: RunSummary, unicode: bool, metric: str = RETURN) -> list[Line]:
    """Return lines about how the run ended and how good its policy is; `metric`: what it is judged by."""
    style = {"failed": "bold red", "interrupted": "bold yellow"}.get(summary.outcome, "bold green")
    # The error that ended a run is printed after this.
    reason = "" if summary.outcome == "failed" else summary.reason.removeprefix(f"{summary.outcome} ")
    lines: list[Line] = [[], [(summary.outcome, style), (f"  {reason}" if reason else "", "")]]
    lines.append(
        _fact(
            "trained",
            f"{counted(summary.env_steps, 'step')}, {counted(summary.updates, 'update')},"
            f" {counted(summary.epochs, 'epoch')} in {duration(summary.seconds)}",
        )
    )
    mean = summary.final_evaluation.get("eval/return_mean", math.nan)
    if not math.isnan(mean):
        std = summary.final_evaluation.get("eval/return_std", math.nan)
        lines.append(_fact("final", f"return {score(mean)} {'±' if unicode else '~'} {score(std, mean)}"))
    measure = ("return" if RETURN in summary.final_evaluation else "score") if metric == RETURN else metric
    if summary.best_score is not None:
        beyond = summary.best_violation
        note = f"; no policy satisfies the constraints: it violates them least, by {beyond:.0%}" if beyond else ""
        lines.append(_fact("best", f"{measure} {score(summary.best_score)}, after epoch {summary.best_epoch}{note}"))
    return [*lines, *agents_table(summary.final_evaluation)]


def agents_table(metrics: Mapping[str, float]) -> list[Line]:
    """Return a table of the agents' returns and lengths in the last evaluation; nothing for a single agent."""
    prefix, suffix = "eval/actor/", "/return_mean"
    names = [key[len(prefix) : -len(suffix)] for key in metrics if key.startswith(prefix) and key.endswith(suffix)]
    if not names:
        return []
    width = max(len("agent"), *map(len, names))
    lines: list[Line] = [[], [(f"  {'agent':<{width}}  {'return':>9}  {'actions':>8}", "dim")]]
    for name in names:
        mean, length = (metrics.get(f"{prefix}{name}/{what}_mean", math.nan) for what in ("return", "length"))
        lines.append([(f"  {name:<{width}}  {score(mean):>9}  {length:>8.1f}", "")])
    return lines


def sampling_advice(run: Run, summary: RunSummary, gap: Gap, here: Path) -> list[Line]:
    """Return lines about what to try if the policy is far better with sampled actions."""
    told = (
        f"the policy returned {score(gap.training, gap.evaluation)} in training, but only"
        f" {score(gap.evaluation, gap.training)} in evaluations, which take its most likely actions"
    )
    if run.run_dir is None:
        tries = ["evaluation.deterministic=false"]
    else:
        tries = [f"maze eval {argument(_short(run.run_dir, here))} --stochastic"]
        if summary.best_epoch != summary.epochs:
            tries.append(f"{tries[0]} --checkpoint last")
    return [_fact("note", told), *(_fact("try", translated(each) if run.in_python else each) for each in tries)]


def next_commands(run: Run, summary: RunSummary, here: Path | None = None) -> list[Line]:
    """Return lines with the next commands, typed in the folder `here`; `maze resume` only if the run was interrupted.

    The error of one that failed says how it goes on.
    """
    if run.run_dir is None or (summary.outcome == "failed" and not run.saving.has_progress):
        return []
    here = here or Path.cwd()
    folder = argument(_short(run.run_dir, here))
    commands = []
    if summary.outcome != "failed":
        commands.append(f"maze eval {folder}{'' if run.config.evaluation_episodes else ' --episodes 20'}")
    goes_on = (summary.outcome == "interrupted" or run.paused) and not run.finished
    if goes_on and (run.run_dir / "checkpoints" / "last").exists():
        commands.append(f"maze resume {folder}")
    if "tensorboard" in run.config.callbacks:
        commands.append(f"tensorboard --logdir {folder}")
    commands = [translated(each) for each in commands] if run.in_python else commands
    return [[], *([(f"  {command}", "cyan")] for command in commands)] if commands else []


def _fact(name: str, text: str) -> Line:
    return [(f"  {name:<8}", "dim"), (text, "")]


def _short(path: Path, here: Path) -> str:
    """Return the path relative to the folder `here` if it is below it, else the full path."""
    path = here / path
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


_EPOCHS = 5
"""Number of newest epochs to compare."""
_FEWEST = 3
"""Fewest epochs for a result."""
_ERRORS = 3.0
"""Standard errors that the difference must exceed."""
_SPREADS = 0.5
"""Standard deviations of training returns that make a difference large."""
_SHARE = 0.1
"""Share of the returns' magnitude that makes a difference large when returns hardly vary."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Mean returns of the newest epochs."""

    training: float
    evaluation: float


@dataclass(frozen=True, slots=True)
class _Epoch:
    training: float
    evaluation: float
    spread: float
    """Standard deviation of training returns."""
    variance: float
    """Squared standard error of the difference of the means."""


class GreedyGap:
    """Compares the returns of training and evaluation over the newest epochs."""

    def __init__(self) -> None:
        self._epochs: deque[_Epoch] = deque(maxlen=_EPOCHS)

    def add(self, metrics: dict[str, float]) -> None:
        """Add an epoch's metrics; an epoch without both kinds of episodes is ignored."""
        means, spreads, counts = (
            [metrics.get(f"{kind}/{name}", math.nan) for kind in ("train", "eval")]
            for name in ("return_mean", "return_std", "episodes")
        )
        if all(map(math.isfinite, [*means, *spreads, *counts])) and min(counts) >= 1:
            variance = sum(spread**2 / count for spread, count in zip(spreads, counts, strict=True))
            self._epochs.append(_Epoch(means[0], means[1], spreads[0], variance))

    def find(self) -> Gap | None:
        """Return the mean returns if training's are higher in every epoch, significantly and by much; else None."""
        count = len(self._epochs)
        if count < _FEWEST or any(each.training <= each.evaluation for each in self._epochs):
            return None
        training = sum(each.training for each in self._epochs) / count
        evaluation = sum(each.evaluation for each in self._epochs) / count
        chance = math.sqrt(sum(each.variance for each in self._epochs)) / count
        spread = math.sqrt(sum(each.spread**2 for each in self._epochs) / count)
        size = max(abs(training), abs(evaluation))
        large = max(_ERRORS * chance, _SPREADS * spread, _SHARE * size)
        return Gap(training, evaluation) if training - evaluation > large else None


REFRESHES_PER_SECOND = 4
PLAIN_WIDTH = 141


class Output(Protocol):
    """Where the console writes."""

    def width(self) -> int:
        """Return the current width of a line in characters."""

    def write(self, line: Line) -> None:
        """Write one line; a longer one is not cut."""

    def start(self, status: RenderableType) -> None:
        """Show the status and redraw it a few times a second, if the output supports it."""

    def stop(self) -> None:
        """Remove the status, if there is one."""


class PlainOutput:
    """Lines for files and pipes, each flushed, without colours or live status."""

    def width(self) -> int:
        """Return the terminal's width minus one; COLUMNS overrides it."""
        return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns - 1

    def write(self, line: Line) -> None:
        """Write and flush one line."""
        print(printable("".join(text for text, _ in line).rstrip()), flush=True)

    def start(self, status: RenderableType) -> None:
        """Do nothing: there is no live status."""

    def stop(self) -> None:
        """Do nothing: there is no live status."""


class LiveOutput:
    """A terminal. A thread of rich draws the status, so training does not wait for it."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False)
        self._live: Live | None = None

    def width(self) -> int:
        """Return the terminal's width minus one: some terminals wrap a line that fills the last column."""
        return self._console.width - 1

    def write(self, line: Line) -> None:
        """Write a line above the status; the terminal wraps a long one, so it can be copied whole."""
        from rich.text import Text

        self._console.print(Text.assemble(*((printable(text), style) for text, style in line)), soft_wrap=True)

    def start(self, status: RenderableType) -> None:
        """Show the status; other output appears above it."""
        from rich.live import Live

        self._live = Live(status, console=self._console, refresh_per_second=REFRESHES_PER_SECOND, transient=True)
        self._live.start()

    def stop(self) -> None:
        """Remove the status and end its thread."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def is_terminal() -> bool:
    """Return True if standard output is a terminal that can move its cursor; FORCE_COLOR does not make a pipe one."""
    return sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def writes_unicode() -> bool:
    """Return True if standard output can encode the non-ASCII characters that the console uses."""
    try:
        "±★·".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
