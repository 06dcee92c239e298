"""Checks whether a gRPC server answers at an address, before Ray tries to connect for minutes."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
"""How an HTTP/2 connection begins (RFC 9113, 3.4), with empty settings; a server answers with settings of its own."""
_FRAME, _SETTINGS = 9, 4
"""Bytes of a frame's header, and the type of a settings frame, its fourth byte."""


def answers(address: str, timeout: float = 3.0) -> bool:
    """Return True if a gRPC server answers at `host:port` in `timeout` seconds. With TLS only the port is tried."""
    host, _, port = address.rpartition(":")
    with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), timeout) as connection:
        if os.environ.get("RAY_USE_TLS", "0") not in ("0", ""):
            return True
        connection.settimeout(timeout)
        connection.sendall(_PREFACE)
        header = connection.recv(_FRAME, socket.MSG_WAITALL)
        return len(header) == _FRAME and header[3] == _SETTINGS
    return False
