"""Direct lines to the workers of this node: messages, who may call, and the pool's promises over them."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import textwrap
from contextlib import closing, suppress

import numpy as np
import pytest

pytest.importorskip("maze_ray")

from maze_ray.socket_channel import Arrivals, Door, NoMessageError, SocketChannel, call, has_channels, new_address
from maze_ray.ways import OwnLine

from maze_core.base.errors import RunError
from tests.maze_ray.light import Light
from tests.maze_ray.test_pool import starting
from tests.runners.pool_contract import JobContract, collect_all
from tests.spoilt import SPOILT_BYTES

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(not has_channels(), reason="Linux only")


@pytest.fixture(scope="module")
def lines(local_ray):
    """All pools have lines."""
    from maze_ray.pool import RayPool

    plain = RayPool.__init__
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RayPool, "__init__", lambda pool, *arguments: plain(pool, *arguments, lines=True))
        yield


@pytest.fixture
def start(lines):
    with starting() as start:
        yield start


@pytest.fixture(scope="module")
def pool(lines):
    """For tests that do no harm to it."""
    with starting() as start:
        yield start(2)


@pytest.mark.slow
class TestLines(JobContract):
    """What every pool promises of its jobs; beginnings, failures and losses have nothing to do with lines."""

    def test_all_workers_are_on_lines(self, pool):
        assert all(isinstance(member.way, OwnLine) for member in pool._members.values())


def test_a_line_that_breaks_costs_its_worker_but_no_job(start):
    pool = start(2)
    weight = np.ones(100_000)  # more than calls of Ray carry
    pool.share({"weight": weight})
    jobs = [pool.submit(("who", 0.05), worker=number) for number in (0, 1, 0)]
    pool._members[0].way._channel._socket.shutdown(socket.SHUT_RDWR)
    with pytest.warns(RuntimeWarning, match=r"worker 0 .*was lost.* it is started again \(1 of"):
        results = collect_all(pool)
    assert sorted(result.job for result in results) == jobs
    pool.submit(("shared", 0.0), worker=0)
    version, arrays = pool.collect().value
    assert (version, arrays["weight"]) == (1, (weight.tolist(), False))
    pool.submit(("fail", ValueError("broken job")))
    with pytest.raises(RunError, match=r"worker . failed: broken job"):
        pool.collect()


class Writes(Light):
    """Writes each job into the line that leads to the driver, and then answers."""

    def run(self, job, shared):
        for descriptor in range(3, 200):
            with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as found:
                if found.family == socket.AF_UNIX and found.getpeername()[:5] == b"\0maze":
                    found.send(job)
        return "done"


@pytest.mark.slow
def test_a_worker_that_writes_into_its_line(start):
    pool = start(1, Writes())
    pool.submit(SPOILT_BYTES["an endless message"])
    with pytest.raises(RunError, match=r"worker 0 .*sent bytes that are no message\. Something in it, such as the env"):
        pool.collect()


@pytest.mark.slow
def test_a_driver_that_writes_into_a_line(start):
    pool = start(1)
    pool._members[0].way._channel._socket.sendall(SPOILT_BYTES["zeros"])
    pool.submit(("who", 0.0))
    with pytest.raises(RunError, match=r"to .*worker 0 .*this process sent bytes that are no message"):
        pool.collect()


@pytest.fixture
def ends():
    here, there = socket.socketpair()
    there.settimeout(0.2)
    with here, there:
        yield here, SocketChannel(there, 0.2)


def sent(message):
    """The bytes of a message."""
    here, there = socket.socketpair()
    with here, there:
        SocketChannel(here).send(message)
        return there.recv(10**6)


HEAD = 22
"""Bytes of the lengths of a message without large arrays."""
WHOLE = sent({"a": np.arange(3), "large": np.zeros(40_000, np.uint8)})


@pytest.mark.parametrize("content", SPOILT_BYTES.values(), ids=SPOILT_BYTES)
@pytest.mark.parametrize("place", [0, 1, 11, 12, 30, -40_010, -100, -1])
def test_bytes_that_do_not_belong_there(ends, monkeypatch, content, place):
    """Before a message or in it: nothing is unpickled, and no room is made for what never comes."""
    here, channel = ends
    monkeypatch.setattr(pickle, "loads", lambda *_, **__: pytest.fail("unpickled"))
    here.sendall(WHOLE[:place] + content + WHOLE[place:])
    with pytest.raises(NoMessageError):
        channel.receive()


@pytest.mark.parametrize("seed", range(4))
def test_messages_that_are_damaged_anywhere_in_their_lengths(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        here, there = socket.socketpair()
        damaged = bytearray(WHOLE)
        damaged[rng.integers(HEAD)] ^= int(rng.integers(1, 256))
        with here, there:
            here.sendall(damaged)
            with pytest.raises(NoMessageError):
                SocketChannel(there, 0.1).receive()


@pytest.mark.parametrize("size", [0, 1, 11, 12, 40, 39_000, len(WHOLE) - 1])
def test_a_message_whose_rest_does_not_come(ends, size):
    here, channel = ends
    here.sendall(WHOLE[:size])
    with pytest.raises(NoMessageError):
        channel.receive()
    here.sendall(WHOLE[:size])
    here.close()
    with pytest.raises((EOFError, NoMessageError) if size else EOFError):  # the process has ended, and tore it
        channel.receive()


def test_a_caller_that_is_no_worker_is_turned_away():
    with closing(Door(new_address())) as door:
        callers = [socket.socket(socket.AF_UNIX) for _ in SPOILT_BYTES]
        for caller, content in zip(callers, SPOILT_BYTES.values(), strict=True):
            caller.connect(door.address)
            caller.sendall(content)
            caller.shutdown(socket.SHUT_WR)
        odd = [call(door.address, number) for number in ([1], "x", None)]
        line = call(door.address, 3)
        line.send("hello")
        assert door.admit(3).receive() == "hello"
        for caller in callers:
            caller.close()
        for each in (line, *odd):
            each.close()


def test_a_message_arrives_whole():
    large = [np.random.default_rng(n).random(200_000) for n in range(3)]
    message = {"small": np.arange(3), "large": large, "text": "x"}
    here, there = (SocketChannel(end) for end in socket.socketpair())
    code = (
        "import socket, sys; from maze_ray.socket_channel import SocketChannel\n"
        "line = SocketChannel(socket.socket(fileno=int(sys.argv[1])))\n"
    )
    with closing(here):
        echo = f"{code}line.send(line.receive())"
        number = there.fileno()
        with subprocess.Popen([sys.executable, "-c", echo, str(number)], pass_fds=[number]) as process:
            there.close()
            here.send(message)
            answer = here.receive()
            with pytest.raises(EOFError):
                here.receive()
            assert process.wait(60) == 0
    np.testing.assert_equal(answer, message)
    answer["large"][0][0] = 1.0  # writable


def test_only_workers_of_this_node_and_user_are_let_in():
    with closing(Door(new_address())) as door:
        if os.getuid() == 0:
            intruder = """
                import os, socket, sys
                os.setuid(65534)
                connection = socket.socket(socket.AF_UNIX)
                connection.connect("\\0" + sys.argv[1])
                print(connection.recv(1))
            """
            command = [sys.executable, "-S", "-c", textwrap.dedent(intruder), door.address[1:]]
            stranger = subprocess.Popen(command, stdout=subprocess.PIPE)
            connection, _ = door._socket.accept()  # look at it as `admit` does, which would go on waiting
            from maze_ray.socket_channel import _is_ours

            assert not _is_ours(connection)
            connection.close()
            assert stranger.communicate(timeout=60)[0].strip() == b"b''"
        lines = {number: call(door.address, number) for number in (1, 0)}
        for number, line in lines.items():
            line.send(f"I am {number}")
        assert [door.admit(number).receive() for number in (0, 1)] == ["I am 0", "I am 1"]
    assert call(door.address, 2) is None  # nobody listens any more


def test_arrivals_come_from_threads_and_lines():
    here, there = (SocketChannel(end) for end in socket.socketpair())
    with closing(Arrivals()) as arrivals, closing(here), closing(there):
        arrivals.watch(here, "its owner")
        assert arrivals.get(0.0) == ([], [])
        arrivals.put("first")
        arrivals.put("second")
        there.send("hello")
        assert len(arrivals) == 2
        assert arrivals.get(60.0) == (["first", "second"], ["its owner"])
        assert arrivals.get(0.0) == ([], ["its owner"])  # until the message is read
        assert here.receive() == "hello"
        assert arrivals.get(0.0) == ([], [])
        arrivals.forget(here)
    arrivals.put("too late")  # Ray's thread knows nothing of the end
