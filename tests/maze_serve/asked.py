"""Asks the server's application without a network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from maze_serve.app import App
from maze_serve.policy import ServedPolicy
from maze_serve.refusals import RefusedRequestError
from maze_serve.wire import Head


@dataclass
class Answer:
    """What the application answers."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def app_of(context: Any, facts: Any = None) -> App:
    """The application that serves a run."""
    return App(ServedPolicy(context), facts or {})


def ask(app: App, path: str, content: Any = None, method: str | None = None, **headers: str) -> Answer:
    """GET a path, or POST `content` to it: bytes, or a value that is sent as JSON."""
    body = content if isinstance(content, bytes) or content is None else json.dumps(content).encode()
    path, mark, query = path.partition("?")
    sent = {"host": "localhost", "content-type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    how = method or ("GET" if body is None else "POST")
    head = Head(how, path, query if mark else None, sent, length=len(body or b""))
    try:
        app.check(head)
    except RefusedRequestError as error:
        answer = app.refusal(error)
    else:
        answer = app.answer(head, body or b"")
    return Answer(answer.status, answer.body)
