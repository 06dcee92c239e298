"""Environments in which several actors take turns, each with its own spaces."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import Space, spaces

from maze_actors.agent_rows import ActorSpaces, Kinds, waiting_observation
from maze_core.base.errors import ConfigError, RunError
from maze_core.envs.actors import CRITIC, TURN, check_name
from maze_core.envs.codecs import ObservationCodec
from maze_core.envs.spaces import flatten_space


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of one actor: who acts next and what it sees, and what the action before it brought.

    At the end of an episode it is the turn that would follow.
    """

    actor: str
    """The name of the actor that acts next."""
    observation: Any
    """What this actor sees, in its observation space."""
    reward: float = 0.0
    """The reward of the action before this turn."""
    elapsed: float = 1.0
    """Decisions since the turn before: 0 between the sub-steps of one decision, 1 after a whole one. The reward after
    it is discounted by gamma to this power."""
    terminated: bool = False
    """True where the episode has ended as part of the task."""
    truncated: bool = False
    """True where the episode is cut, such as by a time limit."""
    critic: Any = None
    """What critics alone see, in the space `critic` of the environment."""
    info: dict[str, Any] = field(default_factory=dict)
    """Further facts, as gymnasium's environments return them."""


class TurnEnv(gymnasium.Env[dict[str, Any], dict[str, Any]]):
    """An environment whose decisions are taken in turns. Subclasses define `first_turn` and `next_turn`.

    It is an ordinary gymnasium environment. Its observation has a part for each kind of actor, and `turn`: which actor
    acts, and the decisions that have elapsed. The parts of kinds that wait are zeros, or the nearest value of their
    space, and ones in masks. Its action has a part for each kind, of which only the acting one is read. Actors with
    equal spaces are of one kind, named after the first of them. All chance comes from `self.np_random`.

    Args:
        actors: the name of each actor → its observation space and its action space.
        critic: the space of what critics alone see; None: nothing.

    Raises:
        ConfigError: there is no actor, an actor has no spaces, or a name or space is not supported.
    """

    def __init__(
        self, actors: Mapping[str, ActorSpaces | tuple[Space[Any], Space[Any]]], critic: Space[Any] | None = None
    ) -> None:
        declared = _checked(actors)
        kinds = Kinds(declared)
        self._kind_of = kinds.of
        self._numbers = {name: np.int64(number) for number, name in enumerate(declared)}
        self._codecs = {kind: ObservationCodec(each.observation) for kind, each in kinds.spaces.items()}
        self._waiting = {kind: waiting_observation(each) for kind, each in kinds.spaces.items()}
        observed, self.action_space = kinds.joint_spaces()
        self._critic = None if critic is None else ObservationCodec(critic)
        if critic is not None:
            observed = spaces.Dict({**observed.spaces, CRITIC: critic})
        self.observation_space = observed
        self._actor: str | None = None

    @abstractmethod
    def first_turn(self) -> Turn:
        """Begin an episode and return its first turn. `self.np_random` is seeded."""

    @abstractmethod
    def next_turn(self, actor: str, action: Any) -> Turn:
        """Let an actor take an action of its action space, and return the next turn."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        turn = self.first_turn()
        return self._observation(turn, "first_turn"), turn.info

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Let the actor whose turn it is act; the parts of `action` that belong to other kinds are ignored."""
        actor = self._actor
        if actor is None:
            raise RunError("the environment must be reset before its first step")
        turn = self.next_turn(actor, action[self._kind_of[actor]])
        return self._observation(turn, "next_turn"), turn.reward, turn.terminated, turn.truncated, turn.info

    def _observation(self, turn: Turn, source: str) -> dict[str, Any]:
        if not isinstance(turn, Turn):
            raise ConfigError(f"{source} must return a Turn, but it returned {turn!r:.80}", "env")
        kind = self._kind_of.get(turn.actor)
        if kind is None:
            known = ", ".join(self._kind_of)
            raise ConfigError(f"{source} names the unknown actor {turn.actor!r}; the actors are {known}", "env")
        _check(self._codecs[kind], turn.observation, f"the observation of the actor {turn.actor!r}")
        if self._critic is not None:
            _check(self._critic, turn.critic, "what critics see")
        self._actor = turn.actor
        elapsed = np.array(turn.elapsed, np.float32)
        seen: dict[str, Any] = {TURN: {"actor": self._numbers[turn.actor], "elapsed": elapsed}}
        for each, waiting in self._waiting.items():
            seen[each] = turn.observation if each == kind else _copied(waiting)
        return seen if self._critic is None else {**seen, CRITIC: turn.critic}


def _checked(actors: Any) -> dict[str, ActorSpaces]:
    """Return the declared actors. Raises ConfigError for those that are no names with two spaces."""
    if not isinstance(actors, Mapping) or not actors:
        raise ConfigError(
            f"the actors must be a mapping from names to spaces, got {actors!r:.80}", "env", "Declare at least one."
        )
    for name, declared in actors.items():
        check_name(name)
        pair = tuple(declared) if isinstance(declared, tuple | list) else (declared,)
        if len(pair) != 2 or not all(isinstance(each, Space) for each in pair):
            raise ConfigError(
                f"the actor {name!r} has no spaces: {declared!r:.80}",
                "env",
                "Declare its observation space and its action space: ActorSpaces(observation, action).",
            )
        flatten_space(spaces.Dict({name: pair[0]}), "observation")
        flatten_space(spaces.Dict({name: pair[1]}), "action")
    return {name: ActorSpaces(*declared) for name, declared in actors.items()}


def _check(codec: ObservationCodec, value: Any, what: str) -> None:
    if (found := codec.problem(value)) is not None:
        problem = f"'{found[0]}': {found[1]}"
        raise ConfigError(f"{what} is not in its declared space, which may not change: {problem}", "env")


def _copied(value: Any) -> Any:
    """Return an observation with its own arrays, as gymnasium asks of every step."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return value.copy()  # arrays, and numbers of numpy
