"""The JSON of requests: which keys there are, and what goes together."""

from __future__ import annotations

import json
from typing import Any

from maze_core.plugins.config.explain import nearest
from maze_serve.refusals import RefusedRequestError

MOST_OBSERVATIONS = 10_000
"""Most observations of a request."""
_LONGEST = 200
"""Characters of a session's or an agent's name."""
KEYS = {
    "/act": ("observation", "observations", "session", "agent", "info", "reward"),
    "/reset": ("session",),
}
"""The keys of each request."""


def parsed(path: str, body: bytes) -> dict[str, Any]:
    """Return the JSON object of a request; its keys are those of the path, and values other than observations fit.

    Raises:
        RefusedRequestError: it is none.
    """
    try:
        found = json.loads(body.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise RefusedRequestError(400, f"the request is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise RefusedRequestError(400, "the request must be a JSON object")
    for name in found:
        if name not in KEYS[path]:
            raise RefusedRequestError(400, f"there is no key {name!r:.80} in {path}; {nearest(name, KEYS[path])}")
    _check(found)
    if path == "/act":
        _check_together(found)
    return found


def _check(found: dict[str, Any]) -> None:
    """Refuse values of the wrong kind."""
    for name in ("session", "agent"):
        if name in found and not (isinstance(found[name], str) and 0 < len(found[name]) <= _LONGEST):
            raise RefusedRequestError(400, f"{name!r} must be a text of 1 to {_LONGEST} characters")
    if not isinstance(found.get("info", {}), dict):
        raise RefusedRequestError(400, "'info' must be an object")
    reward = found.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float | None):
        raise RefusedRequestError(400, "'reward' must be a number")
    several = found.get("observations", [])
    if not isinstance(several, list) or len(several) > MOST_OBSERVATIONS:
        raise RefusedRequestError(400, f"'observations' must be a list of at most {MOST_OBSERVATIONS:,}")


def _check_together(found: dict[str, Any]) -> None:
    """Refuse keys of which one would have no effect."""
    if "observations" not in found:
        if "observation" not in found:
            raise RefusedRequestError(400, "the request has neither 'observation' nor 'observations'")
        return
    if "observation" in found:
        raise RefusedRequestError(400, "the request has both 'observation' and 'observations'")
    for name in ("reward", "info"):
        if name in found:
            raise RefusedRequestError(400, f"{name!r} goes with one 'observation', not with 'observations'")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of two equal keys one would be dropped."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RefusedRequestError(400, f"the key {twice!r:.80} occurs twice in an object")
    return found
