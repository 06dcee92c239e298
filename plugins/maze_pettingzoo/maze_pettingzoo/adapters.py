"""PettingZoo's two interfaces, AEC and parallel, as environments with several agents of Maze."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import Space

from maze_core.envs.agents import MultiAgentEnv, Round
from maze_core.envs.masks import MASK, mask_space
from maze_core.errors import ConfigError
from maze_pettingzoo.critics import CriticView, view_of
from maze_pettingzoo.observer import Observer, has_mask

if TYPE_CHECKING:
    from pettingzoo import AECEnv, ParallelEnv


class PettingZooEnv(MultiAgentEnv):
    """What both interfaces share: names, spaces, observations and the score.

    Args:
        env: the environment of PettingZoo.
        agent_id: add the agent's number to its observation, one-hot encoded.
        flatten_boards: turn small arrays of three dimensions, such as a board, into vectors.
        score: `mean` or `sum` of the agents' returns, or the name of the agent whose return is the score.
        elapsed: what the discount counts, see `MultiAgentEnv.elapsed`.
        critic: what critics alone see of the whole environment.
    """

    def __init__(
        self,
        env: Any,
        *,
        agent_id: bool = False,
        flatten_boards: bool = True,
        score: str = "mean",
        elapsed: Literal["turn", "round"] = "turn",
        critic: CriticView = "none",
    ) -> None:
        self.env, self._score, self.elapsed = env, score, elapsed
        self.pictures_per_second = int(getattr(env, "metadata", {}).get("render_fps", 10))
        self._ids = {str(agent): agent for agent in _possible_agents(env)}
        """PettingZoo's agents by name; they need not be texts."""
        self._names = {agent: name for name, agent in self._ids.items()}
        self.agents: Sequence[str] = list(self._ids)
        if score not in ("mean", "sum", *self.agents):
            known = ", ".join(self.agents)
            raise ConfigError(f"{score!r} is neither mean nor sum nor an agent", "env.score", f"Agents: {known}")
        self.action_spaces: Mapping[str, Space[Any]] = {name: env.action_space(a) for name, a in self._ids.items()}
        own = {name: env.observation_space(agent) for name, agent in self._ids.items()}
        # Only a reset shows whether the masks are in the infos.
        in_info = not any(map(has_mask, own.values())) and any(MASK in info for info in self._first_infos().values())
        codes = np.eye(len(own), dtype=np.int8)
        self._observers = {
            name: Observer(
                space,
                mask_space(self.action_spaces[name]) if in_info else None,
                codes[number] if agent_id else None,
                flatten_boards=flatten_boards,
            )
            for number, (name, space) in enumerate(own.items())
        }
        self.observation_spaces: Mapping[str, Space[Any]] = {n: each.space for n, each in self._observers.items()}
        self._view = view_of(
            critic, env, own, self.action_spaces, lambda: env.reset(seed=0), flatten_boards=flatten_boards
        )
        self.critic_space = None if self._view is None else self._view.space

    def observed(self, agent: str, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what an agent observes in Maze, from its observation and info in PettingZoo."""
        return self._observers[agent].observed(observation, info)

    def score(self, returns: Mapping[str, float]) -> float:
        """Return the score of an episode from the agents' returns."""
        if self._score in ("mean", "sum"):
            return super().score(returns) if self._score == "mean" else sum(returns.values())
        return returns.get(self._score, 0.0)

    def render(self) -> Any:
        """Return PettingZoo's picture, where it was built with `render_mode: rgb_array`."""
        return self.env.render() if getattr(self.env, "render_mode", None) == "rgb_array" else None

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _seen_by_critics(self) -> Any:
        """Return what critics see now."""
        return None if self._view is None else self._view.seen(self._observed)

    @abstractmethod
    def _observed(self) -> Mapping[str, Any]:
        """Return what each agent that is in the episode, or has just ended, observes in PettingZoo."""

    @abstractmethod
    def _first_infos(self) -> Mapping[str, Any]:
        """Reset the environment and return the infos, which show whether they hold masks."""


class AgentsInTurn(PettingZooEnv):
    """An AEC environment: one agent acts at a time. Rewards are those that `last()` reports at an agent's turn.

    The turns of agents that have terminated or were truncated are taken here: their last reward counts.
    """

    env: AECEnv[Any, Any, Any]

    def reset(self, seed: int) -> Round:
        """Begin an episode."""
        self.env.reset(seed=seed)
        return self._next_turn()

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Execute the action of the one agent that acts."""
        (action,) = actions.values()
        self.env.step(action)
        return self._next_turn()

    def _next_turn(self) -> Round:
        """Return what happened until the next agent that can act, or until the end."""
        env, critic = self.env, self._seen_by_critics()
        acting: dict[str, Any] = {}
        rewards: dict[str, float] = {}
        ended: dict[str, Any] = {}
        cut: dict[str, Any] = {}
        while env.agents and not acting:
            name = self._names[env.agent_selection]
            observation, reward, terminated, truncated, info = env.last()
            observation = self._observers[name].observed(observation, info)
            rewards[name] = rewards.get(name, 0.0) + float(reward)
            if not (terminated or truncated):
                acting[name] = observation
            else:
                (ended if terminated else cut)[name] = observation
                env.step(None)
        return Round(acting, rewards, ended, cut, critic=critic)

    def _observed(self) -> Mapping[str, Any]:
        return {self._names[agent]: self.env.observe(agent) for agent in self.env.agents}

    def _first_infos(self) -> Mapping[str, Any]:
        self.env.reset(seed=0)
        infos: Mapping[str, Any] = self.env.infos
        return infos


class AgentsTogether(PettingZooEnv):
    """A parallel environment: all agents that are alive act at the same time."""

    env: ParallelEnv[Any, Any, Any]

    def reset(self, seed: int) -> Round:
        """Begin an episode."""
        observations, infos = self.env.reset(seed=seed)
        self._newest: dict[str, Any] = {}
        return Round(self._read(observations, infos), critic=self._seen_by_critics())

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Execute the actions of all."""
        env = self.env
        observations, rewards, terminated, truncated, infos = env.step({self._ids[n]: a for n, a in actions.items()})
        seen = self._read(observations, infos)
        ended, cut = (
            {self._names[agent] for agent, flag in flags.items() if flag} for flags in (terminated, truncated)
        )
        cut -= ended
        alive = {self._names[agent] for agent in env.agents} - ended - cut
        return Round(
            {name: observation for name, observation in seen.items() if name in alive},
            {self._names[agent]: float(reward) for agent, reward in rewards.items()},
            {name: self._newest[name] for name in ended & self._newest.keys()},
            {name: self._newest[name] for name in cut & self._newest.keys()},
            critic=self._seen_by_critics(),
        )

    def _read(self, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the observations by name, and remember them: an agent may end without another one."""
        seen = {
            self._names[agent]: self._observers[self._names[agent]].observed(observation, infos.get(agent, {}))
            for agent, observation in observations.items()
        }
        self._newest |= seen
        self._now = {self._names[agent]: observation for agent, observation in observations.items()}
        return seen

    def _observed(self) -> Mapping[str, Any]:
        return self._now

    def _first_infos(self) -> Mapping[str, Any]:
        infos: Mapping[str, Any] = self.env.reset(seed=0)[1]
        return infos


def _possible_agents(env: Any) -> list[Any]:
    agents = getattr(env, "possible_agents", None)
    if not agents:
        raise ConfigError(f"{env} does not name its `possible_agents`, so there is no row for each of them", "env.id")
    return list(agents)
