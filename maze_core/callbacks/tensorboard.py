"""Every metric as a TensorBoard curve."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_core import files
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from maze_core.training.report import EpochReport, RunSummary
    from maze_core.training.run import Run


class TensorBoard(Plugin):
    """Write all metrics over environment steps, and the configuration as text, into the run's `tensorboard/`.

    A run that takes no steps, as in behavioural cloning, is drawn over its updates.

    After a resume the points of epochs that are done again are withdrawn. A metric that is nan has no point.
    Without a run directory it does nothing.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._events: EventFile | None = None

    @hookimpl
    def on_run_start(self, run: Run) -> None:
        """Open an event file, withdraw the points that will be written again, write the configuration."""
        if run.run_dir is None:
            return
        self._events = EventFile(run.run_dir / "tensorboard")
        if run.resumed:
            self._events.withdraw_from((run.env_steps or run.updates) + 1)
        self._events.write_text("config", _config_as_markdown(run), run.env_steps)

    @hookimpl
    def on_epoch_end(self, run: Run, epoch: EpochReport) -> None:
        """Write the epoch's metrics."""
        if self._events is not None:
            self._events.write_scalars(epoch.metrics, epoch.env_steps or epoch.updates)

    @hookimpl
    def on_evaluation(self, run: Run, epoch: EpochReport) -> None:
        """Write the metrics of an evaluation within an epoch."""
        self.on_epoch_end(run, epoch)

    @hookimpl
    def on_run_end(self, run: Run, summary: RunSummary) -> None:
        """Write the final evaluation and close the file."""
        if self._events is None:
            return
        final = {f"final/{name.removeprefix('eval/')}": value for name, value in summary.final_evaluation.items()}
        self._events.write_scalars(final, summary.env_steps or summary.updates)
        self._events.close()
        self._events = None


class EventFile:
    """One event file in TensorBoard's format; each record is on its way to the disk when a call returns.

    It writes records in the caller's thread: tensorboard's own `EventFileWriter` adds a thread and a queue,
    and loads TensorFlow where that is installed.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        run_dir = folder.parent
        files.make_folder(folder, run_dir)
        # TensorBoard reads the files of a folder in the order of their names.
        number = len(files.names(folder, run_dir))
        name = f"events.out.tfevents.{int(time.time()):010d}.{number:04d}"
        self._file = files.open_file(folder / name, "xb", run_dir)
        self._records = RecordWriter(self._file)
        self._write(file_version="brain.Event:2")

    def withdraw_from(self, step: int) -> None:
        """Take back all points at `step` and later that files before this one hold."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        self._write(step=step, session_log=SessionLog(status=SessionLog.START))

    def write_scalars(self, values: dict[str, float], step: int) -> None:
        """Write one point of each curve; nan has none."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = {tag: float(value) for tag, value in values.items() if not math.isnan(value)}
        if points:
            scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in points.items()]
            self._write(step=step, summary=Summary(value=scalars))

    def write_text(self, tag: str, markdown: str, step: int) -> None:
        """Write a page of text."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING
        from tensorboard.plugins.text.metadata import create_summary_metadata

        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        text = TensorProto(dtype=DT_STRING, string_val=[markdown.encode()], tensor_shape=shape)
        metadata = create_summary_metadata(display_name=tag, description="")
        value = Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=text)
        self._write(step=step, summary=Summary(value=[value]))

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _write(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())
        self._records.flush()


def _config_as_markdown(run: Run) -> str:
    import yaml

    config = yaml.safe_dump(run.config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return f"```yaml\n{config}```\n\n```json\n{json.dumps(run.versions, indent=2)}\n```"
