"""Closes what others have written: environments, runners, algorithms. An error in it is told, and ends nothing.

When something is closed, its results are there already; or something has failed, and that is the error to report.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from maze_core.base.tolerant_output import to_stderr
from maze_core.plugins.discovery import describe, place_in


class _Closable(Protocol):
    def close(self) -> Any: ...


T = TypeVar("T", bound=_Closable)


def release(*things: _Closable | None) -> None:
    """Close all things in order, whatever their `close` raises: a warning tells of it, once if several raise the same.

    Only Ctrl-C is raised, after all are closed.
    """
    told: dict[str, None] = {}
    interrupt: KeyboardInterrupt | None = None
    for thing in things:
        try:
            if thing is not None:
                thing.close()
        except KeyboardInterrupt as error:
            interrupt = error
        except BaseException as error:  # noqa: BLE001 — sys.exit in it must not end the run either
            told[f"warning: closing {_name(thing)} raised {describe(error)}{place_in(error)}"] = None
    for line in told:
        to_stderr(line)
    if interrupt is not None:
        raise interrupt


@contextmanager
def releasing(thing: T) -> Iterator[T]:
    """Give a thing to the block and `release` it afterwards."""
    try:
        yield thing
    finally:
        release(thing)


def _name(thing: Any) -> str:
    """Return the name of a thing's class; of an environment's, that below its wrappers."""
    with suppress(Exception):
        thing = getattr(thing, "unwrapped", thing)
    return type(thing).__name__
