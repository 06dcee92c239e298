"""What this package says about wrong scores."""

from __future__ import annotations


class ScoresError(ValueError):
    """Scores, files or reference scores that cannot be used; the message says what and where."""


def short(name: object, most: int = 80) -> str:
    """Return a name as one line of printable characters, fit for a message."""
    text = "".join(each if each.isprintable() else "?" for each in str(name)[: most + 1])
    return text if len(text) <= most else text[:most] + "…"
