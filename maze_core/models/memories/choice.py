"""Which memory a model has: the name of an installed plugin, or a mapping with its name and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import AfterValidator, JsonValue, ValidationError

from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins import discovery
from maze_core.plugins.config.explain import combined, explain
from maze_core.plugins.config.external_fields import Outside

if TYPE_CHECKING:
    from maze_core.base.tree import TensorTree
    from maze_core.models.memory import Memory
    from maze_core.plugins.config.base import PluginConfig

NONE = "none"
"""The choice of no memory."""
SHARED = ("size", "layers", "window")
"""Settings that a model has for whichever memory: `memory_size` and so on."""
_WHERE = "model.memory"


def _complete(choice: str | dict[str, JsonValue]) -> str | dict[str, JsonValue]:
    """Return a choice with all settings that are the memory's own; one without any is its name.

    Raises:
        ConfigError: there is no such memory, or a setting is wrong.
    """
    if choice in (NONE, {"name": NONE}):
        return NONE
    given = {"name": choice} if isinstance(choice, str) else choice
    values = _loaded(given)[1].model_dump(mode="json")
    own = {key: value for key, value in values.items() if key not in SHARED or key in given}
    return str(own["name"]) if len(own) == 1 else own


MemoryChoice = Annotated[str | dict[str, JsonValue], AfterValidator(_complete), Outside.NOTHING]
"""The type of `model.memory`: the name of a memory plugin, or a mapping with its settings, whose own marks count."""


def build_memory(choice: str | dict[str, JsonValue], in_features: int, shared: Mapping[str, int]) -> Memory | None:
    """Return the memory of a configuration for features of a width; None where there is none.

    Args:
        choice: of the type `MemoryChoice`.
        in_features: the width.
        shared: the model's values of the settings `SHARED`; those in `choice` go first.
    """
    if choice == NONE:
        return None
    plugin, config = _loaded({"name": choice} if isinstance(choice, str) else choice, shared)
    memory: Memory = plugin(in_features, config)
    _check(memory, config.name, in_features)
    return memory


def _loaded(given: dict[str, Any], shared: Mapping[str, int] | None = None) -> tuple[type[Any], PluginConfig]:
    """Return a memory's class and settings."""
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError("must be the name of an installed memory", f"{_WHERE}.name")
    try:
        plugin = discovery.load("memory", name)
    except ConfigError as error:
        raise ConfigError(error.message, _WHERE, error.hint) from error
    model: type[PluginConfig] = plugin.Config
    values = {key: value for key, value in (shared or {}).items() if key in model.model_fields} | given
    try:
        return plugin, model.model_validate(values)
    except ValidationError as error:
        raise combined(explain(error, model, _WHERE, values)) from error


def _check(memory: Memory, name: str, in_features: int) -> None:
    """Raise PluginError unless two rows of zeros give what a memory promises, so that a mistake shows at the start."""
    title = f"memory plugin {name!r} of {discovery.origin('memory', name)}"
    width = getattr(memory, "out_features", None)
    if not isinstance(width, int) or width < 1:
        raise PluginError(f"{title}: it has no `out_features`, the width of the features that it returns")
    device = next((parameter.device for parameter in memory.parameters()), torch.device("cpu"))
    state = memory.initial_state(2)
    with torch.no_grad():
        features, after = memory.step(torch.zeros(2, in_features, device=device), state)
    if tuple(features.shape) != (2, width):
        raise PluginError(f"{title}: `step` returned features {tuple(features.shape)} for two rows, not {(2, width)}")
    if (found := _kinds(after)) != (wanted := _kinds(state)) or any(leaf.shape[:1] != (2,) for leaf in state.values()):
        raise PluginError(f"{title}: for two rows the initial state is {wanted}, and that after a step {found}")


def _kinds(state: TensorTree) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    return {key: (tuple(leaf.shape), leaf.dtype) for key, leaf in state.items()}
