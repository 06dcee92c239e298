"""What acts in each session, with its memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from maze_serve.refusals import RefusedRequestError

MOST_SESSIONS = 10_000
"""Sessions that are remembered; beyond, the one that was used least recently is forgotten."""
MOST_FORGOTTEN = 100_000
"""Names of forgotten sessions that are known as such: going on in one would be another episode, without a word."""


class Sessions:
    """Sessions by name, and the names of those that were forgotten."""

    def __init__(self) -> None:
        self._acting: OrderedDict[str, Any] = OrderedDict()
        self._forgotten: OrderedDict[str, None] = OrderedDict()

    def get(self, name: str) -> Any | None:
        """Return what acts in a session; None: it is new.

        Raises:
            RefusedRequestError: it was forgotten.
        """
        if name in self._forgotten:
            raise RefusedRequestError(
                410,
                f"the session {name!r:.80} was forgotten, since {MOST_SESSIONS:,} others were used after it; "
                "POST /reset begins it anew",
            )
        return self._acting.get(name)

    def keep(self, name: str, acting: Any) -> None:
        """Remember what acts in a session."""
        self._acting[name] = acting
        self._acting.move_to_end(name)
        if len(self._acting) > MOST_SESSIONS:
            self._forgotten[self._acting.popitem(last=False)[0]] = None
        if len(self._forgotten) > MOST_FORGOTTEN:
            self._forgotten.popitem(last=False)

    def begin(self, name: str) -> None:
        """Let a session that was forgotten begin anew."""
        self._forgotten.pop(name, None)
