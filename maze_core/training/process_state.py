"""What training borrows from the process and gives back: signals, random states, torch's threads."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from maze_core.training.run import Run

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads inside; 0 leaves it alone."""
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
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def borrowed_rng(run: Run) -> Iterator[None]:
    """Let torch's global generator stand where the run left it inside, and where it was outside."""
    with torch.random.fork_rng():
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
