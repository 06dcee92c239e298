"""The requests that the server answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from maze_core import ConfigError
from maze_core.base.tolerant_output import to_stderr
from maze_core.plugins.discovery import describe
from maze_serve.bodies import parsed
from maze_serve.counters import Counters
from maze_serve.json_values import UnfitValueError
from maze_serve.refusals import RefusedRequestError
from maze_serve.wire import Answer

if TYPE_CHECKING:
    from maze_serve.policy import ServedPolicy
    from maze_serve.wire import Head

_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_METRICS_TYPE = "text/plain; version=0.0.4"


class App:
    """Answers requests with the actions of a policy.

    Args:
        policy: acts.
        facts: what `GET /` says of it.
    """

    def __init__(self, policy: ServedPolicy, facts: dict[str, Any]) -> None:
        self._policy, self._facts = policy, facts
        self._counters = Counters()
        self._routes: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], Answer]]] = {
            "/": (("GET", "HEAD"), lambda _: _json(self._facts)),
            "/health": (("GET", "HEAD"), lambda _: _json({"status": "ok"})),
            "/metrics": (("GET", "HEAD"), lambda _: Answer(200, self._counters.text().encode(), _METRICS_TYPE)),
            "/act": (("POST",), self._act),
            "/reset": (("POST",), self._reset),
        }

    def check(self, head: Head) -> None:
        """Refuse a request for which its head is enough, before its body is received.

        Raises:
            RefusedRequestError: there is no such request, or not from there.
        """
        if not _is_local(head.headers.get("host", "")):
            raise RefusedRequestError(403, "this server answers to 127.0.0.1 and localhost only")
        if head.path not in self._routes:
            raise RefusedRequestError(404, f"there is no {head.path:.80}; there are {', '.join(self._routes)}")
        methods = self._routes[head.path][0]
        if head.method not in methods:
            problem = f"{head.path} is asked with {methods[0]}, not {head.method}"
            raise RefusedRequestError(405, problem, {"Allow": ", ".join(methods)})
        if head.query is not None:
            raise RefusedRequestError(400, f"{head.path} takes nothing after a question mark")
        if methods == ("POST",):
            _check_type(head)
        elif head.length:
            raise RefusedRequestError(400, f"{head.method} {head.path} takes no body")

    def answer(self, head: Head, body: bytes) -> Answer:
        """Return the answer to a request that `check` lets through."""
        methods, answer = self._routes[head.path]
        try:
            return answer(parsed(head.path, body) if methods == ("POST",) else {})
        except RefusedRequestError as error:
            return self.refusal(error)
        except (ConfigError, UnfitValueError) as error:
            # Its advice is for programs in Python.
            return self.refusal(RefusedRequestError(422, str(error).splitlines()[0]))
        except RecursionError:
            return self.refusal(RefusedRequestError(422, "the request is nested too deeply"))
        except Exception as error:  # noqa: BLE001 — whatever it is, other clients are served on
            to_stderr(f"error: {head.method} {head.path}: {describe(error)}")
            return self.refusal(RefusedRequestError(500, "the server failed; it has printed why"))

    def refusal(self, error: RefusedRequestError) -> Answer:
        """Return the answer to a request that is refused, and count it."""
        self._counters.refused[error.status] += 1
        return _json({"error": str(error)}, error.status, error.headers)

    def _act(self, asked: dict[str, Any]) -> Answer:
        began = time.perf_counter()
        session, agent = asked.get("session"), asked.get("agent")
        if "observations" in asked:
            several = asked["observations"]
            answer, count = {"actions": self._policy.act_on_all(session, agent, several)}, len(several)
        else:
            one, info, reward = asked["observation"], asked.get("info"), asked.get("reward")
            answer, count = {"action": self._policy.act(session, agent, one, info, reward)}, 1
        told = _json(answer)
        self._counters.decided(count, time.perf_counter() - began)
        return told

    def _reset(self, asked: dict[str, Any]) -> Answer:
        self._policy.reset(asked.get("session"))
        return _json({})


def _is_local(host: str) -> bool:
    """Return True for a name of this machine: a page in a browser may lead one of its own to this address."""
    name, port = host, ""
    if not host.endswith("]"):
        name, _, port = host.partition(":") if "]" not in host else host.rpartition(":")
    return name.lower() in _LOCAL and (not port or port.isdigit())


def _check_type(head: Head) -> None:
    """Refuse what is not said to be JSON: a form that a page in a browser sends is not."""
    kind, *options = (part.strip().lower() for part in head.headers.get("content-type", "").split(";"))
    charsets = {each.partition("=")[2].strip('"') for each in options if each.startswith("charset=")}
    if kind != "application/json" or not charsets <= {"utf-8", "utf8"}:
        raise RefusedRequestError(415, "the request needs the header Content-Type: application/json")
    if head.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedRequestError(415, "the body must not be compressed")


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(content, allow_nan=False).encode(), headers=headers or {})
