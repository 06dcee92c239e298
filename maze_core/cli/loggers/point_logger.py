"""What loggers that send the curves of a run elsewhere have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from maze_core.cli.loggers.points import Point, point
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from maze_core.run.report import EpochReport
    from maze_core.run.run import Run


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
