"""Statistics of rewards, observations and actions in the metrics of the run."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_normalizers.running_moments import RunningMoments

from maze_core import Plugin, PluginConfig, flatten_space, hookimpl
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.wrappers import METRICS
from maze_wrappers.leaves import Env


class MonitorConfig(PluginConfig):
    """The parameters of `monitor`."""

    rewards: bool = True
    """Report rewards."""
    observations: bool = True
    """Report observation leaves that are not images."""
    actions: bool = True
    """Report actions."""

    def changes_nothing(self) -> bool:
        """Return True for a monitor that reports nothing."""
        return not (self.rewards or self.observations or self.actions)


class Monitor(Plugin):
    """Report mean, standard deviation, minimum and maximum of each episode's rewards, observations and actions.

    The metrics `train/monitor/…` and `eval/monitor/…` are means over episodes. The values are those at the wrapper's
    place among the others.
    """

    Config = MonitorConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return _Monitored((yield), self.config)


class _Monitored(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Env, config: MonitorConfig) -> None:
        super().__init__(env)
        self._config = config
        self._observations, self._actions = ObservationCodec(env.observation_space), ActionCodec(env.action_space)
        leaves = flatten_space(env.observation_space, "observation")
        self._shown = {key for key, space in leaves.items() if not _picture(space)} if config.observations else set()
        self._summaries: dict[str, _Summary] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._summaries = {}
        self._see(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._config.actions:
            for key, value in self._actions.tree(action).items():
                self._add(f"action/{key}", value)
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._config.rewards:
            self._add("reward", np.array([reward], np.float64))
        self._see(observation)
        if terminated or truncated:
            mine = {
                f"monitor/{name}_{kind}": value
                for name, summary in self._summaries.items()
                for kind, value in summary.numbers().items()
            }
            info = {**info, METRICS: {**info.get(METRICS, {}), **mine}}
        return observation, reward, terminated, truncated, info

    def _see(self, observation: Any) -> None:
        if self._shown:
            tree = self._observations.tree(observation)
            for key in self._shown:
                self._add(f"observation/{key}", tree[key])

    def _add(self, name: str, values: np.ndarray) -> None:
        self._summaries.setdefault(name, _Summary()).add(values)


class _Summary:
    """Running mean, standard deviation and range of numbers."""

    def __init__(self) -> None:
        self._moments = RunningMoments()
        self._low, self._high = np.inf, -np.inf

    def add(self, values: np.ndarray) -> None:
        """Add an array."""
        self._moments.add(values)
        self._low, self._high = min(self._low, float(values.min())), max(self._high, float(values.max()))

    def numbers(self) -> dict[str, float]:
        """Return mean, standard deviation, minimum and maximum."""
        std = float(np.sqrt(self._moments.variance))
        return {"mean": self._moments.mean, "std": std, "min": self._low, "max": self._high}


def _picture(space: Any) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) > 1
