"""Keys of the configuration that earlier versions named differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ON_POLICY = ("ppo", "a2c")
_OFF_POLICY = ("sac", "sacfd")
NOW = {
    "algorithm.patience": "callbacks.early_stopping.patience",
    "runner.concurrency": "algorithm.num_envs, or evaluation.num_envs",
    "evaluation.concurrency": "evaluation.num_envs",
}
"""The present names of former keys, for messages."""
_EARLIER: dict[str, dict[str, Any]] = {
    "a2c": {"normalize_rewards": False, "beta1": 0.9, "beta2": 0.999},
    "impala": {"normalize_rewards": False},
}
"""What algorithms did, before they had these parameters, that is not their default now."""


def moved(layer: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    """Return a layer of a configuration, of any file, with the keys that moved from one part to another.

    `tell` is called with a sentence for each of them.
    """
    algorithm, callbacks = layer.get("algorithm"), layer.get("callbacks") or {}
    if not (isinstance(algorithm, dict) and "patience" in algorithm and isinstance(callbacks, dict)):
        return layer
    tell(f"algorithm.patience is now {NOW['algorithm.patience']}")
    algorithm = dict(algorithm)
    patience, stopping = algorithm.pop("patience"), callbacks.get("early_stopping", {})
    if isinstance(stopping, dict):  # None: there is no early stopping
        callbacks = {**callbacks, "early_stopping": {"patience": patience, **stopping}}
    return {**layer, "algorithm": algorithm, "callbacks": callbacks}


def updated(saved: dict[str, Any], tell: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Return a run's saved configuration with the present names of its keys; `tell` as for `moved`."""
    saved = moved(saved, tell)
    result = {key: dict(part) if isinstance(part, dict) else part for key, part in saved.items()}
    algorithm, runner, evaluation = (result.get(part) for part in ("algorithm", "runner", "evaluation"))
    if not (isinstance(algorithm, dict) and isinstance(runner, dict)):
        return result
    concurrency = runner.pop("concurrency", None)
    if algorithm.get("name") in _ON_POLICY and concurrency is not None:
        algorithm.setdefault("num_envs", concurrency)
    if algorithm.get("name") in _OFF_POLICY and "num_actors" in algorithm:
        algorithm["num_envs"] = algorithm.pop("num_actors")
    for key, value in _EARLIER.get(algorithm.get("name", ""), {}).items():
        algorithm.setdefault(key, value)
    if isinstance(evaluation, dict) and "concurrency" in evaluation:
        wanted = evaluation.pop("concurrency") or concurrency
        if wanted is not None:
            evaluation["num_envs"] = wanted
    return result
