"""Metrics that the user asks the console for: one that nothing records, or that has no room, is named once."""

from __future__ import annotations

from collections.abc import Iterable

from maze_core.base.terminal_text import printable

_EPISODES = ("eval", "train")


class AskedMetrics:
    """Notices which of the names in `callbacks.console.metrics` are not recorded or not shown.

    What episodes report is known with the first mean return of its group, all else with the first epoch.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._open = list(names)
        self._known: set[str] = set()
        self._left_out: set[str] = set()

    def missing(self, metrics: Iterable[str], *, last: bool = False) -> list[str]:
        """Return a sentence for each name that these and earlier metrics should have held; each name once.

        `last`: no further metrics will come.
        """
        from maze_core.plugins.config.explain import nearest  # imports pydantic

        self._known.update(metrics)
        self._open = [name for name in self._open if name not in self._known]
        due = [name for name in self._open if (last and self._known) or self._is_due(name)]
        self._open = [name for name in self._open if name not in due]
        known = sorted(name for name in self._known if "/" in name)
        return [
            f"callbacks.console.metrics: nothing has recorded {printable(name, 80)} so far; {nearest(name, known)}"
            for name in due
        ]

    def left_out(self, names: Iterable[str], width: int) -> list[str]:
        """Return a sentence about those of the names that have no column for the first time; empty: there are none."""
        new = [name for name in names if name not in self._left_out]
        self._left_out.update(new)
        if not new:
            return []
        told = f"{width} columns have no room for {', '.join(printable(name, 80) for name in new)}"
        return [f"callbacks.console.metrics: {told}; a wider terminal, or the run's loggers, show them"]

    def _is_due(self, name: str) -> bool:
        group = name.partition("/")[0]
        return f"{group}/return_mean" in self._known if group in _EPISODES else bool(self._known)
