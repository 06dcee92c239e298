"""Archives of published policies: plain zip files, which are read name by name and never unpacked.

What a zip file can do beyond that is refused: links, folders, two files of one name, encryption, other compressions,
comments, and sizes that are not those of its manifest.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping

from maze_core.base.terminal_text import shown

_MOST_FILES = 100
_MOST_DIRECTORY = 100_000
_END = struct.Struct("<4s4H2LH")
_END_MARK, _LOCATOR_MARK = b"PK\x05\x06", b"PK\x06\x07"
_LOCATOR_BYTES = 20
_DAY = (1980, 1, 1, 0, 0, 0)


class Archive:
    """The files of an archive, in memory.

    Raises:
        ValueError: it is no such archive.
    """

    def __init__(self, data: bytes) -> None:
        _check_end(data)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, UnicodeError, struct.error) as error:
            raise ValueError(f"it is no zip archive ({type(error).__name__})") from None
        self.names = [_checked(each) for each in self._zip.infolist()]
        if len(set(self.names)) != len(self.names):
            raise ValueError("it has two files of one name")

    def read(self, name: str, limit: int) -> bytes:
        """Return a file of at most `limit` bytes.

        Raises:
            FileNotFoundError: there is none of this name.
            ValueError: it is larger, or damaged.
        """
        if name not in self.names:
            raise FileNotFoundError(name)
        try:
            with self._zip.open(name) as file:
                data = file.read(limit + 1)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise ValueError(f"{name} is damaged ({type(error).__name__})") from None
        if len(data) > limit:
            raise ValueError(f"{name} has more than {limit:,} bytes")
        return data


def packed(contents: Mapping[str, bytes]) -> bytes:
    """Return an archive of files by name; of the same files always the same one."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, data in sorted(contents.items()):
            entry = zipfile.ZipInfo(name, _DAY)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            file.writestr(entry, data, compresslevel=9)
    return buffer.getvalue()


def _check_end(data: bytes) -> None:
    """Check the record at an archive's end, before the list of its files is read: that may have millions.

    Raises:
        ValueError: there is none, with nothing behind it; or it says that there are many files.
    """
    if len(data) < _END.size or not data[-_END.size :].startswith(_END_MARK):
        raise ValueError("it is no plain zip archive")
    _, disk, first, here, files, size, _, comment = _END.unpack(data[-_END.size :])
    located = data[-_END.size - _LOCATOR_BYTES :].startswith(_LOCATOR_MARK)
    if disk or first or comment or located or here != files:
        raise ValueError("it is no plain zip archive")
    if files > _MOST_FILES or size > _MOST_DIRECTORY:
        raise ValueError(f"it has more than {_MOST_FILES} files")


def _checked(entry: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or entry.is_dir() or entry.flag_bits & 0x1:
        raise ValueError(f"{shown(entry.filename)} in it is no plain file")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{shown(entry.filename)} in it is compressed in another way than deflate")
    return entry.filename
