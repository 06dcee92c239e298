"""Unfinished episodes of a saved run whose environment the user has changed: what cannot be replayed, and why."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from maze_core.base.errors import RunError
from maze_core.envs.checks import NOT_REPRODUCIBLE, REPLAYED


def changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the paths of the environment and its wrappers that differ between two configurations of a run."""
    return [
        path
        for part in ("env", "wrappers")
        for path in _differing(before.get(part) or None, now.get(part) or None, part)
    ]


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


def _differing(before: Any, now: Any, path: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted({*before, *now}):
            yield from _differing(before.get(key), now.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differing(one, other, f"{path}.{number}")
    elif before != now:
        yield path
