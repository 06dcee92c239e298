"""The `config.yaml` of a run, the plan of a sweep: YAML whose first line is the checksum of the lines below."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from maze_core.config.plain_yaml import parse_mapping, read_text
from maze_core.config.raw import Raw
from maze_core.config.renamed import updated
from maze_core.errors import ConfigError

_SEAL = "# sha256 {digest} of the lines below\n"
_LIKE = re.compile(r"sha256|of the lines below|[0-9a-f]{32}")
"""What is left of the first line where it is damaged."""
_FIRST_LINE = re.compile(re.escape(_SEAL).replace(re.escape("{digest}"), "([0-9a-f]{64})"))


def checksummed(text: str) -> str:
    """Return YAML with its checksum in a line above."""
    return _SEAL.format(digest=_digest(text)) + text


def read_checksummed(path: Path, tell: Callable[[str], None] = lambda text: None) -> Raw:
    """Return the mapping in a run's `config.yaml`; keys of earlier versions are renamed.

    `tell` is called with a sentence for each key that is elsewhere now. Files of earlier versions without a checksum
    are not verified.

    Raises:
        ConfigError: it is missing, not YAML, or was changed after Maze wrote it.
    """
    change = f"To change a run: maze resume {path.parent} --set PATH=VALUE. "
    return updated(parse_mapping(read_verified(path, change), str(path)), tell)


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
