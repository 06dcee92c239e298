"""Looks ahead in a run, with the planner of its own plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maze_actors.agents import MultiAgentEnv

from maze_core import ConfigError
from maze_core.plugins.closing import release
from maze_planning.planner_source import PlannerSource
from maze_planning.planning import Planning, PlanningAgent, PlanningBeside
from maze_planning.watched import WatchedAgents, WatchedEnv

if TYPE_CHECKING:
    from maze_core import EpisodeSeeds, NetworkAgent, Run, VectorEnv
    from maze_core.collect.agents import looking_ahead


def of_run(run: Run) -> looking_ahead.RunPlanning:
    """Return what looks ahead in a run, which has a plugin with the hook `build_planner`."""
    return RunPlanning(run)


class RunPlanning:
    """Looks ahead in a run, in this process.

    Args:
        run: has a plugin with the hook `build_planner`.
    """

    def __init__(self, run: Run) -> None:
        self._run, self.source = run, PlannerSource.of(run.hooks)
        self._plannings: dict[str, Planning | None] = {}
        self._agents: list[PlanningAgent | PlanningBeside] = []

    def planning(self, purpose: str) -> Planning | None:
        """Return what looks ahead for a purpose; None: the policy acts alone."""
        run = self._run
        if purpose not in self._plannings:
            planner: Any = run.hooks.build_planner(run.policy, purpose)
            builder = run.env_builder(purpose)
            self._plannings[purpose] = None if planner is None else Planning(planner, builder)
        return self._plannings[purpose]

    def agent(self, network: NetworkAgent, env: VectorEnv, seeds: EpisodeSeeds) -> PlanningAgent | None:
        """Return an agent that looks ahead in the training environments, and closes with the run.

        Raises:
            ConfigError: the environments cannot be copied.
        """
        planning = self.planning("training")
        if planning is None:
            return None
        agent = planning.agent(network, env, seeds, learns=True)
        self._agents.append(agent)
        return agent

    def beside(self, env: Any, call: str) -> PlanningBeside | None:
        """Return what looks ahead in an environment that a caller steps, and closes with the run.

        Raises:
            ConfigError: `env` is None, cannot be copied, or is another one than the run's.
        """
        planning = self.planning("acting")
        if planning is None:
            return None
        if env is None:
            raise ConfigError(
                "this run acts with a planner, which looks ahead in copies of the environment that is played",
                "env",
                f"Next: env = context.make_env(), {call} = context.{call}(env=env); "
                f"or context.{call}(look_ahead=False), where the network acts alone.",
            )
        beside = PlanningBeside(planning, self._run.seed, env)
        self._agents.append(beside)
        return beside

    def watched(self, env: Any) -> WatchedEnv | WatchedAgents:
        """Return an environment that remembers its episode, so that `beside` can copy it."""
        return WatchedAgents(env) if isinstance(env, MultiAgentEnv) else WatchedEnv(env)

    def close(self) -> None:
        """Close the environments that copies were made of; safe to call twice."""
        release(*self._agents)
