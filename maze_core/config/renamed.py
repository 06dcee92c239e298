"""Keys of the configuration that earlier versions named differently."""

from __future__ import annotations

from typing import Any

_ON_POLICY = ("ppo", "a2c")
_OFF_POLICY = ("sac", "sacfd")
NOW = {
    "runner.concurrency": "algorithm.num_envs, or evaluation.num_envs",
    "evaluation.concurrency": "evaluation.num_envs",
}
"""The present names of former keys, for messages."""


def updated(saved: dict[str, Any]) -> dict[str, Any]:
    """Return a run's saved configuration with the present names of its keys."""
    result = {key: dict(part) if isinstance(part, dict) else part for key, part in saved.items()}
    algorithm, runner, evaluation = (result.get(part) for part in ("algorithm", "runner", "evaluation"))
    if not (isinstance(algorithm, dict) and isinstance(runner, dict)):
        return result
    concurrency = runner.pop("concurrency", None)
    if algorithm.get("name") in _ON_POLICY and concurrency is not None:
        algorithm.setdefault("num_envs", concurrency)
    if algorithm.get("name") in _OFF_POLICY and "num_actors" in algorithm:
        algorithm["num_envs"] = algorithm.pop("num_actors")
    if isinstance(evaluation, dict) and "concurrency" in evaluation:
        wanted = evaluation.pop("concurrency") or concurrency
        if wanted is not None:
            evaluation["num_envs"] = wanted
    return result
