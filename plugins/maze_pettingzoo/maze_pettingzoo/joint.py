"""Environments of gymnasium whose spaces hold one for each agent, as parallel environments of PettingZoo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from pettingzoo import ParallelEnv

from maze_core import ConfigError
from maze_core.base.terminal_text import shown
from maze_core.envs.interfaces import makes_environments
from maze_core.envs.masks import MASK
from maze_core.envs.sources.imports import import_module


class JointAgents(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """An environment whose action and observation spaces are Tuples, or Dicts, with a space for each agent.

    The agents of a Tuple are `agent_0`, `agent_1`, …; those of a Dict have the names of its keys. `step` returns a
    reward for each agent, or one that all receive; a flag for each, or one for all. An agent that ended before the
    others repeats its last action, which the environment asks for.

    Args:
        env: such an environment.

    Raises:
        ConfigError: its spaces are others.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.env = env
        self._seen, self._acted = _members(env.observation_space), _members(env.action_space)
        if self._seen is None or self._acted is None or self._seen.keys() != self._acted.keys():
            kinds = f"a {type(env.observation_space).__name__} and a {type(env.action_space).__name__}"
            raise ConfigError(
                f"the spaces of {type(env.unwrapped).__name__} are {kinds}: they do not hold one for each agent",
                "env.id",
                "Next: --env-source gymnasium, where one agent acts; or write a pettingzoo.ParallelEnv around it",
            )
        self.possible_agents = list(self._acted)
        self.metadata = dict(env.metadata or {})
        self.render_mode = env.render_mode
        self._by_key = isinstance(env.action_space, spaces.Dict)
        self._last: dict[str, Any] = {}

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the observation space of an agent."""
        return (self._seen or {})[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """Return the action space of an agent."""
        return (self._acted or {})[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        """Begin an episode."""
        self.agents, self._last = list(self.possible_agents), {}
        observations, info = self.env.reset(seed=seed, options=options)
        return self._each("reset", "observations", observations), self._infos(info)

    def step(self, actions: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """Execute the actions of all agents."""
        self._last |= actions
        joint = {agent: self._last[agent] for agent in self.possible_agents}
        result = self.env.step(joint if self._by_key else tuple(joint.values()))
        observations, rewards, terminated, truncated, info = result
        ended, cut = (
            self._each("step", kind, flags, shared=True)
            for kind, flags in (("terminated", terminated), ("truncated", truncated))
        )
        paid = self._each("step", "rewards", rewards, shared=True)
        seen = self._each("step", "observations", observations)
        there, told = self.agents, (seen, paid, ended, cut, self._infos(info))
        self.agents = [agent for agent in there if not (ended[agent] or cut[agent])]
        first, *rest = ({agent: values[agent] for agent in there} for values in told)
        return (first, *rest)  # type: ignore[return-value]

    def render(self) -> Any:
        """Return the environment's picture."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _each(self, method: str, kind: str, values: Any, shared: bool = False) -> dict[str, Any]:
        """Return a value for each agent; `shared`: a single one counts for all."""
        agents = self.possible_agents
        if isinstance(values, Mapping) and all(agent in values for agent in agents):
            return {agent: values[agent] for agent in agents}
        if isinstance(values, list | tuple) or (isinstance(values, np.ndarray) and values.ndim):
            if len(values) == len(agents):
                return dict(zip(agents, values, strict=True))
        elif shared and not isinstance(values, Mapping):
            return dict.fromkeys(agents, values)
        raise ConfigError(f"{method} returned {kind} that are not one for each of {agents}: {shown(values)}", "env")

    def _infos(self, info: Any) -> dict[str, Any]:
        """Return the info of each agent: its own part, or all of it with the agent's own mask."""
        agents = self.possible_agents
        if isinstance(info, Mapping) and not all(isinstance(info.get(agent), Mapping) for agent in agents):
            masks = self._each("info", MASK, info[MASK]) if MASK in info else {}
            return {agent: {**info, **({MASK: masks[agent]} if masks else {})} for agent in agents}
        return self._each("info", "parts", info)


def joint_maker(env_id: str) -> Callable[..., JointAgents] | None:
    """Return what makes an environment of gymnasium with spaces for each agent; None where the id is another one.

    Raises:
        ConfigError: the module before the colon cannot be imported.
    """
    module, _, name = env_id.rpartition(":")
    member: Any = vars(import_module(module, "env.id")).get(name) if module else None
    if name in gymnasium.registry:
        return lambda **kwargs: JointAgents(gymnasium.make(name, disable_env_checker=True, **kwargs))
    if makes_environments(member):
        return lambda **kwargs: JointAgents(member(**kwargs))
    return None


def _members(space: Any) -> dict[str, Space[Any]] | None:
    """Return the spaces of the agents by name; None where there are none."""
    if isinstance(space, spaces.Dict):
        return dict(space.spaces)
    if isinstance(space, spaces.Tuple | list | tuple):
        return {f"agent_{number}": each for number, each in enumerate(space)}
    return None
