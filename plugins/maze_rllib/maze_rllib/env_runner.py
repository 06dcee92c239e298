"""RLlib's environment runner with the run's environments; its errors reach the user."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gymnasium.wrappers.vector import DictInfoToList
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from maze_core import EnvBuilder, EpisodeSeeds, MazeError
from maze_core.envs.vector import Episode
from maze_rllib.callers import callers_without_sources
from maze_rllib.vector_env import TreeVectorEnv

PLAN = "plan"
"""The key of the plan in RLlib's `env_config`."""

RETURNS, LENGTHS = "maze_returns", "maze_lengths"
"""Names of the finished episodes' values in RLlib's results, one value per episode."""


@dataclass(frozen=True)
class EnvPlan:
    """What a runner needs to build its environments in any process."""

    builder: EnvBuilder
    num_envs: int
    seeds: EpisodeSeeds
    plain: bool
    """True to use the observations and actions of RLlib's own networks."""

    def build(self, runner: int) -> TreeVectorEnv:
        """Build the environments of the runner with that number."""
        return TreeVectorEnv(self.builder, self.num_envs, runner * self.num_envs, self.seeds, plain=self.plain)


class EnvRunner(SingleAgentEnvRunner):  # type: ignore[misc]
    """Steps the run's environments, reports every finished episode, and lets an environment's error end the run.

    RLlib's own reports means over windows, and wraps an error in one without a message.
    """

    def __init__(self, **kwargs: Any) -> None:
        with callers_without_sources():
            super().__init__(**kwargs)

    def make_env(self) -> None:
        """Build this runner's environments."""
        plan: EnvPlan = self.config.env_config[PLAN]
        self.env = DictInfoToList(plan.build(max(self.worker_index or 0, 1) - 1))
        self.num_envs = self.env.num_envs
        self._needs_initial_reset = True

    def get_metrics(self) -> Any:
        """Return RLlib's metrics, and the episodes finished since the last call."""
        env: Any = self.env
        finished: list[Episode] = env.unwrapped.finished
        for episode in finished:
            self.metrics.log_value(RETURNS, episode.episode_return, reduce="item_series")
            self.metrics.log_value(LENGTHS, episode.length, reduce="item_series")
        finished.clear()
        return super().get_metrics()

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function with this runner. RLlib's own method ends the process on an error, without a message."""
        return func(self, *args, **kwargs)

    def _try_env_step(self, actions: Any) -> Any:
        return self._noted(self.env.step, actions)

    def _try_env_reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self._noted(self.env.reset, seed=seed, options=options)

    def _noted(self, call: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        try:
            return call(*arguments, **keywords)
        except MazeError as error:
            if self.worker_index and error.__cause__ is not None:  # the cause is lost on the way to the driver
                text = "".join(traceback.format_exception(error.__cause__)).rstrip()
                error.add_note(f"In the worker process:\n{text}")
            raise
