"""Clients that send nonsense, too much, too slowly, or leave: each is answered or dropped, and others are served on."""

import asyncio
import json
import os
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from maze_devkit.envs import SeededWalk
from maze_serve.command import listening
from maze_serve.limits import Limits
from maze_serve.server import Server

from tests.maze_serve.asked import app_of

BODY = b'{"observation": [0.5, 1.0]}'
QUICK = Limits(
    body_bytes=1_000_000,
    all_bodies_bytes=3_000_000,
    connections=8,
    idle_seconds=0.6,
    head_seconds=0.3,
    body_seconds=0.3,
    write_seconds=0.3,
    linger_seconds=0.2,
)
PATIENT = Limits(linger_seconds=0.2)


@pytest.fixture
def served(quick, capfd):
    """`served(limits)`: the port of a server in a thread; nothing may be printed while it runs."""
    app = app_of(quick(SeededWalk, "ppo"))

    @contextmanager
    def serving(limits):
        server = Server(app, limits)
        with listening(0) as listener:
            thread = threading.Thread(target=lambda: asyncio.run(server.serve(listener)))
            thread.start()
            try:
                yield listener.getsockname()[1]
            finally:
                server.stop()
                thread.join(5)
                assert not thread.is_alive()
        assert capfd.readouterr().err == ""

    return serving


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def request(first=b"POST /act HTTP/1.1", *headers, body=BODY, length=None):
    """Bytes of a request."""
    sized = b"Content-Length: %d" % (len(body) if length is None else length)
    lines = [first, b"Host: localhost", b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, *([] if length is False else [sized]), b"", body])


def everything(client):
    """What comes until the server closes the connection."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        parts.append(b"(reset)")
    return b"".join(parts)


def one(client):
    """The status, the headers and the JSON of the next answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        part = client.recv(65536)
        assert part, received
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    while len(body) < int(headers[b"content-length"]):
        body += client.recv(65536)
    return int(head.split()[1]), headers, json.loads(body)


def still_served(port):
    with connected(port) as client:
        client.sendall(request())
        return one(client)[0] == 200


