"""Trains until a signal ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def interrupted(train: Callable[..., Any], *arguments: Any) -> Any:
    """The summary of a run after `context.train` or `context.resume`, which a signal ends."""
    with pytest.raises(KeyboardInterrupt):
        train(*arguments)
    return train.__self__.run.summary  # type: ignore[attr-defined]
