"""Writes a run for TensorBoard: curves, histograms, figures, configuration and settings."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, ClassVar

from maze_loggers.settings import settings

from maze_core import Plugin, PluginConfig, hookimpl
from maze_tensorboard.event_file import HPARAMS, EventFile, Record, read_records
from maze_tensorboard.figures import pictures

if TYPE_CHECKING:
    from maze_events.histograms import Histogram

    from maze_core import EpochReport, Run, RunSummary

_FINAL = "final/"
_CONFIG = "config"
_SETTINGS = ("algorithm.", "env.", "model.", "seed", "steps", "wrappers")
_LONGEST = 200


class TensorBoardConfig(PluginConfig):
    """The parameters of `tensorboard`."""

    parameters: bool = False
    """Write a histogram of each of the policy's parameters after every epoch."""


class TensorBoard(Plugin):
    """Write all metrics over environment steps, and the configuration as text, into the run's `tensorboard/`.

    Events that environments report may have histograms; callbacks and algorithms may add figures. The tab HPARAMS
    compares runs by their settings.

    A run that takes no steps, as in behavioural cloning, is drawn over its updates.

    When training continues after a resume or an interruption, points of repeated epochs and of the final evaluation
    are withdrawn. A metric that is nan is left out of its curve. Without a run directory it does nothing.
    """

    Config: ClassVar[type[PluginConfig]] = TensorBoardConfig

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._parameters: bool = getattr(config, "parameters", False)
        self._events: EventFile | None = None

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Start the event file with the valid records of earlier ones, and the configuration if it changed."""
        if run.run_dir is None:
            return
        folder = run.run_dir / "tensorboard"
        kept = [record for record in read_records(folder, check=run.resumed) if _holds(record, run)]
        self._events = EventFile(folder, kept)
        page = _config_as_markdown(run)
        if page != _last_config(kept):
            self._events.write_text(_CONFIG, page, run.env_steps)
        self._events.write_settings(_settings(run), run.run_dir.name, run.env_steps)

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Write the epoch's metrics."""
        if self._events is not None:
            drawn = {**epoch.histograms, **(_parameters(run) if self._parameters else {})}
            self._events.write_points(epoch.metrics, _position(epoch), epoch.epoch, drawn)
            self._events.write_pictures(pictures(epoch.figures), _position(epoch), epoch.epoch)

    @hookimpl
    def on_evaluation(self, run: Run, epoch: EpochReport) -> None:
        """Write the metrics of an evaluation within an epoch."""
        if self._events is not None:
            self._events.write_points(epoch.metrics, _position(epoch), histograms=epoch.histograms)
            self._events.write_pictures(pictures(epoch.figures), _position(epoch))

    @hookimpl
    def on_run_end(self, run: Run, summary: RunSummary) -> None:
        """Write the final evaluation and close the file."""
        if self._events is None:
            return
        found = summary.final_evaluation.items()
        final = {_FINAL + name.removeprefix("eval/"): value for name, value in found if name.startswith("eval/")}
        self._events.write_points(final, _position(summary))
        self._events.write_end(failed=summary.outcome == "failed", step=_position(summary))
        self._events.close()
        self._events = None


def _holds(record: Record, run: Run) -> bool:
    """Return True if a record of earlier files belongs to the run's current state, not to epochs that are repeated."""
    if record.step > _position(run) or any(value.tag.startswith(HPARAMS) for value in record.values):
        return False
    if record.epoch is not None:
        return record.epoch <= run.epoch
    return not any(value.tag.startswith(_FINAL) for value in record.values)


def _position(report: Run | EpochReport | RunSummary) -> int:
    """Return the x position of a run, an epoch or a run's end."""
    return report.env_steps or report.updates


def _parameters(run: Run) -> dict[str, Histogram]:
    from maze_events.histograms import Histogram

    parameters = run.policy.named_parameters()
    return {f"parameters/{name}": Histogram.of(each.detach().float().cpu().numpy()) for name, each in parameters}


def _settings(run: Run) -> dict[str, float | bool | str]:
    """Return what distinguishes runs: the settings of the algorithm, the environment, the model and the wrappers."""
    found: dict[str, float | bool | str] = {}
    for path, value in settings(run).items():
        if path.startswith(_SETTINGS) and value is not None:
            plain = isinstance(value, int | float | bool) and math.isfinite(value)
            found[path] = value if plain else f"{value if isinstance(value, str) else json.dumps(value)}"[:_LONGEST]
    return found


def _last_config(records: list[Record]) -> str | None:
    """Return the configuration that was written last."""
    values = [value for record in records for value in record.values if value.tag == f"{_CONFIG}/text_summary"]
    pages = [page.decode(errors="replace") for value in values for page in value.tensor.string_val]
    return pages[-1] if pages else None


def _config_as_markdown(run: Run) -> str:
    import yaml

    config = yaml.safe_dump(run.config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return f"```yaml\n{config}```\n\n```json\n{json.dumps(run.versions, indent=2)}\n```"