MALFORMED = [
    (b"GET /\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\nHost: localhost\n\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\n", 400),
    (request(b"POST /act HTTP/1.1", b"X: a\nContent-Length: 27", length=False), 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\n\r\n", 403),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\n folded: 1\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\nY: b\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n", 400),
    (request(length=-1), 400),
    (request(b"POST /act HTTP/1.1", b"Content-Length: 27", length=27), 400),
    (request(b"POST /act HTTP/1.1", b"Content-Length: 27, 27", length=False), 400),
    (request(b"POST /act HTTP/1.1", b"Content-Length: +27", length=False), 400),
    (request(b"POST /act HTTP/1.1", b"Content-Length: 0x1b", length=False), 400),
    (request(b"POST /act HTTP/1.1", "Content-Length: ٢".encode(), length=False), 400),
    (request(b"POST /act HTTP/1.1", b"Content-Length:", length=False), 400),
    (request(length=99999999999), 413),
    (request(length=10**40), 413),
    (request(b"POST /act HTTP/1.1", b"Transfer-Encoding: chunked", length=False), 411),
    (request(b"POST /act HTTP/1.1", b"Transfer-Encoding: gzip, chunked", length=False), 501),
    (request(b"POST /act HTTP/1.1", b"Transfer-Encoding: chunked"), 400),
    (request(b"POST /act HTTP/1.1", b"Expect: 200-maybe"), 417),
    (request(b"POST /nothing HTTP/1.1"), 404),
    (request(b"DELETE /act HTTP/1.1"), 405),
    (b"GET /" + b"a" * 10_000, 414),
    (b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n", 414),
    (b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 101 + b"\r\n", 431),
    (b"GET /health HTTP/1.1\r\nX: " + b"a" * 40_000, 431),
]


def test_what_is_no_request_is_answered_at_once_and_nothing_follows(served):
    """What comes after it on the connection is not taken for another request."""
    with served(PATIENT) as port:
        for sent, status in MALFORMED:
            with connected(port) as client:
                began = time.monotonic()
                client.sendall(sent + request(b"POST /reset HTTP/1.1", body=b"{}"))
                answer = everything(client)
                assert answer.startswith(b"HTTP/1.1 %d " % status), (sent[:80], answer)
                assert answer.count(b"Connection: close") == answer.count(b"\r\n\r\n") == 1, sent[:80]
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
                assert time.monotonic() - began < 2, sent[:80]
        assert still_served(port)


def test_good_requests_in_unusual_pieces(served):
    with served(PATIENT) as port, connected(port) as client:
        client.sendall(request() * 40)  # one after the other, unasked
        assert [one_of(client) for _ in range(40)] == [200] * 40
        for byte in request():
            client.sendall(bytes([byte]))
        assert one(client)[0] == 200
        client.sendall(b"\r\n" + request(b"POST /act HTTP/1.1", b"Expect: 100-continue")[: -len(BODY)])
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(BODY)
        assert one(client)[0] == 200
        client.sendall(request(body=b'{"observation": [1]}'))
        assert one(client)[0] == 422  # it was received whole, so another may follow
        client.sendall(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1000).endswith(b"\r\n\r\n")
        client.sendall(request(b"POST /act HTTP/1.0"))
        assert everything(client).startswith(b"HTTP/1.1 200")
    with served(PATIENT) as port, connected(port) as client:
        client.sendall(request())
        client.shutdown(socket.SHUT_WR)  # such a client still wants its answer
        assert everything(client).startswith(b"HTTP/1.1 200")
    for half in (b"GET /hea", request(length=100)):
        with served(PATIENT) as port, connected(port) as client:
            client.sendall(request() * 300 + half)
            client.shutdown(socket.SHUT_WR)
            assert everything(client).count(b"HTTP/1.1 200") == 300


def test_an_empty_line_after_a_body_is_no_request(served):
    with served(QUICK) as port, connected(port) as client:
        for rest in (b"\r\n", b"\r\n\r\n", b""):
            client.sendall(request() + rest)
            assert one(client)[0] == 200
            time.sleep(1.2 * QUICK.head_seconds)  # it waits, and is not late


def one_of(client):
    """The status of the next of many answers, byte by byte."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += client.recv(1)
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    assert len(client.recv(length, socket.MSG_WAITALL)) == length
    return int(head.split()[1])


def test_a_client_that_is_refused_can_read_why(served):
    """It sends on for a while, so a connection that is closed at once would lose the answer."""
    with served(QUICK) as port, connected(port) as client:
        sender = threading.Thread(target=flood, args=(client, request(length=2_000_000, body=b""), 2_000_000))
        sender.start()
        status, headers, told = one(client)
        assert (status, headers[b"connection"]) == (413, b"close")
        assert "larger than 1,000,000 bytes" in told["error"]
        sender.join(5)
        assert not sender.is_alive()


def flood(client, head, size):
    try:
        client.sendall(head)
        for _ in range(size // 10_000):
            client.sendall(b" " * 10_000)
    except OSError:
        pass


def test_endless_headers_take_no_memory(served):
    with served(PATIENT) as port, connected(port) as client:
        sender = threading.Thread(target=flood, args=(client, b"GET /health HTTP/1.1\r\nX: ", 50_000_000))
        before = memory()
        sender.start()
        assert one(client)[0] == 431
        sender.join(10)
        assert memory() - before < 20_000_000


def memory():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize(
    ("sent", "drip"),
    [
        (b"POST /act HT", b""),
        (b"POST /act HTTP/1.1\r\nHost: localhost\r\n", b""),
        (b"GET /health HTTP/1.1\r\n", b"X: y\r\n"),
        (request(length=100), b""),
        (request(length=10_000), b" "),
    ],
)
def test_half_a_request_ends_in_time_however_it_drips(served, sent, drip):
    with served(QUICK) as port, connected(port) as client:
        began, stop = time.monotonic(), threading.Event()
        client.sendall(sent)

        def dripping():
            try:
                while drip and not stop.wait(0.02):
                    client.sendall(drip)
            except OSError:
                pass

        thread = threading.Thread(target=dripping)
        thread.start()
        assert still_served(port)
        assert one(client)[0] == 408
        assert time.monotonic() - began < 3
        stop.set()
        thread.join()


def test_who_leaves_is_forgotten_without_a_word(served):
    with served(PATIENT) as port:
        for sent in (b"", b"GET", request(length=1000), request(length=1000) + b" " * 500, request() * 50):
            for abruptly in (False, True):
                client = connected(port)
                client.sendall(sent)
                if abruptly:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                client.close()
        assert still_served(port)


def test_idle_clients_make_room_for_others(served):
    with served(Limits(connections=8)) as port:
        idle = [connected(port) for _ in range(30)]
        busy = connected(port)
        busy.sendall(request())
        assert one(busy)[0] == 200
        more = [connected(port) for _ in range(30)]
        time.sleep(0.1)
        assert still_served(port)
        gone = [client for client in [*idle, *more] if not waits(client)]
        assert len(gone) >= 52
        for client in (*idle, *more, busy):
            client.close()
    with served(QUICK) as port, connected(port) as client:
        assert everything(client) == b""  # its time is over


def waits(client):
    """Whether the server has left a connection open."""
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def test_bodies_that_are_promised_at_the_same_time_are_bounded(served):
    with served(QUICK) as port:
        promised = [connected(port) for _ in range(4)]
        for client in promised:
            client.sendall(request(length=900_000, body=b""))
        assert sorted(one(client)[0] for client in promised) == [408, 408, 408, 503]
        assert still_served(port)
        for client in promised:
            client.close()


def test_small_requests_are_answered_while_large_ones_take_all_memory(served):
    """A client may send the head and the body of a small request one after the other."""
    full = Limits(body_bytes=1_000_000, all_bodies_bytes=1_000_000, linger_seconds=0.2)
    with served(full) as port, connected(port) as large, connected(port) as small:
        large.sendall(request(length=1_000_000, body=b" " * 100_000))
        for _ in range(3):
            small.sendall(request(body=b"", length=len(BODY)))
            time.sleep(0.05)
            small.sendall(BODY)
            assert one(small)[0] == 200
        small.sendall(request(length=100_000, body=b""))
        assert one(small)[0] == 503


def test_who_does_not_take_its_answers_is_dropped(served):
    asks = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000
    with served(QUICK) as port, connected(port) as client:
        sender = threading.Thread(target=flood, args=(client, asks * 1000, 0))
        sender.start()
        assert still_served(port)  # while the other asks without a pause
        sender.join(20)
        assert not sender.is_alive()
        assert still_served(port)


def test_it_ends_at_once_with_connections_open(served):
    began = time.monotonic()
    with served(PATIENT) as port:
        clients = [connected(port) for _ in range(5)]
        clients[1].sendall(b"POST /act HT")
        clients[2].sendall(request(length=100))
        clients[3].sendall(request())
        assert one(clients[3])[0] == 200
    assert time.monotonic() - began < 4
    for client in clients:
        assert everything(client) in (b"", b"(reset)")
        client.close()
