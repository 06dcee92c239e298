"""What Ray says of a lost worker."""

from __future__ import annotations


def node_has_died(error: Exception) -> bool:
    """Return True if a worker was lost with its node. For some seconds, Ray still starts actors on a lost node."""
    return "node has died" in str(error)


def reason_of(error: Exception) -> str:
    """Return Ray's reason for the end of an actor, in one line."""
    if "temporarily unavailable" in str(error):
        return "it cannot be reached"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith("The actor is dead") or "node" in line or "exit" in line]
    return (telling or lines or [type(error).__name__])[0][:200].rstrip(". ")
