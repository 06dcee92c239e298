"""The signals that end a process, without a run."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from maze_core.base.errors import LostError
from maze_core.base.interruption import (
    Interrupted,
    Preempted,
    exit_code_of,
    exits_interrupted,
    graceful_interrupts,
    signal_handlers_kept,
)

INT, TERM = signal.SIGINT, signal.SIGTERM


def send(*numbers):
    for number in numbers:
        signal.raise_signal(number)  # to this thread at once: two of a kind that wait would count as one


def test_a_first_signal_only_asks():
    for number, cause in ((INT, "Ctrl-C"), (TERM, "SIGTERM")):
        before, asked = signal.getsignal(number), []
        with graceful_interrupts(asked.append):
            send(number)
        assert asked == [cause]
        assert exit_code_of(f"interrupted by {cause}") == 128 + number
        assert signal.getsignal(number) is before


@pytest.mark.parametrize("numbers", [(INT, INT), (TERM, TERM), (TERM, INT), (INT, TERM, TERM)])
def test_a_second_one_ends_at_once(numbers):
    with pytest.raises(KeyboardInterrupt), graceful_interrupts(lambda cause: None, 60.0):
        send(*numbers)


def test_sigterm_after_ctrl_c_asks_again():
    asked = []
    with graceful_interrupts(asked.append):
        send(INT, TERM)
    assert asked == ["Ctrl-C", "SIGTERM"]


def test_patience_ends_whatever_the_main_thread_waits_for():
    began = time.monotonic()
    with graceful_interrupts(lambda cause: None, 0.1):
        send(TERM)
        with pytest.raises(Preempted):
            threading.Event().wait(30)
    assert time.monotonic() - began < 5


def test_a_loss_ends_whatever_the_main_thread_waits_for(monkeypatch):
    monkeypatch.setattr("maze_core.base.interruption._TO_NOTICE", 0.1)
    asked = []
    with graceful_interrupts(asked.append) as preemption:
        threading.Thread(target=preemption.lose, args=(LostError("the cluster is gone"),)).start()
        with pytest.raises(LostError, match="the cluster is gone"):
            threading.Event().wait(30)
        preemption.settle()
        time.sleep(0.2)  # nothing more comes, or it would be a signal of somebody else's
    assert not asked
    preemption.lose(LostError("too late"))
    time.sleep(0.2)


def test_it_is_raised_again_where_something_caught_it():
    with graceful_interrupts(lambda cause: None, 0.05):
        send(TERM)
        for _ in range(2):
            with pytest.raises(Preempted):
                time.sleep(30)


def test_it_is_put_off_while_something_must_not_be_torn():
    done = []

    def work(preemption):
        with preemption.held(), preemption.held():
            time.sleep(0.3)
            done.append(True)
        done.append(False)

    with graceful_interrupts(lambda cause: None, 0.05) as preemption:
        send(TERM)
        with pytest.raises(Preempted):
            work(preemption)
    assert done == [True]


def test_it_is_not_raised_once_all_is_settled():
    with graceful_interrupts(lambda cause: None, 0.05) as preemption:
        send(TERM)
        preemption.settle()
        time.sleep(0.2)
    with graceful_interrupts(lambda cause: None, 0.05):
        send(TERM)
    time.sleep(0.2)  # and not behind the block either


def test_other_threads_change_nothing():
    before, seen = signal.getsignal(TERM), []

    def work():
        with graceful_interrupts(seen.append, 0.0):
            seen.append(signal.getsignal(TERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def start_library(code=TERM):
    """Be interrupted while a library has a handler of its own."""
    with signal_handlers_kept(), exits_interrupted():
        signal.signal(TERM, lambda number, frame: sys.exit(code))
        send(TERM)


def test_a_signal_that_a_library_takes_is_passed_on():
    asked = []
    with graceful_interrupts(asked.append, 60.0):
        with pytest.raises(Preempted):
            start_library()
        assert asked == ["SIGTERM"]
        with pytest.raises(Interrupted) as second:
            start_library()
    assert not isinstance(second.value, Preempted)  # it ends at once
    with pytest.raises(Interrupted) as alone:
        start_library()
    assert alone.value.exit_code == 143
    with pytest.raises(SystemExit, match="3"):
        start_library(3)


STUBBORN = """
import os, signal, sys, time
from maze_core.base.interruption import end_on_signals
end_on_signals()
word = "ready"
while True:
    try:
        print(word, flush=True)
        time.sleep(60)
    except BaseException:
        word = "once"
"""


@pytest.mark.parametrize("numbers", [(TERM, TERM), (INT, TERM), (TERM, INT)])
def test_a_command_that_does_not_end_is_ended_by_the_second_signal(numbers):
    """On a machine that is so busy that it takes seconds, it has the code of the first."""
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(numbers[0])
    assert process.stdout.readline() == "once\n"
    process.send_signal(numbers[1])
    assert process.wait(30) in (128 + numbers[0], 128 + numbers[1])
    process.stdout.close()


@pytest.mark.slow
def test_a_command_that_does_not_end_is_ended_after_some_seconds():
    process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(TERM)
    began = time.monotonic()
    assert process.wait(30) == 143
    assert time.monotonic() - began < 15
    process.stdout.close()
