"""What critics alone see of a whole environment of PettingZoo: its state, or the observations of all agents."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Space, spaces
from maze_actors import ActorSpaces
from maze_actors.agent_rows import waiting_observation

from maze_core import ConfigError
from maze_core.envs.masks import MASK
from maze_pettingzoo.observer import Observer

if TYPE_CHECKING:
    from maze_pettingzoo.source import CriticView

_WHERE = "env.critic"


class View(ABC):
    """What critics see."""

    space: Space[Any]

    @abstractmethod
    def seen(self, present: Callable[[], Mapping[str, Any]]) -> Any:
        """Return what critics see now, in `space`.

        Args:
            present: returns what each agent that is in the episode, or has just ended, observes in PettingZoo.
        """

    def of(self, env: Any) -> View:
        """Return the same view of a copy of the environment."""
        return self


class StateView(View):
    """The result of the environment's `state()`.

    Raises:
        ConfigError: the environment has none, or it is no array.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        try:
            first = np.asarray(env.state())  # the environment has been reset
        except (NotImplementedError, AttributeError, TypeError) as exc:
            # Environments that merely inherit PettingZoo's method raise any of these.
            raise ConfigError(f"{env} has no state", _WHERE, "Next: --set env.critic=all") from exc
        if first.dtype.kind not in "biuf":
            raise ConfigError(f"the state of {env} is no array of numbers", _WHERE, "Next: --set env.critic=all")
        declared = getattr(env, "state_space", None)
        self.space = declared if isinstance(declared, Space) else spaces.Box(-np.inf, np.inf, first.shape, np.float32)

    def seen(self, present: Callable[[], Mapping[str, Any]]) -> Any:
        """Return the state."""
        return self._env.state()

    def of(self, env: Any) -> View:
        """Return the same view of a copy of the environment."""
        twin = copy.copy(self)
        twin._env = env
        return twin


class AllView(View):
    """What all agents observe, without masks: a part for each; zeros for those not in the episode.

    Args:
        observations: the observation space of each agent in PettingZoo.
        actions: the action space of each agent.
        flatten_boards: as for `Observer`.
    """

    def __init__(
        self, observations: Mapping[str, Space[Any]], actions: Mapping[str, Space[Any]], *, flatten_boards: bool
    ) -> None:
        self._observers = {
            name: Observer(_without_mask(space), None, None, flatten_boards=flatten_boards)
            for name, space in observations.items()
        }
        self._absent = {
            name: waiting_observation(ActorSpaces(each.space, actions[name])) for name, each in self._observers.items()
        }
        self.space = spaces.Dict({name: each.space for name, each in self._observers.items()})

    def seen(self, present: Callable[[], Mapping[str, Any]]) -> Any:
        """Return what every agent observes."""
        observed = present()
        return {
            name: each.observed(_without_mask(observed[name]), {}) if name in observed else self._absent[name]
            for name, each in self._observers.items()
        }


def view_of(
    wanted: CriticView,
    env: Any,
    observations: Mapping[str, Space[Any]],
    actions: Mapping[str, Space[Any]],
    reset: Callable[[], object],
    *,
    flatten_boards: bool,
) -> View | None:
    """Return what critics see; None: nothing. `reset` resets the environment. Errors as for `StateView`."""
    if wanted == "none":
        return None
    if wanted == "all":
        return AllView(observations, actions, flatten_boards=flatten_boards)
    reset()
    return StateView(env)


def _without_mask(part: Any) -> Any:
    """Return an observation, or its space, without its mask."""
    if not isinstance(part, Mapping):  # a Dict space is one
        return part
    rest = {key: each for key, each in part.items() if key != MASK}
    return spaces.Dict(rest) if isinstance(part, Space) else rest
