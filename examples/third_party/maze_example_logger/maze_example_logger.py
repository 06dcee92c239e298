"""A logger for Maze: one line of text for each epoch."""

from __future__ import annotations

from maze_core import EpochReport, Plugin, PluginConfig, Run, hookimpl


class ExampleLoggerConfig(PluginConfig):
    """The parameters of the logger."""

    file: str = "returns.txt"
    """Name of the file, in the run directory."""


class ExampleLogger(Plugin):
    """Write the mean return of each epoch's evaluation to a text file."""

    Config = ExampleLoggerConfig

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Append one line."""
        if run.run_dir is None:
            return
        with (run.run_dir / self.config.file).open("a", encoding="utf-8") as file:
            file.write(f"{epoch.epoch} {epoch.env_steps} {epoch.metrics['eval/return_mean']}\n")
