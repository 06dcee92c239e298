"""The requests that the server answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from maze_core.base.errors import ConfigError
from maze_serve.counters import Counters
from maze_serve.json_values import UnfitValueError

if TYPE_CHECKING:
    from starlette.requests import Request

    from maze_serve.policy import ServedPolicy

MOST_BYTES = 64_000_000
"""Largest body of a request."""
MOST_OBSERVATIONS = 10_000
"""Most observations of a request."""
_LOCAL = {"127.0.0.1", "localhost", "[::1]", "testserver"}


class RefusedRequestError(Exception):
    """A request cannot be answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def build_app(policy: ServedPolicy, facts: dict[str, Any]) -> Starlette:
    """Return the server's application.

    Args:
        policy: acts.
        facts: what `GET /` says of it.
    """
    counters = Counters()

    async def act(request: Request) -> Response:
        began = time.perf_counter()
        body = await _body(request)
        answer, count = _decided(policy, body)
        counters.decided(count, time.perf_counter() - began)
        return _json(answer)

    async def reset(request: Request) -> Response:
        body = await _body(request)
        policy.reset(_text(body, "session"))
        return _json({})

    async def health(request: Request) -> Response:
        return _json({"status": "ok"})

    async def describe(request: Request) -> Response:
        return _json(facts)

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(counters.text(), media_type="text/plain; version=0.0.4")

    def guarded(answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
        async def guard(request: Request) -> Response:
            try:
                _check_host(request)
                found: Response = await answer(request)
            except RefusedRequestError as error:
                counters.refused[error.status] += 1
                return _json({"error": str(error)}, error.status)
            except (ConfigError, UnfitValueError) as error:
                counters.refused[422] += 1
                return _json({"error": str(error).splitlines()[0]}, 422)  # its advice is for programs in Python
            return found

        return guard

    return Starlette(
        routes=[
            Route("/", guarded(describe)),
            Route("/health", guarded(health)),
            Route("/metrics", guarded(metrics)),
            Route("/act", guarded(act), methods=["POST"]),
            Route("/reset", guarded(reset), methods=["POST"]),
        ]
    )


def _decided(policy: ServedPolicy, body: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the answer to a request to act, and how many decisions it has."""
    session, agent, info = _text(body, "session"), _text(body, "agent"), body.get("info") or {}
    if not isinstance(info, dict):
        raise RefusedRequestError(400, "'info' must be an object")
    if "observations" not in body:
        if "observation" not in body:
            raise RefusedRequestError(400, "the request has neither 'observation' nor 'observations'")
        return {"action": policy.act(session, agent, body["observation"], info, _reward(body))}, 1
    several = body["observations"]
    if not isinstance(several, list) or len(several) > MOST_OBSERVATIONS:
        raise RefusedRequestError(400, f"'observations' must be a list of at most {MOST_OBSERVATIONS:,}")
    return {"actions": policy.act_on_all(session, agent, several, info)}, len(several)


def _check_host(request: Request) -> None:
    """Refuse a name of another machine: a page in a browser may lead it to this address."""
    host = request.headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name not in _LOCAL:
        raise RefusedRequestError(403, "this server answers to 127.0.0.1 and localhost only")


async def _body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RefusedRequestError(415, "the request needs the header Content-Type: application/json")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise RefusedRequestError(413, f"the request is larger than {MOST_BYTES:,} bytes")
        parts.append(part)
    try:
        body = json.loads(b"".join(parts), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise RefusedRequestError(400, f"the request is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise RefusedRequestError(400, "the request must be a JSON object")
    return body


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _reward(body: dict[str, Any]) -> float | None:
    found = body.get("reward")
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise RefusedRequestError(400, "'reward' must be a number")
    return found


def _text(body: dict[str, Any], name: str) -> str:
    found = body.get(name, "")
    if not isinstance(found, str) or len(found) > 200:
        raise RefusedRequestError(400, f"{name!r} must be a text of at most 200 characters")
    return found


def _json(content: Any, status: int = 200) -> Response:
    return Response(json.dumps(content).encode(), status, media_type="application/json")
