"""The record of a run that nobody trained."""

from __future__ import annotations

from typing import Any


def record_of(**facts: Any) -> dict[str, Any]:
    """Return what the `run.json` of every run has, with some values of the caller's."""
    return {
        "id": "0123456789abcdef",
        "started": "2026-01-01T00:00:00+00:00",
        "versions": {},
        "preset": None,
        "init_from": None,
        "parameters": {"policy": 3},
        "observers": {},
        "observation_space": "Box(-1.0, 1.0, (3,), float32)",
        "action_space": "Discrete(2)",
        "config_sha256": [],
        "summary": None,
        **facts,
    }
