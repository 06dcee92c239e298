"""The live status at the bottom of the terminal: the run's progress and remaining time."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from maze_core.cli.console_table import duration, rate, score

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from maze_core.run.report import EpochReport
    from maze_core.run.run import Run


class Status:
    """A rich renderable that reads the run's live counters each time rich's thread draws it."""

    def __init__(self, run: Run, separator: str) -> None:
        from rich.spinner import Spinner

        self._run = run
        self._separator = f" {separator} "
        self._spinner = Spinner("dots" if separator == "·" else "line")
        self._epochs_done = run.epoch
        self._last_metrics: dict[str, float] = {}
        self._started_at = time.monotonic()
        self._steps_at_start = run.env_steps
        self._fraction_at_start = self.fraction() or 0.0

    def epoch_ended(self, epoch: EpochReport) -> None:
        """Show the newest evaluation from now on."""
        self._last_metrics = epoch.metrics
        self._epochs_done = epoch.epoch

    def fraction(self) -> float | None:
        """Return the fraction of the run that is done, in [0, 1]; None if it has no fixed end."""
        run = self._run
        parts = []
        if run.total_env_steps:
            parts.append(run.progress.env_steps / run.total_env_steps)
        if run.total_epochs:
            of_this_epoch = min(run.state.updates_in_epoch / run.epoch_length, 1.0)
            parts.append((self._epochs_done + of_this_epoch) / run.total_epochs)
        return min(max(parts), 1.0) if parts else None

    def seconds_left(self) -> float | None:
        """Return the remaining seconds at this process's pace, evaluations included; None if unknown."""
        fraction = self.fraction()
        if fraction is None or fraction <= self._fraction_at_start:
            return None
        elapsed = time.monotonic() - self._started_at
        return elapsed * (1.0 - fraction) / (fraction - self._fraction_at_start)

    def items(self) -> list[tuple[int, str]]:
        """Return items (rank, text); if the line is too short, high ranks are left out."""
        run, left = self._run, self.seconds_left()
        evaluation = self._last_metrics.get("eval/return_mean", math.nan)
        total = f"/{run.total_env_steps:,}" if run.total_env_steps else ""
        elapsed = time.monotonic() - self._started_at
        return [
            (0, f"epoch {self._epochs_done + 1}"),
            (3, f"{run.progress.env_steps:,}{total} steps"),
            (2, f"{rate(self._steps_per_second())}/s"),
            (1, f"{duration(left)} left" if left is not None else f"{duration(elapsed)} gone"),
            *([(5, f"eval {score(evaluation)}")] if not math.isnan(evaluation) else []),
            *([(4, f"best {score(run.best_score)}")] if run.best_score is not None else []),
        ]

    def _steps_per_second(self) -> float:
        if "time/env_steps_per_second" in self._last_metrics:
            return float(self._last_metrics["time/env_steps_per_second"])
        elapsed = time.monotonic() - self._started_at
        return (self._run.progress.env_steps - self._steps_at_start) / max(elapsed, 1e-3)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw one line of at most `options.max_width` characters."""
        from rich.table import Table
        from rich.text import Text

        indicator, used = self._indicator(20 if options.max_width >= 100 else 10)
        now = self._run.progress.phase
        ends = self._run.interrupted and now == "training"
        phase = Text(f"{'stopping' if ends else now:<10}", style="bold")
        text = fit(self.items(), self._separator, options.max_width - used - len(phase) - 3)
        line = Table.grid(padding=(0, 1, 0, 0))
        line.add_row(phase, indicator, Text(text, no_wrap=True, overflow="crop"))
        yield line

    def _indicator(self, width: int) -> tuple[RenderableType, int]:
        """Return a bar with a percentage if the end is known, else a spinner; and its width in characters."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        fraction = self.fraction()
        if fraction is None:
            return self._spinner, 1
        bar = Table.grid(padding=(0, 1, 0, 0))
        bar.add_row(ProgressBar(total=1.0, completed=fraction, width=width), f"{fraction:4.0%}")
        return bar, width + 6


def fit(items: list[tuple[int, str]], separator: str, width: int) -> str:
    """Join the texts of items (rank, text) in order; high ranks are left out to fit into `width` characters."""
    kept = list(items)
    while True:
        text = separator.join(words for _, words in kept)
        if len(text) <= width or not kept:
            return text
        kept.remove(max(kept))
