"""Environments of one agent as those of several: for algorithms that learn nowhere else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from maze_actors import ActorSpaces, Turn, TurnEnv
from maze_actors.agents import MultiAgentEnv, Round

from maze_core import Plugin, PluginConfig, hookimpl
from maze_core.envs.sources.factory import FactoryConfig
from maze_core.plugins.base import given

if TYPE_CHECKING:
    import gymnasium

Order = Literal["together", "in turns", "mixed"]
"""Who acts: all, one after the other, or all in every third round and one in the others."""


class Seats(MultiAgentEnv):
    """Two agents, each in an environment of its own that it alone acts in; the episode ends with the longer one.

    Args:
        make: builds the environment of an agent.
        order: who acts in which round.
    """

    agents = ("first", "second")

    def __init__(self, make: Callable[[], gymnasium.Env[Any, Any]], order: Order = "together") -> None:
        self._envs = {name: make() for name in self.agents}
        self._order = order
        self.observation_spaces = {name: env.observation_space for name, env in self._envs.items()}
        self.action_spaces = {name: env.action_space for name, env in self._envs.items()}

    def reset(self, seed: int) -> Round:
        """Begin an episode."""
        self._rounds = 0
        self._seen = {name: env.reset(seed=2 * seed + i)[0] for i, (name, env) in enumerate(self._envs.items())}
        self._infos: dict[str, Mapping[str, Any]] = {}
        """What each agent's last step has told."""
        return Round(self._acting())

    def step(self, actions: Mapping[str, Any]) -> Round:
        """Step the environments of those who act."""
        self._rounds += 1
        rewards: dict[str, float] = {}
        ended: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for name, action in actions.items():
            seen, reward, terminated, truncated, self._infos[name] = self._envs[name].step(action)
            self._seen[name], rewards[name] = seen, float(reward)
            if terminated or truncated:
                ended[0 if terminated else 1][name] = self._seen.pop(name)
        return Round(self._acting(), rewards, *ended, infos=self._infos)

    def close(self) -> None:
        """Close both environments."""
        for env in self._envs.values():
            env.close()

    def _acting(self) -> dict[str, Any]:
        """Return the observations of those who act next; of those who are left, if it is nobody's turn."""
        alone = {"together": 0, "in turns": 1 + self._rounds % 2, "mixed": self._rounds % 3}[self._order]
        chosen = self.agents if alone == 0 else self.agents[alone - 1 : alone]
        return {name: self._seen[name] for name in chosen if name in self._seen} or dict(self._seen)


class Shifts(TurnEnv):
    """Two actors who act in one environment, one after the other; each turn is a whole decision."""

    def __init__(self, make: Callable[[], gymnasium.Env[Any, Any]]) -> None:
        self._env = make()
        declared = ActorSpaces(self._env.observation_space, self._env.action_space)
        super().__init__({"early": declared, "late": declared})

    def first_turn(self) -> Turn:
        """Begin an episode."""
        return Turn("early", self._env.reset(seed=int(self.np_random.integers(2**31)))[0])

    def next_turn(self, actor: str, action: Any) -> Turn:
        """Step; then it is the turn of the other one."""
        seen, reward, terminated, truncated, info = self._env.step(action)
        other = "early" if actor == "late" else "late"
        return Turn(other, seen, float(reward), terminated=bool(terminated), truncated=bool(truncated), info=info)

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class AgentsSource(Plugin):
    """Builds environments of several agents with a function."""

    Config: ClassVar[type[PluginConfig]] = FactoryConfig

    def __init__(self, config: FactoryConfig, make: Callable[[], MultiAgentEnv]) -> None:
        super().__init__(config)
        self._make = make

    @staticmethod
    def of(make: Callable[[], MultiAgentEnv]) -> Any:
        """Return a stand-in for this class."""
        return given(AgentsSource, make)

    @hookimpl
    def make_agents_env(self, config: FactoryConfig, seed: int, index: int) -> MultiAgentEnv:
        """Call the function."""
        return self._make()


def kind_of(make: Callable[[], Any], look: bool = True) -> type[Any]:
    """Return the class of the environments that a class or function builds; of a function's, one is built and closed.

    Without `look` a function is taken to build environments of gymnasium.
    """
    function = make.func if isinstance(make, functools.partial) else make
    if isinstance(function, type):
        return function
    if not look:
        return object
    env = make()
    env.close()
    return type(env)
