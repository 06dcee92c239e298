"""What runs on this machine, and what was left on it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

SHARED_MEMORY, TEMPORARY = Path("/dev/shm"), Path("/tmp")


def leftovers_outside() -> set[Path]:
    """Return blocks of shared memory and folders of Ray that no living process uses."""
    candidates = {*SHARED_MEMORY.glob("psm_*"), *SHARED_MEMORY.glob("plasma*"), *TEMPORARY.glob("ray-*")}
    if not candidates:
        return set()
    used = " ".join(words for _, words in processes().values()) + " ".join(maps_of(pid) for pid in processes())
    return {path for path in candidates if path.name not in used}


def processes() -> dict[int, tuple[int, str]]:
    """Return the parent and the command line of every living process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if state != "Z":
                found[int(folder.name)] = int(parent), words
    return found


def environ_of(pid: int) -> bytes:
    """Return the environment variables that a process was started with; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def maps_of(pid: int) -> str:
    """Return the names of the files that a process has mapped; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/maps").read_text(errors="replace")
    return ""
