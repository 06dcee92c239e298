"""Calls a searcher: names one that blocks or seeds other people's random numbers, and gives up a call on a signal."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from maze_core import ConfigError
from maze_core.base.plain_json import is_number, is_plain
from maze_core.base.terminal_text import counted, shown
from maze_sweep.searchers.base import Done, Search, Searcher, Wait, Whole
from maze_sweep.searchers.space import Point, Space, other_paths

PATIENCE = 30.0
"""Seconds after which a call that has not returned is told to the user."""
R = TypeVar("R")
_MOST = 1_000_000
"""Trials of a sweep."""


class GivenUp(BaseException):
    """Raised in a searcher's call when the sweep is to end."""


def to_stderr(text: str) -> None:
    """Write a line for the user."""
    print(text, file=sys.stderr, flush=True)


class GuardedSearcher:
    """A searcher as the sweep calls it.

    Args:
        searcher: the plugin.
        name: its name.
        warn: is called with lines for the user.
    """

    def __init__(self, searcher: Searcher, name: str, warn: Callable[[str], object] = to_stderr) -> None:
        self._inner = searcher
        self._name, self._warn = name, warn
        self._calling = False
        self._seeds = False
        self._space: Space = {}
        self._whole: Whole | None = None

    def setup(self, search: Search) -> int:
        """Start or continue the search and return the number of trials.

        Raises:
            ConfigError: it is no count.
        """
        self._space, self._whole = search.space, search.whole
        found: Any = self._call("to set up", lambda: self._inner.setup(search))
        if isinstance(found, bool) or not hasattr(found, "__index__") or not 1 <= found <= _MOST:
            raise self._wrong(f"returned {shown(found)} as the number of trials, not one from 1 to {_MOST:,}")
        return int(found)

    def ask(self, number: int) -> Point | Wait | Done:
        """Return the point of a trial, or that the searcher waits for a value, or that there is no further trial."""
        found = self._call(f"for the point of trial {number}", lambda: self._inner.ask(number))
        if isinstance(found, Done) and self._inner.open_ended:
            return found
        if not isinstance(found, dict | Wait):
            raise self._wrong(f"returned {type(found).__name__} for trial {number}, not a point or Wait()")
        if isinstance(found, dict):
            self._check_point(number, found)
        return found

    def parent(self, number: int) -> int | None:
        """Return the trial that a trial goes on from.

        Raises:
            ConfigError: it is none of the trials before.
        """
        found = self._call(f"for the parent of trial {number}", lambda: self._inner.parent(number))
        if found is not None and (type(found) is not int or not 0 <= found < number):
            raise self._wrong(f"returned {found!r:.80} as the parent of trial {number}, no earlier trial")
        return found

    def until(self, number: int, parents: float | None) -> float | None:
        """Return the budget of a trial; `parents`: that of the trial that it goes on from, None without one.

        Raises:
            ConfigError: it is no number between the parent's and the whole.
        """
        found = self._call(f"for the budget of trial {number}", lambda: self._inner.until(number))
        if found is None:
            return None
        if self._whole is None:
            raise self._wrong(f"has a budget for trial {number}, but the runs have no end")
        whole, unit = self._whole.amount, self._whole.unit
        if not is_number(found) or not 0 < found <= whole or (unit != "seconds" and found != int(found)):
            raise self._wrong(f"returned {shown(found)} as the budget of trial {number}, not up to {whole:g} {unit}")
        if parents is not None and found <= parents:
            raise self._wrong(f"returned {found:g} as the budget of trial {number}, and its parent's was {parents:g}")
        return float(found)

    def foreseen(self, number: int) -> Point:
        """Return the point of a trial of a searcher that foresees.

        Raises:
            ConfigError: it waits for a value, which it says it does not need.
        """
        found = self.ask(number)
        if not isinstance(found, dict):
            raise self._wrong(f"says that it foresees all points, but waits at trial {number}")
        return found

    def tell(self, number: int, point: Point, value: float | None) -> None:
        """Tell the value of a trial."""
        self._call(f"to take the value of trial {number}", lambda: self._inner.tell(number, point, value))

    def prune(self, number: int, epoch: int, value: float) -> bool:
        """Return True if the trial is to end early.

        Raises:
            ConfigError: the answer is neither True nor False.
        """
        found: Any = self._call(f"to judge trial {number}", lambda: self._inner.prune(number, epoch, value))
        if str(found) not in ("True", "False"):  # NumPy's are as good
            raise self._wrong(f"returned {shown(found)} for whether trial {number} ends early, neither True nor False")
        return bool(found)

    def give_up(self) -> None:
        """End the call that is under way, if there is one: for handlers of signals."""
        if self._calling and threading.current_thread() is threading.main_thread():
            raise GivenUp

    def _check_point(self, number: int, point: dict[Any, Any]) -> None:
        """Refuse a point of other paths than the space's, or of a value that no file keeps."""
        if problem := other_paths(point, self._space):
            raise self._wrong(f"returned in trial {number} {problem}")
        for path, value in point.items():
            if not is_plain(value):
                raise self._wrong(
                    f"returned {shown(value)}, a {type(value).__name__}, for {path} in trial {number}; values are "
                    "Python's numbers, texts, True, False, None, and lists and dicts of them"
                )

    def _wrong(self, problem: str) -> ConfigError:
        return ConfigError(f"the searcher {self._name} {problem}", "searcher")

    def _call(self, what: str, function: Callable[[], R]) -> R:
        before = _random_states()
        with self._watched(what):
            try:
                self._calling = True
                result = function()
            except Exception as error:
                error.add_note(f"in searcher plugin {self._name!r}")
                raise
            finally:
                self._calling = False
        self._put_back(before)
        return result

    @contextmanager
    def _watched(self, what: str) -> Iterator[None]:
        said = f"the searcher {self._name} has been asked {what} {counted(round(PATIENCE), 'second')} ago"
        timer = threading.Timer(PATIENCE, self._warn, [f"warning: {said}, and has not answered; Ctrl-C ends the sweep"])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _put_back(self, before: dict[str, Any]) -> None:
        """Restore global random states that the searcher changed, and say so once."""
        after = _random_states()
        changed = [name for name, state in before.items() if state != after[name]]
        if not changed:
            return
        if "Python" in changed:
            random.setstate(before["Python"])
        if "numpy" in changed:
            name, keys, *rest = before["numpy"]
            import numpy as np

            np.random.set_state((name, np.frombuffer(keys, np.uint32), *rest))
        if not self._seeds:
            self._seeds = True
            self._warn(
                f"warning: the searcher {self._name} uses the global random numbers of {' and '.join(changed)}, which "
                "others use, too; they are put back after each call"
            )


def _random_states() -> dict[str, Any]:
    """Return the global states of Python's random numbers, and of numpy's if it is imported."""
    states: dict[str, Any] = {"Python": random.getstate()}
    if numpy := sys.modules.get("numpy"):
        name, keys, *rest = numpy.random.get_state()
        states["numpy"] = (name, keys.tobytes(), *rest)
    return states
