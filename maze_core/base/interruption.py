"""The signals that end a process: Ctrl-C and SIGTERM. What the first one asks for, and what a second one does."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
CTRL_C = "Ctrl-C"
_AGAIN = 1.0
"""Seconds after which `Preempted` is raised once more, where something has caught it."""
_TO_NOTICE = 1.5
"""Seconds in which a loss is noticed where it is looked for, before it is told."""
_UNWINDING = 5.0
"""Seconds in which a process that ends at once may close what it has open."""


class Interrupted(KeyboardInterrupt):
    """A signal ends what the main thread does."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Preempted(Interrupted):
    """A signal asked for an end some seconds ago, and what the main thread does since then takes too long."""


def exit_code_of(cause: str) -> int:
    """Return the exit code for an interruption by `cause`, as handlers of `graceful_interrupts` receive it."""
    return 128 + (signal.SIGTERM if signal.SIGTERM.name in cause else signal.SIGINT)


def pass_on(cause: str) -> None:
    """Let a signal that was put off have its effect: that of the handler that it would have reached.

    Raises:
        KeyboardInterrupt: by default, after Ctrl-C and after SIGTERM.
    """
    number = signal.Signals(exit_code_of(cause) - 128)
    handler = signal.getsignal(number)
    if callable(handler):
        handler(number, None)
    elif handler is signal.SIG_DFL:
        raise Interrupted(number)


class Preemption:
    """When the main thread must give up what it does. This one never lets it; see `graceful_interrupts`."""

    def __init__(self) -> None:
        self.alarmed = False
        """True: the next signal is our own, which raises `Preempted`."""
        self.armed = False
        """True while signals to the main thread are handled."""
        self.received: str | None = None
        """What asked for an end last, as handlers of `graceful_interrupts` receive it; None: nothing did."""
        self._settled = False
        self._held = 0
        self._put_off: BaseException | None = None
        self._loss: Exception | None = None
        self._sending = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Put `Preempted` off to the end of the block."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        if self._put_off is not None and not self._held and not self._settled:
            raise self._put_off

    def settle(self) -> None:
        """Raise `Preempted` no more: what had to be saved is saved."""
        self._settled = True
        with self._sending:  # what is sent now finds our handler still, and nothing is sent later
            pass

    def pass_on(self) -> None:
        """Pass on the signal that asked for an end, if there was one; to be called after `graceful_interrupts`."""
        cause, self.received = self.received, None
        if cause is not None:
            pass_on(cause)

    def lose(self, loss: Exception) -> None:
        """Raise an error in the main thread, from any thread, unless it ends soon: what it works with is gone."""
        if self.armed and self._loss is None:
            self._loss = loss
            self.begin(_TO_NOTICE)

    def begin(self, patience: float) -> None:
        """Raise `Preempted` in the main thread after so many seconds, unless all is settled by then."""
        # Not a Thread: a handler may have interrupted one that starts, whose lock it would wait for.
        _thread.start_new_thread(self._insist, (patience,))

    def go_off(self, number: int) -> None:
        """Raise `Preempted`, or what was lost, now or at the end of `held`."""
        self.alarmed = False
        if self._settled:
            return
        error = self._loss or Preempted(number)
        if self._held:
            self._put_off = error
            return
        raise error

    def _insist(self, patience: float) -> None:
        time.sleep(patience)
        while not self._settled:
            with self._sending:
                if not self._settled:
                    self.alarmed = True
                    # To the main thread, whatever it waits for.
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            time.sleep(_AGAIN)


@contextmanager
def graceful_interrupts(ask_to_stop: Callable[[str], object], patience: float | None = None) -> Iterator[Preemption]:
    """Turn the first Ctrl-C or SIGTERM into a request to stop, and the next into KeyboardInterrupt at once.

    A SIGTERM that follows Ctrl-C is a request of its own: who sends it does not wait. Signals reach only the main
    thread; in other threads nothing is changed.

    Args:
        ask_to_stop: is called with `Ctrl-C` or the name of the signal.
        patience: seconds after SIGTERM before `Preempted` is raised in the main thread, wherever it is; None: never.
    """
    preemption = Preemption()
    if threading.current_thread() is not threading.main_thread():
        yield preemption
        return
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if preemption.alarmed and number == signal.SIGTERM:
            preemption.go_off(number)
            return
        again = bool(seen) and (number == signal.SIGINT or signal.SIGTERM in seen)
        seen.append(number)
        if again:
            if callable(before := outer[number]):
                before(number, frame)
            raise Interrupted(number)
        preemption.received = CTRL_C if number == signal.SIGINT else signal.Signals(number).name
        ask_to_stop(preemption.received)
        if number == signal.SIGTERM and patience is not None:
            preemption.begin(patience)

    with signal_handlers_kept() as outer:
        for number in INTERRUPTS:
            signal.signal(number, handle)
        preemption.armed = True
        try:
            yield preemption
        finally:
            preemption.armed = False
            preemption.settle()


@contextmanager
def signal_handlers_kept() -> Iterator[dict[int, Any]]:
    """Restore the handlers of Ctrl-C and SIGTERM after the block; only in the main thread, which owns them."""
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in INTERRUPTS}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


@contextmanager
def exits_interrupted() -> Iterator[None]:
    """Pass on a SIGTERM that the handler of a library, set inside the block, has turned into SystemExit.

    The handler before the block is told, as it would have been. What was begun inside is given up: `Preempted`.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit as error:
        if error.code != signal.SIGTERM:
            raise
        if callable(before):
            before(signal.SIGTERM, None)
        raise Preempted(signal.SIGTERM) from None


def end_on_signals() -> None:
    """Let Ctrl-C and SIGTERM raise `Interrupted` in this process, which then has some seconds to close what is open.

    A further one ends it at once. What the process ignored so far, it still ignores.
    """
    seen: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if seen:
            os._exit(128 + number)
        seen.append(number)
        _thread.start_new_thread(_end_late, (number,))
        raise Interrupted(number)

    for number in INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def _end_late(number: int) -> None:
    time.sleep(_UNWINDING)
    os._exit(128 + number)
