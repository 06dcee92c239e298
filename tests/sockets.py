"""Which processes run, which are below another, and where they listen."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from pathlib import Path


def tree(root: int) -> list[int]:
    """Return a process and all below it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(folder.name))
    pids = [root]
    for pid in pids:
        pids += children.get(pid, [])
    return pids


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def listening(pids: Iterable[int]) -> Iterator[str]:
    """Yield `address port` of the TCP sockets on which these processes listen."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = str(link.readlink())
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                words = [bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8)]
                text = socket.inet_ntop(family, b"".join(words))
                yield f"{text.removeprefix('::ffff:')} {int(port, 16)}"
