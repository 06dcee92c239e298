"""A stopwatch for parts within parts: every moment belongs to exactly one of them."""

from __future__ import annotations

import time
from collections.abc import Callable

REST = "rest"


class Stopwatch:
    """Measures how long each part takes, without the parts inside it; together they take the whole time.

    Args:
        settle: called before the part changes, such as for waiting until a GPU has finished.
        clock: returns seconds.
    """

    def __init__(
        self, settle: Callable[[], object] | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.seconds: dict[str, float] = {REST: 0.0}
        """By part; `rest` is what no part has measured."""
        self.entered: dict[str, int] = {}
        """How often each part began."""
        self._settle, self._clock = settle, clock
        self._inside: list[str] = [REST]
        self._since: float | None = None

    @property
    def total(self) -> float:
        """Seconds measured so far."""
        return sum(self.seconds.values())

    @property
    def running(self) -> bool:
        """True from `start` to `stop`."""
        return self._since is not None

    @property
    def changes(self) -> int:
        """How often a part began or ended."""
        return 2 * sum(self.entered.values())

    def inside(self, part: str) -> bool:
        """Return True if a part has begun and not ended."""
        return part in self._inside

    def start(self) -> None:
        """Begin with the rest."""
        self._inside, self._since = [REST], self._clock()

    def stop(self) -> None:
        """End."""
        self._count()
        self._since = None

    def enter(self, part: str) -> None:
        """Begin a part inside the current one, which pauses."""
        self._count()
        self._inside.append(part)
        self.entered[part] = self.entered.get(part, 0) + 1

    def leave(self) -> None:
        """End the current part; the one around it goes on."""
        self._count()
        self._inside.pop()

    def _count(self) -> None:
        if self._since is None:
            raise RuntimeError("the stopwatch is not running")
        if self._settle is not None:
            self._settle()
        now, part = self._clock(), self._inside[-1]
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._since
        self._since = now


def cost_of_a_change(times: int = 20_000) -> float:
    """Return the seconds that one change of part takes here."""
    watch = Stopwatch()
    watch.start()
    for _ in range(times):
        watch.enter("nothing")
        watch.leave()
    watch.stop()
    return watch.total / (2 * times)
