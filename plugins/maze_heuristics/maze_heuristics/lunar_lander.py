"""A controller for gymnasium's LunarLander, from its physics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from gymnasium import spaces
from pydantic import NonNegativeFloat, PositiveFloat

from maze_core import ActingPolicy, ConfigError, PluginConfig

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Tree

_UNITS = np.array([10.0, 20 / 3, 5.0, 7.5, 1.0, 2.5])
"""Units of the observation: m, m, m/s, m/s, rad, rad/s (half a screen of 20 m by 13.3 m; 50 frames per second)."""
_GRAVITY = 10.0


class LunarLanderConfig(PluginConfig):
    """The controller's gains."""

    position_gain: NonNegativeFloat = 0.8
    """Sideways acceleration per metre of horizontal distance from the pad, in 1/s²."""
    velocity_gain: NonNegativeFloat = 2.2
    """Sideways acceleration against drift, per m/s, in 1/s."""
    max_tilt: PositiveFloat = 0.5
    """Largest target tilt, in rad."""
    angle_gain: NonNegativeFloat = 10.0
    """Angular acceleration per rad of tilt error, in 1/s²."""
    spin_gain: NonNegativeFloat = 5.0
    """Angular acceleration against spin, per rad/s, in 1/s."""
    landing_speed: NonNegativeFloat = 1.0
    """Target speed of descent at the ground, in m/s."""
    descent_rate: NonNegativeFloat = 0.3
    """Additional speed of descent per metre of height, in 1/s."""
    approach_slope: NonNegativeFloat = 0.45
    """Minimum height per metre of horizontal distance from the pad."""
    lift_gain: NonNegativeFloat = 0.7
    """Upward acceleration per m/s above the target speed of descent, in 1/s."""
    contact_gain: NonNegativeFloat = 3.0
    """The same gain once a leg touches the ground, where the target speed is 0."""


class LunarLanderHeuristics(ActingPolicy):
    """Land gymnasium's LunarLander, discrete or continuous, by two proportional-derivative controllers.

    The main engine pushes along the lander's axis, so a tilt t accelerates sideways by about g tan t. The position
    controller requests a tilt that pushes towards the pad and against the drift; the side engines turn to that tilt;
    the main engine brakes the fall to a speed that grows with the height above a cone around the pad. Where only one
    engine may fire, the larger request wins.
    """

    Config: ClassVar[type[PluginConfig]] = LunarLanderConfig
    config: LunarLanderConfig

    def setup(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        """Accept the discrete and the continuous form of the environment; refuse other spaces."""
        discrete = isinstance(action_space, spaces.Discrete) and action_space.n == 4
        continuous = isinstance(action_space, spaces.Box) and action_space.shape == (2,)
        seen = isinstance(observation_space, spaces.Box) and observation_space.shape == (8,)
        if not seen or not (discrete or continuous):
            raise ConfigError(
                f"lunar_lander_heuristics does not support observations {observation_space} with actions "
                f"{action_space}",
                "env",
                "It supports LunarLander-v3 and LunarLanderContinuous-v3.",
            )
        self._discrete = discrete

    def act(self, obs: Tree, rngs: Sequence[np.random.Generator]) -> Tree:
        """Return one engine for each row, or the throttles of both."""
        turn, lift = self._wanted(obs["observation"])
        if not self._discrete:
            # The main engine fires above 0, from half its power on; a side engine beyond 0.5 either way.
            return {"action": np.clip(np.stack([lift - 1, -turn / 2], 1), -1, 1).astype(np.float32)}
        action = np.where(turn > 1, 1, np.where(turn < -1, 3, 0))
        return {"action": np.where((lift > 1) & (lift > np.abs(turn)), 2, action)}

    def _wanted(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the requested turning (counter-clockwise) and lift, each [N]; below 1 no engine fires."""
        gains = self.config
        x, y, drift, climb, angle, spin = (observation[:, :6] * _UNITS).T
        sideways = gains.position_gain * x + gains.velocity_gain * drift
        tilt = np.clip(sideways / _GRAVITY, -gains.max_tilt, gains.max_tilt)
        turn = gains.angle_gain * (tilt - angle) - gains.spin_gain * spin
        height = np.maximum(y - gains.approach_slope * np.abs(x), 0)
        fall = gains.landing_speed + gains.descent_rate * height
        touching = observation[:, 6:].any(axis=1)
        lift = np.where(touching, -gains.contact_gain * climb, gains.lift_gain * (-fall - climb))
        return np.where(touching, 0, turn), lift
