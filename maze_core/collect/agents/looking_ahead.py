"""Looking ahead with a planner: what a run asks of another distribution, maze-planning, which does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.base.tree import Tree
    from maze_core.collect.agents.agent import Agent
    from maze_core.collect.agents.network import NetworkAgent
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import VectorEnv
    from maze_core.models.policy import Policy


class Planner(Protocol):
    """Chooses actions by looking ahead. Planners derive from `maze_planning.planner.Planner`, which says how."""

    def choose(self, decisions: Sequence[Any], proposed: Tree) -> Tree:
        """Return an action for each of K decisions; `proposed`: what the policy would do, leaves [K, …]."""


class Planning(Protocol):
    """Looks ahead in the environments of one builder, with one planner."""

    def agent(self, network: NetworkAgent, env: VectorEnv, seeds: EpisodeSeeds) -> Any:
        """Return an agent that looks ahead in these environments, whose episodes have these seeds. Close it after use.

        Raises:
            ConfigError: the environments cannot be copied.
        """


class PlanningBeside(Protocol):
    """Looks ahead in an environment that somebody else steps, outside of a run's own environments."""

    def begin(self) -> None:
        """Begin a new episode."""

    def choose(self, observation: Any, proposed: Tree, agent: str | None = None) -> Tree:
        """Return the action for the environment's current observation, leaves [1, …]; `agent`: whose it is.

        Raises:
            ConfigError: the environment does not stand where a copy can begin.
        """


class PlannerSource(Protocol):
    """Builds the planner of a run; it can be sent to another process."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the plugins that may have one."""

    def planning(self, policy: Policy, purpose: str, builder: EnvBuilder) -> Planning | None:
        """Return what looks ahead with a policy; None where the plugin does not for this purpose."""


class RunPlanning(Protocol):
    """Looks ahead in a run, in this process. `Run.planning` and `Run.planning_agent` say more of two of its methods."""

    @property
    def source(self) -> PlannerSource:
        """What builds the planner elsewhere."""

    def planning(self, purpose: str) -> Planning | None:
        """Return what looks ahead where the policy acts for a purpose; None: the policy acts alone."""

    def agent(self, network: NetworkAgent, env: VectorEnv, seeds: EpisodeSeeds) -> Agent | None:
        """Return an agent that looks ahead in the training environments; None: the policy acts alone."""

    def beside(self, env: Any, call: str) -> PlanningBeside | None:
        """Return what looks ahead in an environment that a caller steps; None: the policy acts alone.

        `call`: the method of the context that was called.

        Raises:
            ConfigError: `env` is None, cannot be copied, or is another one than the run's.
        """

    def watched(self, env: Any) -> Any:
        """Return an environment that remembers its episode, so that `beside` can copy it."""

    def close(self) -> None:
        """Release the agents and the environments that copies were made of; safe to call twice."""
