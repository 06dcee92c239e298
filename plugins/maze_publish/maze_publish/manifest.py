"""The manifest of a published policy: which files it has, and the checksum of each. Its own checksum pins the policy.

Only files with known names belong to a policy, so nothing in a manifest says where something is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from maze_core.base.plain_json import is_count, parse_object
from maze_core.base.terminal_text import shown

NAME = "publication.json"
CONFIG, RECORD, CARD, PAGE = "config.yaml", "run.json", "card.json", "card.md"
CHECKPOINT = "checkpoints/best"
OF_CHECKPOINT = tuple(
    f"{CHECKPOINT}/{name}" for name in ("manifest.json", "model.safetensors", "state.json", "state.safetensors")
)
FILMS = ("film.mp4", "film.gif")
NEEDED = (CONFIG, RECORD, CARD, PAGE, *OF_CHECKPOINT)
MOST_BYTES = 1_000_000
"""Of a manifest."""

_FORMAT = 1
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Part:
    """What a manifest says about a file."""

    size: int
    sha256: str

    def check(self, name: str, data: bytes) -> None:
        """Raise ValueError if this is not what the file holds."""
        if len(data) != self.size or hashlib.sha256(data).hexdigest() != self.sha256:
            raise ValueError(f"{name} is not the file of its manifest (its checksum differs)")


def sum_of(manifest: bytes) -> str:
    """Return the checksum that pins a policy."""
    return hashlib.sha256(manifest).hexdigest()


def encode(contents: Mapping[str, bytes]) -> bytes:
    """Return the manifest of files by name."""
    parts = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(contents.items())
    }
    return json.dumps({"format": _FORMAT, "files": parts}, indent=1).encode()


def decode(data: bytes, most_bytes: int) -> dict[str, Part]:
    """Return the parts of a policy by name; the manifest may come from anyone.

    Args:
        data: the manifest.
        most_bytes: that all files together may have.

    Raises:
        ValueError: it is damaged, has another format, or names what no policy has.
    """
    values = parse_object(data)
    if values.get("format") != _FORMAT or not isinstance(values.get("files"), dict):
        raise ValueError(f"it has another format than {_FORMAT}, which this version of maze-publish reads")
    found = {name: _part(name, value) for name, value in values["files"].items()}
    if missing := [name for name in NEEDED if name not in found]:
        raise ValueError(f"it lists no {missing[0]}")
    total = sum(part.size for part in found.values())
    if total > most_bytes:
        raise ValueError(f"it lists files of {total:,} bytes; the limit is {most_bytes:,}")
    return found


def _part(name: str, value: object) -> Part:
    if name not in (*NEEDED, *FILMS):
        raise ValueError(f"it lists {shown(name)}, which belongs to no policy")
    if not isinstance(value, dict) or sorted(value) != ["bytes", "sha256"]:
        raise ValueError(f"what it says about {name} is damaged")
    size, digest = value["bytes"], value["sha256"]
    if not is_count(size) or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"what it says about {name} is damaged")
    return Part(size, digest)
