"""What to type for algorithms of the field that are done otherwise here."""

from __future__ import annotations

A3C = (
    "Its actors computed gradients on old parameters. What replaced it: maze train impala --runner local, which "
    "corrects for that, or maze train a2c --runner local, which waits for all actors"
)
