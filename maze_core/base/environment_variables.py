"""Sets environment variables temporarily, and restores those that other code has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

Variables = Mapping[str, str | None]
"""Values of environment variables; None: not set."""


@contextmanager
def variables_set(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables inside the block and restore them afterwards."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        put_back(before)


@contextmanager
def unchanged_variables() -> Iterator[None]:
    """Restore what the block changes, such as the variables of audio and pygame that an import of PettingZoo sets."""
    before = dict(os.environ)
    try:
        yield
    finally:
        put_back(changed_since(before))


def changed_since(before: Mapping[str, str]) -> Variables:
    """Return the variables that differ from `before`, an earlier copy of all, with their earlier values."""
    return {name: before.get(name) for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}


def put_back(variables: Variables) -> None:
    """Restore variables to the given values."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
