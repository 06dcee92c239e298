"""The state of the process, which a plugin must not change."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from maze_core.base.foreign_settings import changed_since, put_back
from maze_devkit.findings import Failed


def snapshot() -> dict[str, Any]:
    """Return the global state of this process by name; torch's only if torch is imported."""
    import numpy as np

    state: dict[str, Any] = {
        "Python's random state": random.getstate(),
        "numpy's global random state": _numpy_state(),
        "the environment variables": dict(os.environ),
        "the working directory": os.getcwd(),  # noqa: PTH109
        "the signal handlers": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        "numpy's error handling": np.geterr(),
        "the threads that are alive": sorted(thread.name for thread in threading.enumerate() if not thread.daemon),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        state |= {
            "torch's random state": torch.get_rng_state().numpy().tobytes(),
            "torch's number of threads": torch.get_num_threads(),
            "torch's default dtype": torch.get_default_dtype(),
            "torch's gradient mode": torch.is_grad_enabled(),
            "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
        }
    return state


def _numpy_state() -> Any:
    import numpy as np

    whole: dict[str, Any] = dict(np.random.get_state(legacy=False))
    inner = {
        name: value.tobytes() if isinstance(value, np.ndarray) else value for name, value in whole["state"].items()
    }
    return {**whole, "state": inner}


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names of what has changed."""
    return [name for name, value in before.items() if after[name] != value]


@contextmanager
def restored() -> Iterator[dict[str, Any]]:
    """Yield the state of the process, and restore it after the block."""
    import numpy as np

    before, states = snapshot(), (random.getstate(), np.random.get_state())
    torch: Any = sys.modules.get("torch")
    try:
        yield before
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        _put_back(before, torch)


@contextmanager
def left_alone(what: str) -> Iterator[None]:
    """Raise Failed if the block changes the state of the process, and restore it.

    Args:
        what: what the block does, for the message.
    """
    with restored() as before:
        yield
        if names := changes(before, snapshot()):
            raise Failed(f"{what} changes {', '.join(names)}")


def imported(module: str) -> tuple[float, dict[str, str], list[str]]:
    """Import a module.

    Returns:
        The seconds of processor time, the new top-level packages with the modules that import them first, and what the
        import changed.
    """
    known, before, importers = set(sys.modules), snapshot(), Importers()
    sys.meta_path.insert(0, importers)
    started = time.process_time()
    try:
        import_module(module)
    finally:
        sys.meta_path.remove(importers)
    seconds = time.process_time() - started
    packages = sorted({name.partition(".")[0] for name in set(sys.modules) - known})
    return seconds, {name: importers.of.get(name, module) for name in packages}, changes(before, snapshot())


def _put_back(before: dict[str, Any], torch: Any) -> None:
    put_back(changed_since(before["the environment variables"]))
    os.chdir(before["the working directory"])
    if threading.current_thread() is threading.main_thread():
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before["the signal handlers"], strict=True):
            signal.signal(number, handler)
    import numpy as np

    np.seterr(**before["numpy's error handling"])
    if torch is not None:
        torch.set_rng_state(torch.frombuffer(bytearray(before["torch's random state"]), dtype=torch.uint8))
        torch.set_num_threads(before["torch's number of threads"])
        torch.set_default_dtype(before["torch's default dtype"])
        torch.set_grad_enabled(before["torch's gradient mode"])
        deterministic = before["torch's deterministic mode"]
        if torch.are_deterministic_algorithms_enabled() != deterministic:  # setting it imports torch's compiler
            torch.use_deterministic_algorithms(deterministic)


class Importers:
    """Notes which module imports a package first. Goes to the front of `sys.meta_path`, and finds nothing."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}
        """The module that imports a package first, by the package's name."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note the module whose code is importing this package."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("importlib", "_frozen_i")):
            frame = frame.f_back
        self.of.setdefault(name.partition(".")[0], frame.f_globals.get("__name__", "?"))
