"""Environment variables of this process: set for a while, and put back when somebody else has set them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

Variables = Mapping[str, str | None]
"""Values of environment variables; None: not set."""


@contextmanager
def variables_set(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables inside; outside they are as they were."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        put_back(before)


def changed_since(before: Mapping[str, str]) -> Variables:
    """The variables that are no longer as in `before`, a copy of all, with the values that they had there."""
    return {name: before.get(name) for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}


def put_back(variables: Variables) -> None:
    """Give variables the values that they had."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
