"""Messages about evaluation episodes that do not end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from maze_core.base.terminal_text import counted
from maze_core.envs.vector import Episode

_SECONDS = 20.0
"""Report only evaluations that take longer than this …"""
_STEPS = 10_000
"""… with an episode of more steps than this."""
WAY_OUT = "To set a time limit: --set env.max_episode_steps=…, or the wrapper time_limit"


class EndlessEpisodes:
    """Reports, once each, that an endless episode slows an evaluation, and that episodes were cut."""

    def __init__(self, limit: int | None, warn: Callable[[str], None]) -> None:
        self._limit, self._warn = limit, warn
        self._reported: set[str] = set()
        self._began = 0.0

    def begin(self) -> None:
        """Start the clock of an evaluation."""
        self._began = time.monotonic()

    def watch(self, steps: int) -> None:
        """Warn if the evaluation is slow; `steps`: length of the longest unfinished episode."""
        if steps < _STEPS or time.monotonic() - self._began < _SECONDS:
            return
        end = "there is no limit" if self._limit is None else f"it will be cut at step {self._limit:,}"
        self._report("long", f"an evaluation episode is at step {steps:,} and has not ended; {end}")

    def cut(self, episodes: Sequence[Episode]) -> dict[str, float]:
        """Return the number of episodes cut at the limit as metric `eval/episodes_cut`; empty if there are none."""
        count = episodes_cut(episodes, self._limit)
        if count:
            self._report("cut", cut_message(count, len(episodes), self._limit))
        return {"eval/episodes_cut": float(count)} if count else {}

    def _report(self, what: str, message: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            self._warn(f"note: {message}. {WAY_OUT}.")


def episodes_cut(episodes: Sequence[Episode], limit: int | None) -> int:
    """Return how many of the episodes reached the limit."""
    return 0 if limit is None else sum(episode.length >= limit for episode in episodes)


def cut_message(count: int, total: int, limit: int | None) -> str:
    """Return the message about episodes that were cut."""
    return (
        f"{count} of {counted(total, 'episode')} cut at step {limit or 0:,} (evaluation.max_episode_steps) and counted"
        " with the return so far"
    )
