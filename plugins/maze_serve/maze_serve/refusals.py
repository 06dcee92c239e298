"""Requests that are not answered, each with a status of HTTP and a sentence."""

from __future__ import annotations

from collections.abc import Mapping


class RefusedRequestError(Exception):
    """A request cannot be answered.

    Args:
        status: the status of HTTP.
        message: one sentence for whoever wrote the client.
        headers: what the answer says besides.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
