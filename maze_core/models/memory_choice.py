"""Which memory a model has: the name of an installed plugin, or a mapping with its name and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, JsonValue

from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.validation import named_part
from maze_core.plugins.direct_calls import named

if TYPE_CHECKING:
    from maze_core.models.memory import Memory

NONE = "none"
"""The choice of no memory."""
MEMORY_SETTINGS = ("size", "layers", "window")
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
    values = named_part("memory", given, _WHERE, {})[1].model_dump(mode="json")
    own = {key: value for key, value in values.items() if key not in MEMORY_SETTINGS or key in given}
    return str(own["name"]) if len(own) == 1 else own


MemoryChoice = Annotated[str | dict[str, JsonValue], AfterValidator(_complete), Outside.NOTHING]
"""The type of `model.memory`: the name of a memory plugin, or a mapping with its settings, whose own marks count."""


def build_memory(choice: str | dict[str, JsonValue], in_features: int, shared: Mapping[str, int]) -> Memory | None:
    """Return the memory of a configuration for features of a width; None where there is none.

    Args:
        choice: of the type `MemoryChoice`.
        in_features: the width.
        shared: the model's values of the settings `MEMORY_SETTINGS`; those in `choice` go first.
    """
    if choice == NONE:
        return None
    from maze_core.models.memory_check import check_memory

    plugin, config = named_part("memory", {"name": choice} if isinstance(choice, str) else choice, _WHERE, shared)
    with named("memory", config.name, " cannot be built"):
        memory: Memory = plugin(in_features, config)
    with named("memory", config.name):
        check_memory(memory, config.name, in_features)
    return memory
