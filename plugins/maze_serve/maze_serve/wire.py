"""The part of HTTP/1.1 that the server speaks: heads of requests are read strictly, answers are written.

A body has a Content-Length; `Transfer-Encoding` is refused. What programs read in different ways, such as two lengths
or line ends without a carriage return, is refused, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

from maze_serve.refusals import RefusedRequestError

if TYPE_CHECKING:
    from maze_serve.limits import Limits

END = b"\r\n\r\n"
"""The end of a head."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_FIRST = re.compile(rb"([A-Za-z]{1,20}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])")
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_ONCE = ("host", "content-length", "content-type", "content-encoding", "transfer-encoding", "expect")
_TLS = b"\x16\x03"
"""How a connection of https begins."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the headers of a request."""

    method: str
    path: str
    query: str | None = None
    """What follows a question mark; None: there is none."""
    headers: dict[str, str] = field(default_factory=dict)
    """By name in lower case."""
    keeps_alive: bool = True
    """True: the client may send another request on this connection."""
    length: int = 0
    """Bytes of the body."""

    @property
    def expects(self) -> bool:
        """True: the client sends the body once it is told to continue."""
        return "expect" in self.headers and self.length > 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the client is told."""

    status: int
    body: bytes
    media_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    def encode(self, *, with_body: bool, closes: bool) -> bytes:
        """Return its bytes; `closes`: the connection ends with it."""
        lines = [
            f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}",
            f"Content-Type: {self.media_type}",
            f"Content-Length: {len(self.body)}",
            f"Date: {formatdate(usegmt=True)}",
            f"Connection: {'close' if closes else 'keep-alive'}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return head + self.body if with_body else head


def check_so_far(received: bytearray, limits: Limits) -> None:
    """Refuse the beginning of a head as soon as it cannot become one.

    Raises:
        RefusedRequestError: it is too long, or no HTTP.
    """
    line = received.find(b"\n")
    if received.startswith(_TLS):
        raise RefusedRequestError(400, "this server speaks http, not https")
    if (line < 0 and len(received) > limits.line_bytes) or line > limits.line_bytes:
        raise RefusedRequestError(414, f"the first line is longer than {limits.line_bytes:,} bytes")
    if line >= 0 and received[line - 1 : line] != b"\r":
        raise RefusedRequestError(400, "lines must end with a carriage return and a line feed")
    if len(received) > limits.head_bytes:
        raise RefusedRequestError(431, f"the headers are longer than {limits.head_bytes:,} bytes")


def read_head(head: bytes, limits: Limits) -> Head:
    """Return what a head says; `head` ends before its empty line.

    Raises:
        RefusedRequestError: it is malformed, or asks for what this server does not do.
    """
    first, *lines = head.split(b"\r\n")
    found = _FIRST.fullmatch(first)
    if found is None:
        raise RefusedRequestError(400, "the first line is not one of HTTP, such as: POST /act HTTP/1.1")
    method, target, major, minor = (part.decode() for part in found.groups())
    if major != "1" or minor not in "01":
        raise RefusedRequestError(505, "this server speaks HTTP/1.1")
    if not target.startswith("/"):
        raise RefusedRequestError(400, "the path must begin with /")
    headers = _headers(lines, limits)
    path, mark, query = target.partition("?")
    options = {each.strip().lower() for each in headers.get("connection", "").split(",")}
    alive = "close" not in options and (minor == "1" or "keep-alive" in options)
    return Head(method, path, query if mark else None, headers, alive, _length(headers, limits))


def _headers(lines: list[bytes], limits: Limits) -> dict[str, str]:
    if len(lines) > limits.headers:
        raise RefusedRequestError(431, f"the request has more than {limits.headers} headers")
    headers: dict[str, str] = {}
    for line in lines:
        raw, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(raw) or _CONTROL.search(value):
            raise RefusedRequestError(400, "a header is malformed")
        name, text = raw.decode().lower(), value.strip(b" \t").decode("latin-1")
        if name in headers and name in _ONCE:
            raise RefusedRequestError(400, f"the header {name} occurs twice")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def _length(headers: dict[str, str], limits: Limits) -> int:
    """Return the bytes of the body."""
    text = headers.get("content-length")
    if (coding := headers.get("transfer-encoding")) is not None:
        if text is not None:
            raise RefusedRequestError(400, "the request has both a Content-Length and a Transfer-Encoding")
        status = 411 if coding.lower() == "chunked" else 501
        raise RefusedRequestError(status, "Transfer-Encoding is not supported; send a Content-Length")
    if headers.get("expect", "100-continue").lower() != "100-continue":
        raise RefusedRequestError(417, "the header Expect may only say 100-continue")
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit():
        raise RefusedRequestError(400, "Content-Length must be a whole number")
    if len(text) > 18 or int(text) > limits.body_bytes:
        raise RefusedRequestError(413, f"the request is larger than {limits.body_bytes:,} bytes")
    return int(text)
