"""How much a published policy may have, and how long its transfer may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a transfer."""

    bytes: int = 500_000_000
    """Of all files together, and of an archive."""
    seconds: float = 600.0
    """Of the whole transfer."""
    pause: float = 20.0
    """Seconds without any byte after which a server is given up."""


LIMITS = Limits()
