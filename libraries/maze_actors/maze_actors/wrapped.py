"""Wrappers of environments with a single agent, applied to the part of each agent where several act."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from maze_actors.agents import LimitedAgents, MultiAgentEnv, Round, WrappedAgents, added, raw_of
from maze_core.base.errors import ConfigError, PluginError
from maze_core.envs.checks import check_info
from maze_core.envs.wrappers import LastingLayer, lasting_layers, layers
from maze_core.plugins.members import Member, placed

Env = gymnasium.Env[Any, Any]
Wrap = Callable[[Env], Env]


class AgentPart(gymnasium.Env[Any, Any]):
    """What one agent sees of an environment of several: it returns what it was given before."""

    def __init__(self, env: MultiAgentEnv, agent: str) -> None:
        self.observation_space, self.action_space = env.observation_spaces[agent], env.action_spaces[agent]
        self.metadata = {"render_modes": []}
        self.given: tuple[Any, float, bool, bool] = (None, 0.0, False, False)
        """Observation, reward and flags of the next call."""
        self.info: Mapping[str, Any] = {}
        """The info of the next call."""
        self.sent: Any = None
        """The action that the environment has got."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Return the agent's first observation."""
        super().reset(seed=seed)
        return self.given[0], dict(self.info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Return what followed from the action that was sent.

        Raises:
            ConfigError: a wrapper takes another one, or a second one.
        """
        if not _same(action, self.sent):
            raise ConfigError(
                "a wrapper changes actions or repeats them within its step, which does not go where several agents act",
                "wrappers",
                "Next: leave it out. Those of maze-wrappers for several agents: maze plugins list wrapper",
            )
        self.sent = None  # not a second time
        return (*self.given, dict(self.info))


class WrappedParts(WrappedAgents):
    """An environment of several agents, with a wrapper around the part of each of them.

    A wrapper sees the agent's own turns as an episode of its own. Actions pass through the `action` of action wrappers.

    Args:
        env: the environment.
        wrap: takes an agent's part, and returns it wrapped.
    """

    def __init__(self, env: MultiAgentEnv, wrap: Wrap) -> None:
        super().__init__(env)
        self._parts = {agent: AgentPart(env, agent) for agent in env.agents}
        self.wrapped = {agent: wrap(part) for agent, part in self._parts.items()}
        """The wrapped part of each agent."""
        self.observation_spaces = {agent: each.observation_space for agent, each in self.wrapped.items()}
        self.action_spaces = {agent: each.action_space for agent, each in self.wrapped.items()}

    def reset(self, seed: int) -> Round:
        """Begin an episode."""
        self._seed, self._begun = seed, set[str]()
        self._actions: dict[str, Any] = {}
        self._owed, self._raw_owed = dict[str, float](), dict[str, float]()
        return self._told(self.env.reset(seed))

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Step with the actions that the wrappers make of these."""
        sent = {agent: _inner(self.wrapped[agent], action) for agent, action in actions.items()}
        self._actions |= actions
        for agent, action in sent.items():
            self._parts[agent].sent = action
        return self._told(self.env.step(sent))

    def observed(self, agent: str, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what the agent observes here, as after a reset: the wrappers have no earlier observations."""
        part = self._parts[agent]
        part.given, part.info = (self.env.observed(agent, observation, info), 0.0, False, False), info
        return self.wrapped[agent].reset()[0]

    def rewards_owed(self) -> Round:
        """Return what agents wait for, each reward after its wrapper."""
        self._owe(self.env.rewards_owed())
        rewards = {agent: self._paid(agent, reward) for agent, reward in self._owed.items() if reward}
        return Round({}, rewards, raw=dict(self._raw_owed))

    def _paid(self, agent: str, reward: float) -> float:
        """Return what an agent that waits is paid after its wrapper, if its part is cut here."""
        part = self._parts[agent]
        part.given = (part.given[0], reward, False, True)
        return self._seen(agent)[1] if agent in self._actions else reward

    def _owe(self, outcome: Round) -> None:
        """Keep the rewards of a round until their agents see what follows."""
        self._owed = added(self._owed, outcome.rewards)
        self._raw_owed = added(self._raw_owed, raw_of(outcome))

    def _told(self, outcome: Round) -> Round:
        """Return a round as the agents see it: what an agent was paid while it waited comes with what it sees next."""
        self._owe(outcome)
        rewards, raw_rewards = dict[str, float](), dict[str, float]()
        seen: tuple[dict[str, Any], ...] = ({}, {}, {})
        infos = dict[str, Mapping[str, Any]]()
        for kind, part in enumerate((outcome.acting, outcome.terminated, outcome.truncated)):
            for agent, observation in part.items():
                raw_rewards[agent] = self._raw_owed.pop(agent, 0.0)
                rewards[agent] = self._owed.pop(agent, 0.0)
                self._parts[agent].given = (observation, rewards[agent], kind == 1, kind == 2)
                check_info(told := outcome.infos.get(agent, {}))
                self._parts[agent].info = told
                seen[kind][agent], rewards[agent], infos[agent] = self._seen(agent)
        acting, terminated, truncated = seen
        return replace(
            outcome,
            acting=acting,
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            raw=raw_rewards,
            infos=infos,
        )

    def _seen(self, agent: str) -> tuple[Any, float, Mapping[str, Any]]:
        """Return what an agent sees, is paid and is told after its wrapper."""
        wrapped, (_, reward, terminated, truncated) = self.wrapped[agent], self._parts[agent].given
        if agent not in self._begun:
            self._begun.add(agent)
            seed = np.random.SeedSequence([self._seed, list(self._parts).index(agent)]).generate_state(1)[0]
            seen, info = wrapped.reset(seed=int(seed))
            return seen, reward, info
        seen, paid, over, cut, info = wrapped.step(self._actions.pop(agent))
        if (over, cut) != (terminated, truncated):
            raise ConfigError(
                "a wrapper ends the part of an agent, which goes on in the environment",
                "wrappers",
                "Next: --wrappers time_limit, which ends the episode of all",
            )
        return seen, float(paid), info


def lasting_parts(env: MultiAgentEnv) -> list[LastingLayer]:
    """Return the wrappers around the parts of agents that keep a state across episodes, or may do so."""
    found: list[LastingLayer] = []
    while isinstance(env, WrappedAgents):
        parts = env.wrapped.values() if isinstance(env, WrappedParts) else ()
        found += [layer for part in parts for layer in lasting_layers(part)]
        env = env.env
    return found


def _inner(wrapped: Env, action: Any) -> Any:
    """Return the action that the environment gets: what the action wrappers make of the agent's."""
    for layer in layers(wrapped):
        if isinstance(layer, gymnasium.ActionWrapper):
            action = layer.action(action)
    return action


def _same(first: Any, second: Any) -> bool:
    if first is second:
        return True
    if isinstance(first, Mapping):
        return isinstance(second, Mapping) and all(_same(first[key], second.get(key)) for key in first)
    if isinstance(first, tuple | list):
        return isinstance(second, tuple | list) and all(map(_same, first, second))
    return bool(np.array_equal(first, second))


def wrapped_agents(env: Any, source: str, wrappers: Sequence[Member], index: int, limit: int | None) -> MultiAgentEnv:
    """Return environment `index` as a source made it, with its wrappers and its time limit.

    Raises:
        PluginError: it is no `MultiAgentEnv`.
        ConfigError: a wrapper does not fit the part of an agent.
    """
    if not isinstance(env, MultiAgentEnv):
        raise PluginError(f"make_agents_env of {source!r} returned {type(env).__name__}, no MultiAgentEnv")
    for each in wrappers:
        with placed(each):
            env = around_agents(env, each.plugin, index)
    return env if limit is None else LimitedAgents(env, limit)


def around_agents(env: MultiAgentEnv, wrapper: Any, index: int) -> MultiAgentEnv:
    """Return an environment as a plugin of the kind wrapper wraps it.

    A plugin that changes the whole environment has a method `wrap_agents(env)`; the hook `make_env` of any other one
    wraps the part of each agent. One without `make_env` changes the policy alone.
    """
    if hasattr(wrapper, "wrap_agents"):
        whole: MultiAgentEnv = wrapper.wrap_agents(env)
        return whole
    if not hasattr(wrapper, "make_env"):
        return env
    return WrappedParts(env, lambda part: _wrapped(wrapper, part, index))


def _wrapped(wrapper: Any, part: Env, index: int) -> Env:
    """Return an agent's part, as the hook `make_env` of a wrapper wraps it."""
    known = {"config": wrapper.config, "seed": index, "index": index, "purpose": "training"}
    taken = inspect.signature(wrapper.make_env).parameters
    hook = wrapper.make_env(**{name: value for name, value in known.items() if name in taken})
    next(hook)
    try:
        hook.send(part)
    except StopIteration as end:
        made: Env = end.value
        return made
    raise ConfigError(f"the hook make_env of {wrapper.config.name!r} yields twice", "wrappers")
