"""TensorBoard's event files: a run has one file with content, which is rewritten when training resumes.

So the points shown depend neither on a clock nor on the order of files nor on a reader that withdraws points.

    tensorboard/events.out.tfevents.1700000000.0000
"""

from __future__ import annotations

import math
import re
import struct
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from maze_core.base import files
from maze_core.base.file_systems import flush

if TYPE_CHECKING:
    from maze_events.histograms import Histogram

    from maze_tensorboard.figures import Picture

_NAME = re.compile(r"events\.out\.tfevents\.(?P<seconds>\d{10})\.(?P<number>\d{4})")
_STEM = "events"
# Unfinished files have this name, which TensorBoard does not read.
_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_LONGEST = 16_000_000
"""Most bytes of one record; a longer one is damaged."""
_DIGITS = 18
_WRITER = "maze, epoch "
HPARAMS = "_hparams_/"
"""What the tags of settings begin with."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an event file."""

    event: Any
    """The protobuf `Event`."""
    data: bytes
    """The record as the file holds it, with length and checksums."""

    @property
    def step(self) -> int:
        """Its position on the x axis."""
        step: int = self.event.step
        return step

    @property
    def epoch(self) -> int | None:
        """The epoch that ended with its points; None if none did."""
        number: str = self.event.source_metadata.writer.removeprefix(_WRITER)
        return int(number) if number.isdecimal() and len(number) < _DIGITS else None

    @property
    def values(self) -> list[Any]:
        """Its points and texts, protobuf `Summary.Value`s."""
        return list(self.event.summary.value)


