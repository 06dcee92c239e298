"""Which memory a model has: the name of an installed plugin, or a mapping with its name and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import torch
from pydantic import AfterValidator, JsonValue

from maze_core.base.errors import PluginError
from maze_core.plugins import discovery
from maze_core.plugins.config.external_fields import Outside
from maze_core.plugins.config.named_part import named_part

if TYPE_CHECKING:
    from maze_core.base.tree import TensorTree
    from maze_core.models.memory import Memory

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
    values = named_part("memory", given, _WHERE, {})[1].model_dump(mode="json")
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
    plugin, config = named_part("memory", {"name": choice} if isinstance(choice, str) else choice, _WHERE, shared)
    memory: Memory = plugin(in_features, config)
    _check(memory, config.name, in_features)
    return memory


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
