"""Bytes that an environment may write into the descriptors of its process, where they are no message of a worker."""

from __future__ import annotations

import os
import pickle
import stat
from contextlib import suppress

SPOILT_BYTES = {
    "a text": b"hello, world\n" * 10,
    "a text that begins like the length of a message": b"\nhello",
    "zeros": bytes(64),
    "a message of another kind": b"\0\0\0\5" + pickle.dumps(7, 2),
    "no pickle": b"\0\0\0\5hello",
    "an endless message": b"\xff\xff\xff\xff" + b"\x7f" * 8,
}


def write_everywhere(content: bytes) -> None:
    """Write into all sockets of this process, one of which leads to the driver; pipes are of the fork server."""
    for descriptor in range(3, 60):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, content)
