"""Options that several commands share, and their paths in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLACES = {
    "env_source": "env.name",
    "wrappers": "wrappers",
    "model": "model.name",
    "runner": "runner.name",
    "learners": "learners",
    "seed": "seed",
    "steps": "steps",
    "epochs": "algorithm.n_epochs",
    "patience": "callbacks.early_stopping.patience",
}


def placed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the given options, by path."""
    return {_PLACES[key]: _value(key, given) for key, given in options.items() if given is not None}


def env_layer(source: str | None, env_id: str | None) -> dict[str, Any]:
    """Return the part `env` of a configuration: without an id for an env source that has none, or the id alone."""
    given = {"name": source, "id": env_id}
    return {key: value for key, value in given.items() if value is not None}


def _value(option: str, given: Any) -> Any:
    from maze_core.plugins.config.plain_yaml import given_value

    if option == "wrappers":
        return [{"name": each.strip()} for each in given.split(",") if each.strip()]
    if not isinstance(given, str) or _PLACES[option].endswith(".name"):
        return given
    return given_value(given, f"--{option}")
