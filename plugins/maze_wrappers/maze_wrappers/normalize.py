"""Observation normalisation, with statistics in the policy, so that they are saved with it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from gymnasium import Space
from pydantic import Field, JsonValue

from maze_core import ConfigError, Plugin, hookimpl
from maze_core.plugins.config.external_fields import Outside
from maze_wrappers.leaves import LeafConfig, choose

if TYPE_CHECKING:
    from torch import nn


class NormalizeObservationsConfig(LeafConfig):
    """The parameters of `normalize_observations`."""

    strategy: Literal["mean_std", "range"] = "mean_std"
    """`mean_std` scales to mean 0 and standard deviation 1; `range` maps the observed range to [-1, 1]."""
    estimate_steps: Annotated[int, Field(ge=0, le=10_000_000)] = 10_000
    """Steps before training that estimate the statistics; 0: no estimation."""
    policy: Annotated[str | dict[str, JsonValue], Outside.PLUGIN] = "random"
    """Policy plugin that takes these steps: its name, or its name and parameters."""
    running: bool = False
    """Keep updating the statistics during training; false: they stay fixed."""
    clip: float = Field(default=10.0, gt=0)
    """Largest absolute value after scaling; larger ones are clipped."""


class NormalizeObservations(Plugin):
    """Normalise observation leaves of floats, by statistics estimated before training or running during it.

    The policy normalises the observations after all wrappers, whatever this one's place among them. The statistics
    are saved with its parameters, frozen in evaluation, and part of every exported or reloaded policy.
    """

    Config = NormalizeObservationsConfig

    def __init__(self, config: NormalizeObservationsConfig) -> None:
        super().__init__(config)
        if not config.running and not config.estimate_steps:
            raise ConfigError("must be above 0 unless `running` is true", "estimate_steps")

    @hookimpl(wrapper=True)
    def build_policy(
        self, observation_space: Space[Any], action_space: Space[Any], config: Any
    ) -> Generator[None, nn.Module, nn.Module]:
        """Give the policy a normaliser; it replaces that of `model.normalize_observations`."""
        from maze_normalizers.normalizer import Estimation, ObservationNormalizer, is_float

        from maze_core import Policy
        from maze_core.envs.spaces import is_image
        from maze_core.models.inputs import input_spaces

        policy = yield
        if not isinstance(policy, Policy):
            raise ConfigError(
                f"the model's policy ({type(policy).__name__}) has no observation normaliser that Maze knows",
                hint="Use a model whose policy is a maze_core.models.policy.Policy, or normalise in the model.",
            )
        mine = self.config
        # Statistics belong to positions, and choices that are described have none.
        choices = {its.leaf for its in policy.described.values()}
        leaves = {k: space for k, space in input_spaces(observation_space, action_space).items() if k not in choices}

        def problem(space: Space[Any]) -> str | None:
            if not is_float(space):
                return "is not a Box of floats"
            return "is an image" if is_image(space) else None

        keys = tuple(choose(leaves, mine, problem))
        policy.normalizer = ObservationNormalizer(
            leaves,
            mine.strategy,
            keys,
            clip=mine.clip,
            running=mine.running,
            estimation=Estimation(mine.estimate_steps, mine.policy),
        )
        return policy
