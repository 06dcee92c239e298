"""The free memory, and a check that a buffer fits into it."""

from __future__ import annotations

import os
from pathlib import Path

from maze_core.base.errors import ConfigError

_CGROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
_SHARE = 0.9
# The share of the free memory for one buffer: networks, environments and the system need the rest.


def free_ram() -> int | None:
    """Return the bytes that this process may still allocate on its machine and in its container; None if unknown."""
    known = [
        free for free in (_free_on_machine(), *(_free_in_cgroup(*files) for files in _CGROUPS)) if free is not None
    ]
    return min(known, default=None)


def check_ram(needed: int, rows: int, where: str, what: str = "rows of replay") -> None:
    """Raise ConfigError if `needed` bytes for `rows` rows are not free; `where` is the setting of their number.

    `what`: the name of the rows.
    """
    free = free_ram()
    if free is None or needed <= _SHARE * free:
        return
    fitting = int(_SHARE * free / (needed / rows))
    raise ConfigError(
        f"{rows:,} {what} need {needed / 1e9:.1f} GB of memory ({needed / rows:,.0f} bytes each), "
        f"but only {free / 1e9:.1f} GB are free",
        where,
        f"Set {where or 'it'} to at most {fitting:,}, or make the observations smaller: images as uint8, resized or "
        "in gray.",
    )


def _free_on_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def _free_in_cgroup(folder: Path, limit: str, usage: str) -> int | None:
    """Return the bytes that the container may still use; inactive file cache counts as free."""
    try:
        statistics = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        used = int((folder / usage).read_text()) - int(statistics.get("inactive_file", 0))
        return int((folder / limit).read_text()) - used
    except (OSError, ValueError):  # no such controller, or the limit is "max"
        return None


def is_about_memory(error: Exception) -> bool:
    """True for an error of torch or numpy that means out of memory; torch shows it only in the message."""
    words = ("allocate memory", "out of memory", "overflowed")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)
