"""What an installed distribution says of itself, read once for each state of its metadata."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_NAME = re.compile(r"[^\w.-]")


class Facts(NamedTuple):
    """Version and requirements of a distribution."""

    version: str
    requires: tuple[str, ...]
    """Lines as in `Requires-Dist`."""


def facts_of(name: str) -> Facts:
    """Return the facts of a distribution.

    Raises:
        PackageNotFoundError: it is not installed.
    """
    found = metadata.distribution(name)
    folder = getattr(found, "_path", None)
    try:
        changed = Path(str(folder), "METADATA").stat().st_mtime_ns
    except OSError:  # such as one in a zip file
        return _read(found)
    return _remembered(str(folder), changed)


@lru_cache(maxsize=512)
def _remembered(folder: str, changed: int) -> Facts:
    return _read(metadata.PathDistribution(Path(folder)))


def _read(found: metadata.Distribution) -> Facts:
    try:
        version = found.version
    except (TypeError, KeyError):  # no METADATA, or one without a version
        version = ""
    except (OSError, ValueError):  # a METADATA that is no text
        return Facts("", ())
    return Facts(version or "", tuple(found.requires or ()))


def applies(requirement: Requirement) -> bool:
    """Return True for a requirement without a condition, or whose condition holds; False if it has no meaning."""
    try:
        return requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    except ValueError:  # such as `sys_platform ~= "linux"`
        return False


def entry_points_text(found: metadata.Distribution) -> str | None:
    """Return the contents of `entry_points.txt`, empty if there is none; None if it cannot be read as text."""
    try:
        return found.read_text("entry_points.txt") or ""
    except (OSError, ValueError):  # such as one that is not UTF-8
        return None


def damaged() -> str:
    """Return a clause about the first distribution whose `entry_points.txt` is no text; empty if there is none.

    Packages such as torch read those of all distributions, and cannot be imported then.
    """
    for found in metadata.distributions():
        if entry_points_text(found) is None:
            where = f"{getattr(found, '_path', 'a distribution')}/entry_points.txt"
            return f"; {where} is not UTF-8: uninstall what it belongs to, or install it again"
    return ""


def requirements_on(name: str, other: str) -> list[str]:
    """Return the lines in which a distribution requires another one; empty if it is not installed."""
    try:
        lines = facts_of(name).requires
    except metadata.PackageNotFoundError:
        return []
    return [line for line in lines if normal(_NAME.split(line.strip(), maxsplit=1)[0]) == other]


def normal(name: str) -> str:
    """Return the one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()
