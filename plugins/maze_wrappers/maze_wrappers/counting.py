"""Events made from what is there already: choices, masks, numbers in `info`."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping
from typing import Annotated, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_events import Event, Events
from pydantic import Field

from maze_core import ConfigError, Plugin, PluginConfig, flatten_space, hookimpl
from maze_core.base.tree import copy_tree
from maze_core.envs.actors import ACTOR, actors_of
from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.masks import mask_leaves
from maze_wrappers.leaves import Env


class CountChoicesConfig(PluginConfig):
    """The parameters of `count_choices`."""

    most: int = Field(default=32, ge=1, le=400)
    """An action leaf with more choices in all is not counted choice by choice; it has a histogram."""


class CountChoices(Plugin):
    """Report which choices were made and which the masks allowed, of each actor where several act.

    Events of an action leaf KEY: `choice/KEY/C` counts choice C (`choice/KEY/M/C` that of member M, in which a bit
    has the choices 0 and 1), `allowed/KEY` is the number of choices that the mask allowed at a step, `allowed/KEY/C`
    counts the steps at which it allowed C. Numbers of an epoch are sums over its episodes. Box leaves are left out.
    """

    Config = CountChoicesConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return _Counted((yield), self.config.most)


class _Leaf:
    """What is counted of an action leaf."""

    def __init__(self, key: str, space: Any, mask: tuple[str, ...] | None, most: int) -> None:
        self.key, self.mask = key, mask
        bits = isinstance(space, spaces.MultiBinary)
        sizes = [2] * int(np.prod(space.n)) if bits else np.reshape(getattr(space, "nvec", getattr(space, "n", 0)), -1)
        self._sizes = [int(size) for size in sizes]
        self._single = isinstance(space, spaces.Discrete)
        self._each = sum(self._sizes) <= most
        self._masked = range(len(self._sizes)) if bits else self._names()

    def declared(self) -> dict[str, Event]:
        """Return its events."""
        counted, drawn = Event(["count"], ["sum"]), Event(["histogram"])
        found = {f"choice/{self.key}/{name}": counted for name in self._names()} if self._each else {}
        found |= {} if self._each else {f"choice/{self.key}": drawn}
        if self.mask is not None:
            found[f"allowed/{self.key}"] = Event(["mean", "min", "max"])
            found |= {f"allowed/{self.key}/{name}": counted for name in self._masked} if self._each else {}
        return found

    def report(self, events: Events, action: np.ndarray, mask: np.ndarray | None, actor: str | None) -> None:
        """Report an action, and the mask that it was chosen with."""
        for member, choice in enumerate(np.reshape(action, -1).tolist()):
            if self._each:
                events.report(f"choice/{self.key}/{choice if self._single else f'{member}/{choice}'}", 1, actor)
            else:
                events.report(f"choice/{self.key}", choice, actor)
        if mask is None:
            return
        allowed = mask != 0
        events.report(f"allowed/{self.key}", int(allowed.sum()), actor)
        if self._each:
            for name, free in zip(self._masked, allowed.tolist(), strict=True):
                if free:
                    events.report(f"allowed/{self.key}/{name}", 1, actor)

    def _names(self) -> list[str]:
        """The names of all choices, in the order of a mask."""
        if self._single:
            return [str(choice) for choice in range(self._sizes[0])]
        return [f"{member}/{choice}" for member, size in enumerate(self._sizes) for choice in range(size)]


class _Counted(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Env, most: int) -> None:
        super().__init__(env)
        from maze_core.envs.actors import keys_below

        masks = mask_leaves(env.observation_space, env.action_space)
        self._leaves = {
            key: _Leaf(key, space, masks.get(key), most)
            for key, space in flatten_space(env.action_space, "action").items()
            if not isinstance(space, spaces.Box)
        }
        self.events = Events({name: event for leaf in self._leaves.values() for name, event in leaf.declared().items()})
        actors = actors_of(env.observation_space)
        self._actors = [] if actors is None else list(actors.actors.items())
        self._own = {kind: set(keys_below(kind, self._leaves, "action")) for _, kind in self._actors}
        self._observations, self._actions = ObservationCodec(env.observation_space), ActionCodec(env.action_space)
        self._sees = bool(masks or self._actors)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._look(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        actor, kind = self._actors[int(self._seen[ACTOR].item())] if self._actors else (None, "")
        for key, taken in self._actions.tree(action).items():
            leaf = self._leaves.get(key)
            if leaf is not None and (actor is None or key in self._own[kind]):
                masks = [self._seen[mask].reshape(-1) for mask in leaf.mask or ()]
                leaf.report(self.events, taken, np.concatenate(masks) if masks else None, actor)
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._look(observation)
        return observation, reward, bool(terminated), bool(truncated), info

    def _look(self, observation: Any) -> None:
        if self._sees:
            tree = self._observations.tree(observation)
            self._seen = copy_tree(tree)


class InfoEventsConfig(PluginConfig):
    """The parameters of `info_events`."""

    events: Annotated[dict[str, tuple[str, ...]], Field(min_length=1)]
    """Keys of `info` and the aggregators of an episode, such as `{x_position: [max], reward_ctrl: [sum]}`."""


class InfoEvents(Plugin):
    """Report numbers that an environment puts into `info` as events, at every step whose `info` has them."""

    Config = InfoEventsConfig

    @hookimpl(wrapper=True)
    def make_env(self, config: Any, seed: int, index: int) -> Generator[None, Env, Env]:
        """Wrap the environment."""
        return _Informed((yield), self.config.events)


class _Informed(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self, env: Env, chosen: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__(env)
        try:
            self.events = Events(chosen)
        except ConfigError as error:
            raise ConfigError(error.message, "wrappers", "Next: maze plugins info info_events") from error
        self._unseen = set(self.events.declared)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        for name in self.events.declared:
            if name in info:
                self.events.report(name, info[name])
        self._unseen -= info.keys()
        if self._unseen and (terminated or truncated):
            self._name_unseen(info)
        return observation, reward, bool(terminated), bool(truncated), info

    def _name_unseen(self, info: Mapping[str, Any]) -> None:
        """Warn once of names that no step of the first episode has reported: they may be misspelt."""
        names, known = ", ".join(sorted(self._unseen)), ", ".join(sorted(map(str, info)))
        self._unseen.clear()
        told = f"its last one has {known}" if known else "its last one is empty"
        warnings.warn(f"info_events: no info of the first episode had {names}; {told}", RuntimeWarning, stacklevel=2)