class EventFile:
    """One event file in TensorBoard's format; each record is flushed when a call returns.

    It writes records in the caller's thread: tensorboard's own `EventFileWriter` adds a thread and a queue,
    and loads TensorFlow where that is installed.

    Args:
        folder: created if missing. Event files of earlier processes in it are replaced.
        kept: records of those files to keep, see `read_records`.

    Raises:
        OSError: it cannot be written; the earlier files are unchanged.
    """

    def __init__(self, folder: Path, kept: Iterable[Record] = ()) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        earlier, run_dir = event_files(folder), folder.parent
        unfinished = _unfinished(folder)
        self._file = files.open_file(unfinished, "xb", run_dir)
        self._records = RecordWriter(self._file)
        try:
            self._write(file_version="brain.Event:2")
            if earlier:
                # A reader of the earlier files discards their points and reads this file.
                self._write(step=0, session_log=SessionLog(status=SessionLog.START))
            for record in kept:
                self._file.write(record.data)
            self._file.flush()
            flush(self._file.fileno(), run_dir)
            files.rename(unfinished, folder / _name_after(earlier), run_dir)
        except BaseException:
            self._records.close()
            files.remove(unfinished, run_dir)
            raise
        for path in earlier[:-1]:
            files.remove(path, run_dir)
        if earlier:
            # A running TensorBoard finds the next file only while the one it reads still exists.
            nothing = _unfinished(folder)
            files.open_file(nothing, "xb", run_dir).close()
            files.rename(nothing, earlier[-1], run_dir)
        files.sync(folder, run_dir)

    def write_points(
        self,
        values: Mapping[str, float],
        step: int,
        epoch: int | None = None,
        histograms: Mapping[str, Histogram] | None = None,
    ) -> None:
        """Write one point of each curve, none for nan, and histograms, by name as TensorBoard shows them.

        `epoch`: the epoch that ended with them.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary

        points = {tag: float(value) for tag, value in sorted(values.items()) if not math.isnan(value)}
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in points.items()]
        drawn = [Summary.Value(tag=tag, histo=_histogram(each)) for tag, each in sorted((histograms or {}).items())]
        if found := [*scalars, *drawn]:
            self._write_of_epoch(epoch, step=step, summary=Summary(value=found))

    def write_pictures(self, pictures: Iterable[Picture], step: int, epoch: int | None = None) -> None:
        """Write pictures; `epoch`: the epoch that ended with them."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        for each in pictures:
            image = Summary.Image(height=each.height, width=each.width, colorspace=3, encoded_image_string=each.png)
            value = Summary.Value(tag=each.name, image=image)
            self._write_of_epoch(epoch, step=step, summary=Summary(value=[value]))

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

    def write_settings(self, settings: Mapping[str, float | bool | str], name: str, step: int) -> None:
        """Write the settings of a run by name, for the table of TensorBoard's tab HPARAMS."""
        from google.protobuf.struct_pb2 import Value
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionStartInfo

        hparams = {key: _value(Value, value) for key, value in settings.items()}
        info = SessionStartInfo(hparams=hparams, group_name=name, start_time_secs=time.time())
        self._write_hparams("session_start_info", HParamsPluginData(session_start_info=info), step)

    def write_end(self, *, failed: bool, step: int) -> None:
        """Write that the run with these settings has ended."""
        from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo

        info = SessionEndInfo(status=STATUS_FAILURE if failed else STATUS_SUCCESS, end_time_secs=time.time())
        self._write_hparams("session_end_info", HParamsPluginData(session_end_info=info), step)

    def _write_hparams(self, tag: str, data: Any, step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.hparams.metadata import create_summary_metadata

        value = Summary.Value(tag=f"{HPARAMS}{tag}", metadata=create_summary_metadata(data))
        self._write(step=step, summary=Summary(value=[value]))

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _write_of_epoch(self, epoch: int | None, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import SourceMetadata

        source = {} if epoch is None else {"source_metadata": SourceMetadata(writer=f"{_WRITER}{epoch}")}
        self._write(**fields, **source)

    def _write(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())
        self._records.flush()


def _histogram(histogram: Histogram) -> Any:
    from tensorboard.compat.proto.summary_pb2 import HistogramProto

    bars = histogram.bars()
    return HistogramProto(
        min=histogram.low if bars else 0.0,
        max=histogram.high if bars else 0.0,
        num=histogram.count,
        sum=histogram.total,
        sum_squares=histogram.squares,
        bucket_limit=[limit for limit, _ in bars],
        bucket=[count for _, count in bars],
    )


def _value(kind: Any, value: float | bool | str) -> Any:
    if isinstance(value, bool):
        return kind(bool_value=value)
    return kind(string_value=value) if isinstance(value, str) else kind(number_value=value)


def event_files(folder: Path) -> list[Path]:
    """Prepare a folder; return Maze's event files in it, in the order in which TensorBoard reads them.

    Raises:
        OSError: the folder cannot be created, or is a link to another one.
    """
    run_dir = folder.parent
    files.make_folder(folder, run_dir)
    names = files.names(folder, run_dir)
    for name in names:
        if files.is_leftover(name, _STEM):  # its process was killed
            files.remove(folder / name, run_dir)
    return [folder / name for name in names if _NAME.fullmatch(name)]


def read_records(folder: Path, *, check: bool = True) -> list[Record]:
    """Return the points and texts in a folder's event files, as TensorBoard shows them.

    An incomplete last record is left out silently; a damaged one, and all after it, with a warning.
    `check` False trusts files that this process has written and skips the checksums.

    Raises:
        OSError: a file cannot be read, or is no regular file.
    """
    from tensorboard.compat.proto.event_pb2 import SessionLog

    found: list[Record] = []
    for path in event_files(folder):
        for record in _records(path, check):
            event = record.event
            if event.HasField("session_log") and event.session_log.status == SessionLog.START:
                found.clear()  # its file replaces those before it
            elif event.HasField("summary"):
                found.append(record)
    return found


def _records(path: Path, check: bool) -> Iterator[Record]:
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    with files.open_file(path, "rb", path.parent.parent) as file:
        try:
            for data in _frames(file, check):
                yield Record(Event.FromString(data[_HEADER.size : -_CHECKSUM.size]), data)
        except (DecodeError, ValueError):
            warnings.warn(f"{path} is damaged; its points after the damage are lost", RuntimeWarning, stacklevel=2)


def _frames(file: BinaryIO, check: bool) -> Iterator[bytes]:
    """Yield the complete records of a file, with lengths and checksums. Raises ValueError for a wrong checksum."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    while len(header := file.read(_HEADER.size)) == _HEADER.size:
        length, checksum = _HEADER.unpack(header)
        if masked_crc32c(header[: _HEADER.size - _CHECKSUM.size]) != checksum or length > _LONGEST:
            raise ValueError
        body = file.read(length + _CHECKSUM.size)
        if len(body) < length + _CHECKSUM.size:
            return
        if check and masked_crc32c(body[:length]) != _CHECKSUM.unpack(body[length:])[0]:
            raise ValueError
        yield header + body


def _unfinished(folder: Path) -> Path:
    return folder / files.leftover(_STEM)


def _name_after(earlier: list[Path]) -> str:
    """Return a name that TensorBoard reads after the earlier ones, independent of the clock."""
    last = _NAME.fullmatch(earlier[-1].name) if earlier else None
    seconds, number = int(time.time()), 0
    if last is not None and int(last["seconds"]) >= seconds:
        seconds, number = divmod(int(last["seconds"]) * 10_000 + int(last["number"]) + 1, 10_000)
    return f"events.out.tfevents.{seconds:010d}.{number:04d}"
