"""What the server asks: the policy of a run, one observation at a time, with a memory for each session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError
from maze_core.base.tolerant_output import to_stderr
from maze_core.collect.agents.single import compute_actions
from maze_core.models.memory import hears, remembers
from maze_serve.json_values import arrays_from_json, from_json, to_json

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.run.context import RunContext

MOST_SESSIONS = 10_000
"""Sessions that are remembered; beyond, the one that was used least recently is forgotten."""


@dataclass
class ServedPolicy:
    """Acts for a server.

    Args:
        context: of a saved run.
        deterministic: most likely actions instead of samples.
        look_ahead: False: the network of a run with a planner acts alone.

    Raises:
        ConfigError: the run acts with a planner, which needs the environment, and `look_ahead` is True.
    """

    context: RunContext
    deterministic: bool = True
    look_ahead: bool = True
    spaces: dict[str, tuple[Space[Any], Space[Any]]] = field(init=False)
    """Observation and action space of each agent, by name; the only one of a single agent is called ``""``."""

    def __post_init__(self) -> None:
        context = self.context
        if self.look_ahead and context.run.planning("acting") is not None:
            raise ConfigError(
                "this run acts with a planner, which needs copies of the environment that is played",
                hint="Next: maze serve RUN --no-look-ahead, where the network acts alone",
            )
        if (note := context.run.environments.left_behind()) is not None:
            to_stderr(f"note: {note}")
        several = context.run.env_builder("acting").several_agents
        self._build: Callable[..., Any] = context.agents if several else context.agent
        self._remembers = remembers(context.policy)
        self._sessions: OrderedDict[str, Any] = OrderedDict()
        policy = context.policy
        self.spaces = _spaces_of_agents(context) if several else {"": (policy.observation_space, policy.action_space)}

    @property
    def names(self) -> list[str]:
        """The names of the agents; empty where a single one acts."""
        return [name for name in self.spaces if name]

    def act(
        self, session: str, agent: str, observation: Any, info: Mapping[str, Any], reward: float | None = None
    ) -> Any:
        """Return the action for an observation, both as JSON values; `reward`: what the last action was paid.

        Raises:
            ConfigError: there is no such agent, or the policy was not trained for such an observation, or needs the
                reward.
            UnfitValueError: the observation has another structure, shape or kind of number.
        """
        if agent not in self.spaces:
            known = f"agents: {', '.join(self.names)}" if self.names else "a single agent acts here"
            raise ConfigError(f"there is no agent {agent!r:.80}; {known}")
        acting = self._agent(session)
        if not agent:
            return to_json(acting.act(from_json(observation, self.spaces[agent][0]), reward))
        told = {key: arrays_from_json(each, f"info.{key}") for key, each in info.items()}
        return to_json(acting.act(agent, arrays_from_json(observation), told))

    def act_on_all(self, session: str, agent: str, observations: list[Any], info: Mapping[str, Any]) -> list[Any]:
        """Return the actions for several observations: at once, unless a memory or several agents need them in order.

        Raises:
            ConfigError: as for `act`.
            UnfitValueError: likewise.
        """
        if hears(self.context.policy):
            raise ConfigError("this policy is told a reward after each step, so it takes one observation at a time")
        if agent or self._remembers or "" not in self.spaces:
            return [self.act(session, agent, each, info) for each in observations]
        seen = [from_json(each, self.spaces[""][0], f"observations.{i}") for i, each in enumerate(observations)]
        actions = compute_actions(self.context.policy, seen, deterministic=self.deterministic)
        return [to_json(each) for each in actions]

    def reset(self, session: str) -> None:
        """Begin a new episode in a session."""
        self._agent(session).reset()

    def _agent(self, session: str) -> Any:
        """Return what acts in a session. Without a memory all share one."""
        key = session if self._remembers else ""
        if key not in self._sessions:
            built = self._build(deterministic=self.deterministic, look_ahead=False)
            built.reset()
            self._sessions[key] = built
            if len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        return self._sessions[key]


def _spaces_of_agents(context: RunContext) -> dict[str, tuple[Space[Any], Space[Any]]]:
    env = context.make_env()
    try:
        return {name: (env.observation_spaces[name], env.action_spaces[name]) for name in env.agents}
    finally:
        env.close()
