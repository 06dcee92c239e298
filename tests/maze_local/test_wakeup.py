"""A bell: messages wake nobody before it rings."""

import multiprocessing
import select
import threading

import pytest
from maze_local.wakeup import Listener, Wakeup, has_wakeups

pytestmark = pytest.mark.skipif(not has_wakeups(), reason="there are bells on Linux only")


@pytest.fixture
def bell():
    bell = Wakeup()
    yield bell
    bell.close()
    bell.close()


@pytest.fixture
def waits(monkeypatch):
    """The waits for a bell of all listeners, each of which tells when it is entered."""
    made, epoll = [], select.epoll

    class Watched:
        def __init__(self):
            self.bell, self.entered = epoll(), threading.Event()
            self.register = self.bell.register
            made.append(self)

        def poll(self):
            self.entered.set()
            return self.bell.poll()

    monkeypatch.setattr(select, "epoll", Watched)
    return made


def listening(listener):
    """Return an event that is set once the listener has returned."""
    heard = threading.Event()
    threading.Thread(target=lambda: (listener.wait(), heard.set()), daemon=True).start()
    return heard


def test_a_message_is_noticed_when_the_bell_rings(bell, waits):
    pipes = [multiprocessing.Pipe() for _ in range(2)]
    listeners = [Listener(theirs.fileno(), bell) for _, theirs in pipes]
    for message in range(4):
        for each in waits:
            each.entered.clear()
        heard = [listening(listener) for listener in listeners]
        assert message or [each.entered.wait(20) for each in waits] == [True] * 2
        for ours, _ in pipes:
            ours.send(message)
        if message == 0:  # later, an earlier ring may wake them
            assert not any(each.wait(0.2) for each in heard)
        bell.ring()
        assert all(each.wait(20) for each in heard)
        listeners[0].wait()  # the message is still there
        assert [theirs.recv() for _, theirs in pipes] == [message] * 2
    bell.ring()  # for nothing
    (ours, _), listener = pipes[0], listeners[0]
    heard = listening(listener)
    ours.close()  # as when the writer has died
    bell.ring()
    assert heard.wait(20)


def test_without_a_bell_messages_are_read_as_they_come():
    ours, theirs = multiprocessing.Pipe()
    listener = Listener(theirs.fileno(), None)
    ours.send(1)
    listener.wait()
    assert theirs.recv() == 1
