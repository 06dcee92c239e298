"""Downloads over HTTP from servers that nobody trusts: limits of size and time, and redirects only to HTTP."""

from __future__ import annotations

import threading
import time
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from maze_core import RunError
from maze_core.base.terminal_text import printable
from maze_publish.address import masked
from maze_publish.limits import Limits

_CHUNK = 1 << 16
_REDIRECTS = 5


class MissingError(Exception):
    """The server says that there is no such file."""


class _RefusedError(Exception):
    """The download was given up, for a reason that is told."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows few redirects, and only to HTTP; from HTTPS only to HTTPS."""

    max_repeats = 2
    max_redirections = _REDIRECTS

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the request that follows. Raises _RefusedError if it would leave HTTP."""
        scheme, before = urlsplit(newurl).scheme, urlsplit(req.full_url).scheme
        if scheme not in ("http", "https") or (before == "https" and scheme != "https"):
            raise _RefusedError(f"it redirects to {masked(newurl)}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(url: str, limit: int, limits: Limits, deadline: float) -> bytes:
    """Return what a server has at a URL.

    Args:
        url: `http` or `https`.
        limit: the most bytes.
        limits: of the transfer.
        deadline: the time of `time.monotonic` at which it is given up.

    Raises:
        MissingError: there is no such file.
        RunError: it cannot be fetched, has more bytes or takes too long.
    """
    work = _Download(url, limit, limits, deadline)
    # A server may send its answer byte by byte, or a name server none: no timeout of a socket ends that.
    thread = threading.Thread(target=work.run, name="maze-download", daemon=True)
    thread.start()
    thread.join(max(0.0, deadline - time.monotonic()))
    work.given_up = thread.is_alive()
    if work.given_up:
        raise RunError(f"{masked(url)} cannot be fetched: it takes longer than {limits.seconds:g} seconds")
    if isinstance(work.error, MissingError):
        raise work.error
    if work.error is not None:
        raise RunError(f"{masked(url)} cannot be fetched: {_reason(work.error)}") from None
    return b"".join(work.chunks)


class _Download:
    """One download, which runs in a thread of its own."""

    def __init__(self, url: str, limit: int, limits: Limits, deadline: float) -> None:
        self._url, self._limit, self._limits, self._deadline = url, limit, limits, deadline
        self.chunks: list[bytes] = []
        self.error: Exception | None = None
        self.given_up = False

    def run(self) -> None:
        """Fetch the bytes, or keep the error."""
        try:
            self._fetch()
        except HTTPError as error:
            self.error = MissingError(self._url) if error.code in (404, 410) else error
        except Exception as error:  # noqa: BLE001 — a server may provoke anything
            self.error = error

    def _fetch(self) -> None:
        headers = {"User-Agent": "maze", "Accept-Encoding": "identity"}
        request = urllib.request.Request(self._url, headers=headers)  # noqa: S310 — the opener knows HTTP alone
        size = 0
        with _opener().open(request, timeout=self._limits.pause) as answer:
            text = answer.headers.get("Content-Length") or ""
            declared = int(text) if text.isdecimal() and len(text) < 20 else 0
            while not self.given_up and time.monotonic() < self._deadline:
                if max(size, declared) > self._limit:
                    raise _RefusedError(f"it has more than {self._limit:,} bytes")
                chunk = answer.read1(_CHUNK)
                if not chunk:
                    self._check_whole(size, declared)
                    return
                self.chunks.append(chunk)
                size += len(chunk)
        raise _RefusedError(f"it takes longer than {self._limits.seconds:g} seconds")

    def _check_whole(self, size: int, declared: int) -> None:
        if 0 < declared != size:
            raise _RefusedError("the connection ended before the last byte")


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener without handlers of files, FTP and data, and without passwords and cookies."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the server sends nothing"
    if isinstance(error, HTTPError):
        return f"the server answers {error.code} {printable(error.reason, 100)}"
    if isinstance(error, HTTPException | ValueError):
        return f"the server answers what is no HTTP ({type(error).__name__})"
    return printable(getattr(error, "reason", None) or error, 200) or type(error).__name__
