"""PettingZoo's two interfaces, AEC and parallel, as environments with several agents of Maze."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium import Space
from maze_actors.agents import MultiAgentEnv, Round
from maze_environments.mask_spaces import mask_space
from maze_environments.pictures import pictures_per_second

from maze_core import ConfigError
from maze_core.envs.masks import MASK
from maze_pettingzoo.answers import agents_by_name, answer, by_name, check_gone, info_of, numbers, spaces_of, those_set
from maze_pettingzoo.copies import copied
from maze_pettingzoo.critics import view_of
from maze_pettingzoo.observer import Observer, has_mask

if TYPE_CHECKING:
    from pettingzoo import AECEnv, ParallelEnv

    from maze_pettingzoo.source import CriticView


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
        self._options: dict[str, Any] = {
            "agent_id": agent_id,
            "flatten_boards": flatten_boards,
            "score": score,
            "elapsed": elapsed,
            "critic": critic,
        }
        self.pictures_per_second = pictures_per_second(env, MultiAgentEnv.pictures_per_second)
        self._ids = agents_by_name(env)
        """PettingZoo's agents by name; they need not be texts."""
        self._names = {agent: name for name, agent in self._ids.items()}
        self.agents: Sequence[str] = list(self._ids)
        if score not in ("mean", "sum", *self.agents):
            known = ", ".join(self.agents)
            raise ConfigError(f"{score!r} is neither mean nor sum nor an agent", "env.score", f"Agents: {known}")
        own, actions = spaces_of(env, self._ids)
        self.action_spaces: Mapping[str, Space[Any]] = actions
        masks = self._masks_in_infos(own)
        codes = np.eye(len(own), dtype=np.int8)
        self._observers = {
            name: Observer(
                space,
                masks.get(name),
                codes[number] if agent_id else None,
                flatten_boards=flatten_boards,
            )
            for number, (name, space) in enumerate(own.items())
        }
        self.observation_spaces: Mapping[str, Space[Any]] = {n: each.space for n, each in self._observers.items()}
        self._view = view_of(critic, env, own, actions, lambda: env.reset(seed=0), flatten_boards=flatten_boards)
        self.critic_space = None if self._view is None else self._view.space

    def rewrapped(self, wrap: Callable[[Any], Any]) -> PettingZooEnv:
        """Return the same with PettingZoo's environment wrapped."""
        return type(self)(wrap(self.env), **self._options)

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

    def __deepcopy__(self, memo: dict[int, Any]) -> PettingZooEnv:
        """Return a copy of this moment of the episode, for planners; what stays the same in an episode is shared."""
        twin = copy.copy(self)
        twin.env = copied(self.env, memo)
        twin._view = None if self._view is None else self._view.of(twin.env)
        return twin

    def _seen_by_critics(self) -> Any:
        """Return what critics see now."""
        return None if self._view is None else self._view.seen(self._observed)

    @abstractmethod
    def _observed(self) -> Mapping[str, Any]:
        """Return what each agent that is in the episode, or has just ended, observes in PettingZoo."""

    def _masks_in_infos(self, own: Mapping[str, Space[Any]]) -> dict[str, Space[Any]]:
        """Return the spaces of the masks in the infos, where they hold some: only a reset shows it."""
        others = [name for name, space in own.items() if not has_mask(space)]
        infos = by_name("reset", "infos", self._first_infos(), self._names) if others else {}
        told = [name for name in others if MASK in info_of(infos, name)]
        if told:  # others may have a mask later on, unless their actions cannot have one
            told += [name for name in others if name not in told and _maskable(self.action_spaces[name])]
        return {name: mask_space(self.action_spaces[name]) for name in told}

    @abstractmethod
    def _first_infos(self) -> Any:
        """Reset the environment and return the infos."""


def _maskable(space: Space[Any]) -> bool:
    """Return True where an action can be masked, or a part of it."""
    try:
        mask_space(space)
    except ConfigError:
        return False
    return True


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

    def rewards_owed(self) -> Round:
        """Return the rewards that `last()` would report to the agents whose turn it is not."""
        env, names = self.env, self._names
        sums = getattr(env, "_cumulative_rewards", None)  # an environment with a `last` of its own may lack them
        if not isinstance(sums, Mapping):
            return Round({})
        waiting = {agent: sums[agent] for agent in env.agents if agent != env.agent_selection and agent in sums}
        return Round({}, numbers("step", by_name("step", "rewards", waiting, names)))

    def _next_turn(self) -> Round:
        """Return what happened until the next agent that can act, or until the end."""
        env, critic, names = self.env, self._seen_by_critics(), self._names
        acting: dict[str, Any] = {}
        rewards: dict[str, float] = {}
        ended: dict[str, Any] = {}
        cut: dict[str, Any] = {}
        infos: dict[str, Mapping[str, Any]] = {}
        while env.agents and not acting:
            (name,) = by_name("step", "agent_selection", {env.agent_selection: None}, names)
            observation, reward, terminated, truncated, info = answer("last", env.last())
            infos[name] = info_of({name: info}, name)
            observation = self._observers[name].observed(observation, infos[name])
            rewards[name] = rewards.get(name, 0.0) + numbers("last", {name: reward})[name]
            if not (terminated or truncated):
                acting[name] = observation
            else:
                (ended if terminated else cut)[name] = observation
                ending = env.agent_selection
                env.step(None)
                check_gone(ending, env.agents)
        return Round(acting, rewards, ended, cut, critic=critic, infos=infos)

    def _observed(self) -> Mapping[str, Any]:
        return {self._names[agent]: self.env.observe(agent) for agent in self.env.agents}

    def _first_infos(self) -> Any:
        self.env.reset(seed=0)
        return self.env.infos


class AgentsTogether(PettingZooEnv):
    """A parallel environment: all agents that are alive act at the same time."""

    env: ParallelEnv[Any, Any, Any]

    def reset(self, seed: int) -> Round:
        """Begin an episode."""
        observations, infos = answer("reset", self.env.reset(seed=seed))
        self._newest: dict[str, Any] = {}
        acting = self._read("reset", observations, infos)
        return Round(acting, critic=self._seen_by_critics(), infos=self._told)

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Execute the actions of all."""
        env, names = self.env, self._names
        result = env.step({self._ids[n]: a for n, a in actions.items()})
        observations, rewards, terminated, truncated, infos = answer("step", result)
        seen = self._read("step", observations, infos)
        ended, cut = (
            those_set("step", kind, by_name("step", kind, flags, names))
            for kind, flags in (("terminations", terminated), ("truncations", truncated))
        )
        cut -= ended
        alive = by_name("step", "agents", dict.fromkeys(env.agents), names).keys() - ended - cut
        return Round(
            {name: observation for name, observation in seen.items() if name in alive},
            numbers("step", by_name("step", "rewards", rewards, names)),
            {name: self._newest[name] for name in ended & self._newest.keys()},
            {name: self._newest[name] for name in cut & self._newest.keys()},
            critic=self._seen_by_critics(),
            infos=self._told,
        )

    def _read(self, method: str, observations: Any, infos: Any) -> dict[str, Any]:
        """Return the observations by name, and remember them: an agent may end without another one."""
        self._now = by_name(method, "observations", observations, self._names)
        told = by_name(method, "infos", infos, self._names)
        self._told = {name: info_of(told, name) for name in {*told, *self._now}}
        seen = {name: self._observers[name].observed(each, self._told[name]) for name, each in self._now.items()}
        self._newest |= seen
        return seen

    def _observed(self) -> Mapping[str, Any]:
        return self._now

    def _first_infos(self) -> Any:
        return answer("reset", self.env.reset(seed=0))[1]
