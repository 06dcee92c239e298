"""The parameters of RLlib's own networks, `algorithm.model_config`: which there are, and which change a network."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError

from maze_core import ConfigError
from maze_core.base.errors import combined
from maze_core.plugins.config.explain import nearest

_WHERE = "algorithm.model_config"
_OF_THE_LEARNER = ("log_std_clip_param", "max_seq_len")
"""Keys that change no network, but what is made of its output or how it learns."""
_SEED = 1


def check_known(values: Mapping[str, Any]) -> None:
    """Check the parameters of RLlib's default network. Raises ConfigError for unknown ones and for wrong values."""
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    known = [field.name for field in dataclasses.fields(DefaultModelConfig)]
    kinds = get_type_hints(DefaultModelConfig)
    errors: list[ConfigError] = []
    for name, value in values.items():
        where = f"{_WHERE}.{name}"
        if name not in known:
            errors.append(ConfigError(f"unknown key; {nearest(name, known)}", where))
            continue
        try:
            TypeAdapter(kinds[name]).validate_python(value)
        except ValidationError as error:
            words = dict.fromkeys(problem["msg"].removeprefix("Input should be ") for problem in error.errors())
            errors.append(ConfigError(f"must be {' or '.join(list(words)[:3])}, got {value!r:.80}", where))
    if errors:
        raise combined(errors)


def check_has_effect(values: Mapping[str, Any], built: Callable[[Mapping[str, Any]], Any]) -> None:
    """Refuse keys without which the same network would be built for the run's spaces.

    `built` returns the network with some values. Raises ConfigError.
    """
    whole = _described(built, values)
    errors = [
        ConfigError("does not change the network for this environment", f"{_WHERE}.{name}", "Next: leave it out")
        for name, value in values.items()
        if name not in _OF_THE_LEARNER and value != _default(name)
        if _same(whole, _described(built, {key: each for key, each in values.items() if key != name}))
    ]
    if "max_seq_len" in values and not values.get("use_lstm"):
        hint = "Next: --set algorithm.model_config.use_lstm=true; or leave it out"
        errors.append(ConfigError("has no effect on a network without memory", f"{_WHERE}.max_seq_len", hint))
    if errors:
        raise combined(errors)


def _default(name: str) -> Any:
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    return getattr(DefaultModelConfig(), name)


def _described(built: Callable[[Mapping[str, Any]], Any], values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the layers of a network as text, and its parameters."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_SEED)
        module = built(values)
    return str(module), module.state_dict()


def _same(one: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]) -> bool:
    (layers, leaves), (their_layers, theirs) = one, other
    if layers != their_layers or leaves.keys() != theirs.keys():
        return False
    return all(torch.equal(leaf, theirs[name]) for name, leaf in leaves.items())
