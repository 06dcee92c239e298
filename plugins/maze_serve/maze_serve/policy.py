"""What the server asks: the policy of a run, one observation at a time, with a memory for each session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maze_core import ConfigError, remembers
from maze_core.base.tolerant_output import to_stderr
from maze_core.collect.agents.single import compute_actions
from maze_core.models.memory import hears
from maze_serve.json_values import ReadKeys, UnfitValueError, arrays_from_json, from_json, to_json
from maze_serve.refusals import RefusedRequestError
from maze_serve.sessions import Sessions

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import RunContext


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
        self._remembers, self._hears = remembers(context.policy), hears(context.policy)
        self._sessions = Sessions()
        policy = context.policy
        self.spaces = _spaces_of_agents(context) if several else {"": (policy.observation_space, policy.action_space)}

    @property
    def names(self) -> list[str]:
        """The names of the agents; empty where a single one acts."""
        return [name for name in self.spaces if name]

    @property
    def needs(self) -> list[str]:
        """The keys that a request to act must have besides its observation."""
        known = {"session": self._remembers, "agent": bool(self.names), "reward": self._hears}
        return [name for name, needed in known.items() if needed]

    def act(
        self,
        session: str | None,
        agent: str | None,
        observation: Any,
        info: Mapping[str, Any] | None = None,
        reward: float | None = None,
    ) -> Any:
        """Return the action for an observation, both as JSON values.

        Args:
            session: whose memory decides; None: no one's.
            agent: whose observation it is; None: that of the only agent.
            observation: what is seen.
            info: what an environment of several agents says besides, such as a mask.
            reward: what the last action was paid.

        Raises:
            RefusedRequestError: something is missing, or would have no effect.
            ConfigError: there is no such agent, or the policy was not trained for such an observation, or needs the
                reward. Nothing of a refused observation is remembered.
            UnfitValueError: the observation has another structure, shape or kind of number.
        """
        self._check(session, agent)
        if info is not None and agent is None:
            raise RefusedRequestError(400, "one agent acts here: what it sees is in its observation, not in 'info'")
        if reward is not None and not self._hears:
            raise RefusedRequestError(400, "this policy does not act by rewards, so 'reward' would have no effect")
        with self._acting(session) as acting:
            return self._action(acting, agent, observation, info or {}, reward)

    def act_on_all(self, session: str | None, agent: str | None, observations: list[Any]) -> list[Any]:
        """Return the actions for several observations: at once, unless a memory or several agents need them in order.

        Raises:
            RefusedRequestError: as for `act`.
            ConfigError: likewise; if one observation is refused, nothing is remembered of any.
            UnfitValueError: likewise.
        """
        self._check(session, agent)
        if self._hears:
            raise ConfigError("this policy is told a reward after each step, so it takes one observation at a time")
        if agent is None and not self._remembers:
            seen = [from_json(each, self.spaces[""][0], f"observations.{i}") for i, each in enumerate(observations)]
            actions = compute_actions(self.context.policy, seen, deterministic=self.deterministic)
            return [to_json(each) for each in actions]
        with self._acting(session) as acting:
            return [self._numbered(acting, agent, each, i) for i, each in enumerate(observations)]

    def reset(self, session: str | None) -> None:
        """Begin a new episode in a session.

        Raises:
            RefusedRequestError: the policy remembers, and no session is named.
        """
        self._check_session(session)
        self._sessions.begin(self._key(session))
        with self._acting(session) as acting:
            acting.reset()

    def _check(self, session: str | None, agent: str | None) -> None:
        self._check_session(session)
        if agent is None and self.names:
            names = ", ".join(self.names)
            raise RefusedRequestError(400, f"several agents act here; 'agent' says whose observation it is: {names}")
        if agent is not None and agent not in self.names:
            known = f"agents: {', '.join(self.names)}" if self.names else "a single agent acts here"
            raise ConfigError(f"there is no agent {agent!r:.80}; {known}")

    def _check_session(self, session: str | None) -> None:
        if self._remembers and session is None:
            raise RefusedRequestError(
                400,
                "this policy remembers what it has seen: 'session' says in which episode, with a name of your choice; "
                "POST /reset with the same name begins one",
            )

    def _key(self, session: str | None) -> str:
        """Return the name of a memory. Without one all share what acts."""
        return session or "" if self._remembers else ""

    @contextmanager
    def _acting(self, session: str | None) -> Iterator[Any]:
        """Return what acts in a session; if the block raises, the session is as before."""
        key = self._key(session)
        acting = self._sessions.get(key)
        if acting is None:
            acting = self._build(deterministic=self.deterministic, look_ahead=False)
            acting.reset()
        with acting.all_or_nothing():
            yield acting
        self._sessions.keep(key, acting)

    def _action(
        self, acting: Any, agent: str | None, observation: Any, info: Mapping[str, Any], reward: float | None
    ) -> Any:
        if agent is None:
            return to_json(acting.act(from_json(observation, self.spaces[""][0]), reward))
        told = ReadKeys({key: arrays_from_json(each, f"info.{key}") for key, each in info.items()})
        action = acting.act(agent, arrays_from_json(observation), told)
        if told.unread:
            raise RefusedRequestError(400, f"info.{min(told.unread):.80} has no effect here; leave it out")
        return to_json(action)

    def _numbered(self, acting: Any, agent: str | None, observation: Any, number: int) -> Any:
        """Return the action for one of several observations, whose number an error says."""
        try:
            return self._action(acting, agent, observation, {}, None)
        except (ConfigError, UnfitValueError) as error:
            first = str(error).partition("\n")[0]
            raise ConfigError(f"observations.{number}: {first}; nothing of the batch is remembered") from None


def _spaces_of_agents(context: RunContext) -> dict[str, tuple[Space[Any], Space[Any]]]:
    env = context.make_env()
    try:
        return {name: (env.observation_spaces[name], env.action_spaces[name]) for name in env.agents}
    finally:
        env.close()
