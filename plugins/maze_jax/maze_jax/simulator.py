"""One environment as pure functions, which is what an adapter makes of a library's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gymnasium import Space
    from jax import Array

State = Any
"""What an environment knows of its episode: arrays in a tree of JAX."""


class Transition(NamedTuple):
    """The result of a step of one environment."""

    state: State
    observation: Any
    """As the observation space says: an array, or a dict or tuple of arrays; of the episode's end where it ends."""
    reward: Array
    """A number."""
    terminated: Array
    """A boolean: the episode has come to its end."""
    truncated: Array
    """A boolean: a time limit cuts the episode."""


@dataclass(frozen=True)
class Simulator:
    """One environment: functions that JAX can compile and vectorise, which never reset by themselves."""

    observation_space: Space[Any]
    action_space: Space[Any]
    reset: Callable[[Array], tuple[State, Any]]
    """From a key of random numbers, uint32 [2], to a state and the first observation."""
    step: Callable[[Array, State, Any], Transition]
    """From a key, a state and an action of the action space."""
    limit: int | None = None
    """Steps after which the library itself would cut an episode; None: its steps say so, or there is no limit."""
