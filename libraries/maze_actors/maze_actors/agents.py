"""Environments in which several agents act: the class that users write, and its time limit."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gymnasium import Space


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a reset or a step: who acts next, and what happened to everybody."""

    acting: Mapping[str, Any]
    """The observation of each agent that acts next; all others wait. Empty: the episode is over."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Rewards since the previous result, also of agents that wait; those not named received 0."""
    terminated: Mapping[str, Any] = field(default_factory=dict)
    """The last observation of each agent whose part in the episode has ended."""
    truncated: Mapping[str, Any] = field(default_factory=dict)
    """The last observation of each agent whose part was cut by a time limit."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """At the end of an episode: numbers by name, reported as means over episodes."""
    raw: Mapping[str, float] | None = None
    """The rewards before wrappers, which are counted as returns; None: the rewards themselves."""
    critic: Any = None
    """What critics alone see of the whole environment now, in its `critic_space`."""
    infos: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each agent is told beside its observation, for wrappers and for algorithms that learn from numbers
    (`Algorithm.info_columns`); those not named are told nothing."""


class MultiAgentEnv(ABC):
    """An environment of several agents, each with its own stream of observations, actions and rewards.

    Agents may act in turns or at the same time, join late and leave early. An agent is in the episode from its first
    observation until `terminated` or `truncated` names it. When nobody acts next, every agent must have ended.
    """

    agents: Sequence[str]
    """The names of all agents that can take part, in a fixed order."""
    observation_spaces: Mapping[str, Space[Any]]
    action_spaces: Mapping[str, Space[Any]]
    critic_space: Space[Any] | None = None
    """The space of what the critics of all agents see and no policy does, such as the state of the whole environment;
    None: nothing."""
    pictures_per_second: int = 10
    """Speed of films of `render`."""
    elapsed: Literal["turn", "round"] = "turn"
    """What the discount counts between two actions of an agent: `turn`: one turn; `round`: the rounds of the
    environment, each of which is one `step`."""

    @abstractmethod
    def reset(self, seed: int) -> Round:
        """Begin an episode, which depends on the seed and the actions only."""

    @abstractmethod
    def step(self, actions: Mapping[str, Any]) -> Round:
        """Execute the actions of those that act: one action for each key of the last result's `acting`."""

    def observed(self, agent: str, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what an agent observes here, from an observation that was made elsewhere: usually the same.

        An adapter of other environments converts theirs, so that a trained policy can act in them. `info` may be empty.
        """
        return observation

    def rewards_owed(self) -> Round:
        """Return the rewards that agents wait for: paid since the last result of `step`, or before, and in none so far.

        A time limit adds them to the episode that it cuts, at most once in an episode. An environment that reports a
        reward when its agent acts again has some. What is read of the result is `rewards` and `raw`.
        """
        return Round({})

    def score(self, returns: Mapping[str, float]) -> float:
        """Return the return of an episode from those of the agents that took part: their mean.

        In a cooperative game it is the team's return. In a zero-sum game it is 0, and the returns of the agents tell
        who wins.
        """
        return sum(returns.values()) / max(1, len(returns))

    def render(self) -> Any:
        """Return a picture of the moment, [height, width, colours]; None: there is none."""
        return None

    def close(self) -> None:  # noqa: B027 — most environments hold nothing
        """Release the environment; safe to call twice."""


class WrappedAgents(MultiAgentEnv):
    """Passes every call on to another environment; for subclasses that change some of them."""

    def __init__(self, env: MultiAgentEnv) -> None:
        self.env = env
        self.agents, self.elapsed = env.agents, env.elapsed
        self.observation_spaces, self.action_spaces = env.observation_spaces, env.action_spaces
        self.critic_space, self.pictures_per_second = env.critic_space, env.pictures_per_second

    def reset(self, seed: int) -> Round:
        """Begin an episode."""
        return self.env.reset(seed)

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Step."""
        return self.env.step(actions)

    def observed(self, agent: str, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the environment's observation."""
        return self.env.observed(agent, observation, info)

    def rewards_owed(self) -> Round:
        """Return what the environment owes."""
        return self.env.rewards_owed()

    def score(self, returns: Mapping[str, float]) -> float:
        """Return the environment's score."""
        return self.env.score(returns)

    def render(self) -> Any:
        """Return the environment's picture."""
        return self.env.render()

    def close(self) -> None:
        """Release the environment."""
        self.env.close()


class LimitedAgents(WrappedAgents):
    """Truncates the episode of all agents after a number of steps."""

    def __init__(self, env: MultiAgentEnv, steps: int) -> None:
        super().__init__(env)
        self._limit = steps
        self._present: dict[str, Any] = {}
        """The newest observation of each agent that is in the episode."""
        self._taken = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> LimitedAgents:
        """Return a copy of this moment of the episode, for planners; spaces are shared."""
        twin = copy.copy(self)
        twin.env = copy.deepcopy(self.env, memo)
        return twin

    @property
    def rewrapped(self) -> Callable[[Callable[[Any], Any]], LimitedAgents]:
        """What wraps the environment of another package that lies below. Raises AttributeError where there is none."""
        inner: Callable[[Callable[[Any], Any]], MultiAgentEnv] = getattr(self.env, "rewrapped")  # noqa: B009
        return lambda wrap: LimitedAgents(inner(wrap), self._limit)

    def reset(self, seed: int) -> Round:
        """Begin an episode."""
        self._taken, self._present = 0, {}
        return self._seen(super().reset(seed))

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Step; the last step truncates the part of every agent that has not ended, and pays what it waits for."""
        outcome = self._seen(super().step(actions))
        self._taken += 1
        if self._taken < self._limit or not outcome.acting:
            return outcome
        owed = self.env.rewards_owed()
        return replace(
            outcome,
            acting={},
            rewards=added(outcome.rewards, owed.rewards),
            truncated={**outcome.truncated, **self._present},
            raw=None if outcome.raw is owed.raw is None else added(raw_of(outcome), raw_of(owed)),
        )

    def _seen(self, outcome: Round) -> Round:
        ended = {**outcome.terminated, **outcome.truncated}
        self._present = {name: obs for name, obs in self._present.items() if name not in ended} | dict(outcome.acting)
        return outcome


def added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """Return the sums of the agents' rewards."""
    return {**first, **{agent: first.get(agent, 0.0) + reward for agent, reward in second.items()}}


def raw_of(outcome: Round) -> Mapping[str, float]:
    """Return the rewards before wrappers."""
    return outcome.rewards if outcome.raw is None else outcome.raw
