"""Other action spaces: rescaled, discrete, or in parts."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any, Literal

import numpy as np
from gymnasium import Space, spaces
from gymnasium.wrappers import DiscretizeAction, RescaleAction, TransformAction
from pydantic import Field, NonNegativeInt

from maze_core import ConfigError, Plugin, PluginConfig, flatten_space, hookimpl
from maze_core.envs.masks import mask_leaves
from maze_wrappers.leaves import Env, LeafConfig, Part, act, rebuilt
from maze_wrappers.observations import not_bounded, not_to_scale

_MOST_CHOICES = 10_000


class RescaleActionsConfig(LeafConfig):
    """The parameters of `rescale_actions`."""

    low: float = -1.0
    """Lower bound that the policy sees."""
    high: float = 1.0
    """Upper bound that the policy sees."""


class RescaleActions(Plugin):
    """Let bounded Box actions be chosen in [low, high] (gymnasium's RescaleAction)."""

    Config = RescaleActionsConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        low, high = self.config.low, self.config.high
        if not low < high:
            raise ConfigError(f"must be above low ({low:g}), got {high:g}", "high")
        problem = partial(not_to_scale, low, high)
        return act((yield), self.config, problem, lambda leaf: RescaleAction(leaf, np.float32(low), np.float32(high)))


class DiscretizeActionsConfig(LeafConfig):
    """The parameters of `discretize_actions`."""

    bins: int = Field(default=5, ge=2, le=10_000)
    """Choices per dimension."""
    space: Literal["multi_discrete", "discrete"] = "multi_discrete"
    """`multi_discrete`: one choice per dimension; `discrete`: a single choice among all combinations."""


class DiscretizeActions(Plugin):
    """Let bounded Box actions be chosen from a grid (gymnasium's DiscretizeAction)."""

    Config = DiscretizeActionsConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        bins, many = self.config.bins, self.config.space == "multi_discrete"
        return act((yield), self.config, self._problem, lambda leaf: DiscretizeAction(leaf, bins, multidiscrete=many))

    def _problem(self, space: Space[Any]) -> str | None:
        choices = self.config.bins ** int(np.prod(space.shape or ()))
        if self.config.space == "discrete" and choices > _MOST_CHOICES:
            return f"would have {choices:,} choices: set space to multi_discrete"
        return not_bounded(space)


class SplitActionsConfig(PluginConfig):
    """The parameters of `split_actions`."""

    key: str = "action"
    """The action leaf to split."""
    parts: dict[str, tuple[NonNegativeInt, ...]] = Field(default_factory=dict)
    """Dimensions of each part by its name; none: one part per dimension, named `0`, `1`, …"""


class SplitActions(Plugin):
    """Split a Box or MultiDiscrete action into a Dict of parts, each with a distribution of its own."""

    Config = SplitActionsConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        env = yield
        key, leaves = self.config.key, flatten_space(env.action_space, "action")
        if key not in leaves:
            raise ConfigError(f"there is no leaf {key!r}", "key", f"The leaves are {', '.join(leaves)}.")
        if masks := mask_leaves(env.observation_space, env.action_space).get(key):
            raise ConfigError(f"{key!r} is masked by {masks[0]!r}, and a masked action cannot be split", "key")
        whole = rebuilt(env.action_space, {key: self._part(leaves[key])}, "action")
        return TransformAction(env, whole.function, whole.space)

    def _part(self, space: Space[Any]) -> Part:
        if not isinstance(space, spaces.Box | spaces.MultiDiscrete) or len(space.shape) != 1:
            raise ConfigError(f"{self.config.key!r} ({space}) is not a Box or MultiDiscrete with one dimension", "key")
        count = space.shape[0]
        parts = self.config.parts or {str(i): (i,) for i in range(count)}
        given = sorted(i for part in parts.values() for i in part)
        if given != list(range(count)):
            raise ConfigError(f"must name each of the dimensions 0 to {count - 1} once, got {given}", "parts")
        rows = {name: list(part) for name, part in parts.items()}
        dtype = np.dtype(space.dtype)

        def joined(value: Any) -> np.ndarray:
            action = np.zeros(count, dtype)
            for name, places in rows.items():
                action[places] = value[name]
            return action

        return Part(spaces.Dict({name: _selected(space, places) for name, places in rows.items()}), joined)


def _selected(space: Any, places: list[int]) -> Space[Any]:
    if isinstance(space, spaces.Box):
        return spaces.Box(space.low[places], space.high[places], dtype=np.dtype(space.dtype).type)
    if len(places) == 1:
        return spaces.Discrete(int(space.nvec[places[0]]), start=int(space.start[places[0]]))
    return spaces.MultiDiscrete(space.nvec[places], start=space.start[places])
