"""What training borrows from the process and gives back: signals, random states, torch's threads.

A process has one of each, so one thread at a time may borrow them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import torch

from maze_core.errors import ConfigError

if TYPE_CHECKING:
    from maze_core.training.run import Run

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


class _Turn:
    """Which thread borrows from the process, and the run that it trains; as single as what is borrowed."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.training: str | None = None


_TURN = _Turn()
_LOOK_AGAIN = 0.05
"""Seconds between two looks at whether the thread that is waited for has begun to train."""


@contextmanager
def process_turn(training: str | None = None) -> Iterator[None]:
    """Let no other thread borrow from the process inside. Turns of one thread may be nested.

    Waits for another thread that builds, evaluates or plays, which is soon done; not for one that trains.

    Args:
        training: the run that is trained inside, as messages name it.

    Raises:
        ConfigError: another thread is training a run.
    """
    while not _TURN.lock.acquire(timeout=_LOOK_AGAIN):
        if (other := _TURN.training) is not None:
            raise ConfigError(
                f"another run is training in this process: {other}",
                hint="Torch's random state and threads are one for the process. Wait until it is done, or use a "
                "process of its own for each run, as `maze sweep` does.",
            )
    before = _TURN.training
    _TURN.training = training or before
    try:
        yield
    finally:
        _TURN.training = before
        _TURN.lock.release()


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads inside; 0 leaves it alone."""
    with process_turn():
        before = torch.get_num_threads()
        if count:
            torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Seed torch's global generators inside, and leave them outside as they were."""
    with process_turn(), torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def borrowed_rng(run: Run) -> Iterator[None]:
    """Let torch's global generator stand where the run left it inside, and where it was outside."""
    with process_turn(), torch.random.fork_rng():
        torch.set_rng_state(run.torch_rng)
        try:
            yield
        finally:
            run.torch_rng = torch.get_rng_state()


@contextmanager
def graceful_interrupts(ask_to_stop: Callable[[str], None]) -> Iterator[None]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop, and the second into KeyboardInterrupt at once.

    Signals reach the main thread only; elsewhere nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            raise KeyboardInterrupt
        ask_to_stop("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)

    with signal_handlers_kept():
        for number in _INTERRUPTS:
            signal.signal(number, handle)
        yield


@contextmanager
def signal_handlers_kept() -> Iterator[None]:
    """Put back the handlers of Ctrl-C and SIGTERM that are changed inside; in the main thread, where they live."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
