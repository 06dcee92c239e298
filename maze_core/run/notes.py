"""Notes for the user before a run begins: what its environments, its size and its settings call for."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_core.envs.spaces import is_image, is_narrow
from maze_core.envs.time_limits import missing_time_limit
from maze_core.models.assembly import idle_model_settings
from maze_core.models.inputs import input_spaces
from maze_core.plugins.config.counting import idle_settings
from maze_core.plugins.config.preferences import preferences

if TYPE_CHECKING:
    from gymnasium import Space
    from torch import nn

    from maze_core.plugins.config.run import RunConfig
    from maze_core.run.run import Run

_PARAMETERS = 10_000_000
"""Networks below this size are no matter, whatever the pictures are."""
_PIXELS = 84 * 84 * 4
"""What the picture of a network is usually made to: four gray frames of Atari."""


def notes_of(run: Run) -> list[str]:
    """Return the notes about a run whose policy is built."""
    agents = len(run.environments.kind.agents)
    note = None if agents else missing_time_limit(run.config.env, lambda: run.env_builder("looking")(0))
    usual = preferences(type(run.algorithm))
    config = run.config
    samples = not (getattr(config.algorithm, "deterministic", False) and config.evaluation.deterministic)
    idle = idle_model_settings(config.model, run.policy, run.action_space, usual.get("model", {}), samples=samples)
    sizes = size_notes(run.config, run.policy, run.observation_space, run.action_space, agents)
    normalized = getattr(getattr(run.policy, "normalizer", None), "keys", ())
    narrow = narrow_notes(input_spaces(run.observation_space, run.action_space), normalized)
    found = (note, run.environments.forgotten(), *narrow, *sizes, *idle_settings(run.config, usual), *idle)
    return [each for each in found if each]


def narrow_notes(observed: Mapping[str, Space[Any]], normalized: Collection[str]) -> list[str]:
    """Return a note about each leaf whose bounds say that float32 loses its digits, unless a policy normalises it."""
    return [
        f"the observation {key!r} lies in {space}, whose values the float32 of networks cannot tell apart. Next: "
        + _way(space)
        for key, space in observed.items()
        if is_narrow(space) and key not in normalized
    ]


def _way(space: Any) -> str:
    if np.dtype(space.dtype).kind == "f":
        return "--set model.normalize_observations=true, or the wrapper rescale_observations"
    return "the wrapper shift_observations"


def size_notes(
    config: RunConfig, policy: nn.Module, observation_space: Space[Any], action_space: Space[Any], agents: int
) -> Iterator[str]:
    """Yield what is unusually large, with the wrappers or the setting that make it smaller."""
    parameters = sum(each.numel() for each in policy.parameters())
    if parameters > _PARAMETERS:
        for key, space in input_spaces(observation_space, action_space).items():
            if is_image(space) and math.prod(space.shape or ()) > _PIXELS:
                yield (
                    f"the network has {parameters:,} parameters, as observation {key!r} is of shape {space.shape}."
                    " Smaller: --wrappers gray,resize (84 by 84 pixels; wrappers.1.height and wrappers.1.width)"
                )
                break
    algorithm = config.algorithm
    rows, copies = (getattr(algorithm, name, None) for name in ("n_rollout_steps", "num_envs"))
    if config.steps and isinstance(rows, int) and isinstance(copies, int):
        taken = rows * copies * max(1, agents)
        if taken > 2 * config.steps:
            who = f" of {agents} agents" if agents > 1 else ""
            yield (
                f"one rollout takes {taken:,} steps{who}, more than all {config.steps:,} that are asked for."
                f" Smaller: --set algorithm.n_rollout_steps={max(1, rows * config.steps // taken)}"
            )
