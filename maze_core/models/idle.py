"""Settings of a model that do nothing, since no distribution and no memory of the policy has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from maze_core.models.assembly import ModelConfig
from maze_core.models.distributions.chosen import SHARED as OF_DISTRIBUTIONS
from maze_core.models.distributions.chosen import shared_settings
from maze_core.models.memory_choice import NONE
from maze_core.models.memory_choice import SHARED as OF_MEMORIES
from maze_core.plugins import discovery
from maze_core.plugins.config.counting import is_set

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gymnasium import Space
    from torch import nn

    from maze_core.plugins.config.base import PluginConfig

_OF_SAMPLES = ("temperature", "log_std_init")
"""Settings of distributions on which the most likely action does not depend."""


def idle_model_settings(
    config: PluginConfig, policy: nn.Module, action_space: Space[Any], usual: Mapping[str, Any], *, samples: bool
) -> Iterator[str]:
    """Yield a sentence for each setting of a bundled model that is not the default and does nothing.

    Args:
        config: the model's.
        policy: that was built from it.
        action_space: the environment's.
        usual: the algorithm's defaults for the model, by field.
        samples: False: the run takes most likely actions only.
    """
    if not isinstance(config, ModelConfig):
        return
    # Algorithms that learn values put them in the place of distributions.
    has_heads = any(getattr(module, "action_heads", ()) for module in policy.modules())
    used = shared_settings(config, action_space) if has_heads else set()
    for name in OF_DISTRIBUTIONS:
        if name not in used and is_set(config, name, usual):
            yield f"model.{name} has no effect: no distribution of these actions has it"
        elif name in _OF_SAMPLES and not samples and is_set(config, name, usual):
            yield f"model.{name} has no effect: the run takes the most likely actions (algorithm.deterministic)"
    if config.memory == NONE:
        return
    memory = config.memory if isinstance(config.memory, str) else str(config.memory["name"])
    known = discovery.load("memory", memory).Config.model_fields
    for setting in OF_MEMORIES:
        if setting not in known and is_set(config, f"memory_{setting}", usual):
            yield f"model.memory_{setting} has no effect: {memory} has no setting {setting!r}"
