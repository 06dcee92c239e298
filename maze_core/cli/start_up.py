"""Start commands that need torch quickly."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting_imports() -> Iterator[None]:
    """Import without garbage collection, and leave everything that exists afterwards out of later ones.

    torch creates hundreds of thousands of objects that last. To search them again and again would take a seventh of
    the seconds in which PPO solves CartPole-v1.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
