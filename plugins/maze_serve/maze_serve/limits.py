"""What one client may take of the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes, seconds and connections; none of them is reached by a client that works."""

    line_bytes: int = 8_192
    """Of the first line of a request."""
    head_bytes: int = 32_768
    """Of the first line and all headers."""
    headers: int = 100
    body_bytes: int = 64_000_000
    all_bodies_bytes: int = 256_000_000
    """Of the bodies that are being received at the same time, over all connections."""
    connections: int = 256
    """Beyond, the connection that has been idle for the longest time is closed."""
    idle_seconds: float = 60.0
    """Without a request."""
    head_seconds: float = 10.0
    """From the first byte of a request to the end of its headers."""
    body_seconds: float = 30.0
    """From there to the end of its body."""
    write_seconds: float = 30.0
    """Until the client has taken an answer."""
    linger_seconds: float = 1.0
    """In which a client that is refused may send on: without them it could lose the answer."""
