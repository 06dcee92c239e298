"""What differs between two configurations of a run, and which unfinished episodes cannot be replayed therefore."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from maze_core.base.errors import RunError
from maze_core.envs.checks import NOT_REPRODUCIBLE, REPLAYED


def differing(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield path and both values of what differs between two configurations, or parts of them.

    `path`: that of the part.
    """
    start = f"{path}." if path else ""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted({*before, *now}):
            yield from differing(before.get(key), now.get(key), f"{start}{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from differing(one, other, f"{start}{number}")
    elif before != now and not (_is_empty(before) and _is_empty(now)):
        yield path, before, now


def _is_empty(value: Any) -> bool:
    return value is None or value in ({}, [])


@contextmanager
def naming_changes(changed: list[str]) -> Iterator[None]:
    """Say of episodes that cannot be replayed that the settings which have changed are why."""
    if not changed:
        yield
        return
    reason = f"{', '.join(changed)} {'has' if len(changed) == 1 else 'have'} changed since then"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except RunError as error:
            if REPLAYED in str(error):
                told = str(error).partition(REPLAYED)[0]
                error.args = (
                    f"{told}An unfinished episode was being replayed from its seed and actions, and {reason}.\nNext: "
                    "leave the change out, or begin a new run with the parameters of this one: --init-from RUN",
                )
            raise
    for each in caught:
        text = str(each.message).replace(NOT_REPRODUCIBLE, reason)
        warnings.warn_explicit(text, each.category, each.filename, each.lineno)
