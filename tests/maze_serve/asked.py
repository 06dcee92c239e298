"""Asks an ASGI application without a network."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Answer:
    """What the application sent."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(app: Any, path: str, content: Any = None, **headers: str) -> Answer:
    """GET a path, or POST `content` to it: bytes, or a value that is sent as JSON."""
    body = content if isinstance(content, bytes) or content is None else json.dumps(content).encode()
    sent = {"host": "localhost", "content_type": "application/json", **headers}
    scope = {
        "type": "http",
        "method": "GET" if body is None else "POST",
        "path": path,
        "query_string": b"",
        "headers": [(key.replace("_", "-").encode(), value.encode()) for key, value in sent.items()],
    }
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body or b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    asyncio.run(app(scope, receive, send))
    return Answer(messages[0]["status"], b"".join(each.get("body", b"") for each in messages[1:]))
