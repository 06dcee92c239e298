"""The `config.yaml` of a run, the plan of a sweep: YAML whose first line is the checksum of the lines below."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.plain_yaml import parse_mapping, read_text
from maze_core.plugins.config.raw import Raw
from maze_core.plugins.config.record import RECORD, configurations, read_record

_SEAL = "# sha256 {digest} of the lines below\n"
_LIKE = re.compile(r"sha256|of the lines below|[0-9a-f]{32}")
"""What is left of the first line where it is damaged."""
_FIRST_LINE = re.compile(re.escape(_SEAL).replace(re.escape("{digest}"), "([0-9a-f]{64})"))


def checksummed(text: str) -> str:
    """Return YAML with its checksum in a line above."""
    return _SEAL.format(digest=_digest(text)) + text


def read_checksummed(path: Path) -> Raw:
    """Return the mapping in a run's `config.yaml`; one without its first line is not verified.

    Raises:
        ConfigError: it is missing, not YAML, was changed after Maze wrote it, or is that of another run.
    """
    change = f"To change a run: maze resume {path.parent} --set PATH=VALUE. "
    text = read_verified(path, change)
    if _is_another(text, path) and _is_another(text := read_verified(path, change), path):  # a resume may replace both
        raise ConfigError(
            f"is not the configuration of this run: it has another checksum than {RECORD} beside it says",
            str(path),
            "Put back the file that the run had. To use this one in its place: delete its first line.",
        )
    return parse_mapping(text, str(path))


def _is_another(text: str, path: Path) -> bool:
    """Return True for a checksummed configuration that the record beside it does not know."""
    sum_of_file, known = checksum(text), []
    with suppress(ConfigError):  # a folder without a whole record is refused by those who need one
        known = configurations(read_record(path.parent))
    return bool(known) and sum_of_file is not None and sum_of_file not in known


def checksum(text: str) -> str | None:
    """Return the checksum in the first line of a checksummed text; None where there is none."""
    first = _FIRST_LINE.match(text)
    return first[1] if first else None


def read_verified(path: Path, change: str = "") -> str:
    """Return the text of a checksummed file, or of one without a checksum. `change` says how to change its contents.

    Raises:
        ConfigError: it is missing, or was changed after Maze wrote it.
    """
    text = read_text(path)
    first = _FIRST_LINE.match(text)
    if _digest(text[first.end() :]) != first[1] if first else _LIKE.search(text.partition("\n")[0]):
        raise ConfigError(
            "is damaged, or was edited by hand: its checksum does not match",
            str(path),
            f"{change}To use the file as it is: delete its first line.",
        )
    return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
