"""Direct lines to the workers of this node: messages, who may call, and the pool's promises over them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("maze_ray")

from maze_ray.socket_channel import Arrivals, Door, SocketChannel, call, has_channels

from tests.runners.pool_contract import PoolContract, collect_all

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.skipif(not has_channels(), reason="Linux only")


@pytest.fixture
def start(local_ray, monkeypatch):
    """As for other pools, over lines."""
    from maze_ray.pool import RayPool

    from tests.maze_ray.test_pool import starting

    plain = RayPool.__init__
    monkeypatch.setattr(RayPool, "__init__", lambda pool, *arguments: plain(pool, *arguments, lines=True))
    with starting() as start:
        yield start


@pytest.fixture
def pool(start):
    return start(2)


@pytest.mark.slow
class TestLines(PoolContract):
    """What every pool promises."""

    def test_all_workers_are_on_lines(self, pool):
        assert all(member.line is not None for member in pool._members.values())


def test_a_line_that_breaks_costs_its_worker_but_no_job(start):
    pool = start(2)
    weight = np.ones(100_000)  # more than calls of Ray carry
    pool.share({"weight": weight})
    jobs = [pool.submit(("who", 0.05), worker=number) for number in (0, 1, 0)]
    pool._members[0].line._socket.shutdown(socket.SHUT_RDWR)
    with pytest.warns(RuntimeWarning, match=r"worker 0 .*was lost.* it is started again \(1 of"):
        results = collect_all(pool)
    assert sorted(result.job for result in results) == jobs
    pool.submit(("shared", 0.0), worker=0)
    version, arrays = pool.collect().value
    assert (version, arrays["weight"]) == (1, (weight.tolist(), False))


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
    with closing(Door()) as door:
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
