"""Derives all random numbers of a run from one seed, by purpose, so that no stream affects another."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.base.saved_state import Each, refused, varies

if TYPE_CHECKING:
    import torch

_BLOCK = 256
_SLOTS = 8
# Blocks kept when environments share one numbering, so that one may be 2,000 episodes ahead of the others.
_NONE = np.zeros(0, np.uint32)
_STATES = {16, 5056}
"""Bytes of the states of torch's generators, of a GPU and of the CPU."""


class Purpose(IntEnum):
    """The purpose of a stream of random numbers. Values are part of the file format: never renumber."""

    TRAIN_EPISODES = 0
    EVAL_EPISODES = 1
    MODEL_INIT = 2
    POLICY_NOISE = 3
    MINIBATCH_ORDER = 4
    EVAL_NOISE = 5
    ENV_CONSTRUCTION = 6
    GLOBAL = 7
    REPLAY = 8
    PERTURBATION = 9
    DATA_SPLIT = 10
    ACTOR = 11
    ROLLOUT_EPISODES = 12
    ROLLOUT_NOISE = 13
    NORMALIZATION = 14
    PLUGIN = 15
    """Free for plugins; the core draws nothing of it."""
    PLANNING = 16


def draw_seed() -> int:
    """Return a new seed for a run without one."""
    return secrets.randbits(32)


def sequence(seed: int, purpose: Purpose, *path: int) -> np.random.SeedSequence:
    """Return the seed sequence of a purpose, optionally of one of its members (an environment, an actor, an epoch)."""
    return np.random.SeedSequence(seed, spawn_key=(int(purpose), *path))


def generator(seed: int, purpose: Purpose, *path: int) -> np.random.Generator:
    """Return a random generator for a purpose, or for one of its members."""
    return np.random.Generator(np.random.PCG64(sequence(seed, purpose, *path)))


def random_states(rngs: Sequence[np.random.Generator]) -> list[Any]:
    """Return the states of some generators, as plain data."""
    states = [rng.bit_generator.state for rng in rngs]
    return varies(states, Each(GeneratorState(rngs[0]))) if states else states


def random_state(generator: np.random.Generator | torch.Generator) -> Any:
    """Return the state of a generator of numpy or torch: plain data, or a tensor."""
    numpys: Any = isinstance(generator, np.random.Generator) and generator.bit_generator
    state = numpys.state if numpys else cast("torch.Generator", generator).get_state()
    return varies(state, GeneratorState(generator))


def load_random_state(generator: np.random.Generator | torch.Generator, state: Any) -> None:
    """Restore the result of `random_state()`."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        restore_generator(generator, state)


@dataclass(frozen=True)
class GeneratorState:
    """The form of the state of a generator like this one."""

    generator: Any

    def check(self, saved: Any, place: str) -> None:
        """Raise StateError if such a generator does not take it, or changes it."""
        import torch

        own = self.generator
        numpys = isinstance(own, np.random.Generator)
        try:
            other: Any = np.random.Generator(type(own.bit_generator)(0)) if numpys else torch.Generator(own.device)
            load_random_state(other, saved)
            taken = not numpys or repr(other.bit_generator.state) == repr(saved)
        except Exception:  # noqa: BLE001 — numpy and torch raise errors of many kinds
            taken = False
        if not taken:
            raise refused(place, "the state of a random generator", "is none")


def load_random_states(rngs: Sequence[np.random.Generator], states: Sequence[Any]) -> None:
    """Restore the result of `random_states()`.

    Raises:
        ConfigError: it is of another number of generators, of which each row of environments has one.
    """
    if len(states) != len(rngs):
        raise ConfigError(
            f"the saved run has random numbers for {len(states)} rows of environments, this one for {len(rngs)}",
            "algorithm.num_envs",
            "Next: the number of environments that the run had.",
        )
    for rng, state in zip(rngs, states, strict=True):
        load_random_state(rng, state)


def integer_seed(seed: int, purpose: Purpose, *path: int) -> int:
    """Return a 63-bit seed for libraries that take an integer."""
    return int(sequence(seed, purpose, *path).generate_state(1, np.uint64)[0] >> np.uint64(1))


def torch_generator(seed: int, purpose: Purpose, *path: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Return torch's random generator for a purpose, or for one of its members."""
    import torch

    return torch.Generator(device).manual_seed(integer_seed(seed, purpose, *path))


def restore_generator(generator: torch.Generator, state: torch.Tensor) -> None:
    """Restore a saved state of torch's generator; that of another kind of device begins a stream of its own.

    A run may move between a GPU and the CPU, whose random numbers differ. Where it goes on is then determined by the
    saved state, but its random numbers are others.

    Raises:
        RuntimeError: it is no state of a generator.
    """
    import torch

    if state.dtype == torch.uint8 and {state.numel(), generator.get_state().numel()} == _STATES:
        digest = hashlib.sha256(state.numpy().tobytes()).digest()
        generator.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
    else:
        generator.set_state(state)


Values = Mapping[str, bool | int | float | str]
"""The parameters of an environment in an episode, by name."""


@dataclass(frozen=True, slots=True)
class EpisodePlan:
    """The parameters of the episodes that begin from now on, which are dealt to the environments in turn.

    Who steps an environment makes no difference: they follow from its number and that of the episode.
    """

    rows: tuple[Values, ...]
    """All with the same names."""
    total: int
    """The number of environments that they are dealt to."""

    def of(self, env_index: int, episode_number: int) -> Values:
        """Return the parameters of an episode."""
        return self.rows[(env_index + episode_number * self.total) % len(self.rows)]


@dataclass
class EpisodeSeeds:
    """The seed of each episode: a pure function of (run seed, purpose, path, environment, episode number).

    `path` separates streams of one purpose, such as the evaluations of successive epochs. With a `stride` of N, the
    episodes of N environments share one numbering (episode k of environment i is number first + k * N + i), so the
    same episodes are played for every N.
    """

    seed: int
    purpose: Purpose
    path: tuple[int, ...] = ()
    stride: int = 0
    first: int = 0
    plan: EpisodePlan | None = None
    """The parameters of the episodes; None: environments are as they were built, or as they have been told."""
    _blocks: dict[int, tuple[int, np.ndarray]] = field(default_factory=dict, repr=False, compare=False)
    """The block of seeds last asked for, with its number: one for each environment, or `_SLOTS` with a stride."""

    def __call__(self, env_index: int, episode_number: int) -> int:
        """Return the seed for `env.reset` at the start of that episode, below 2**31 (old environments need that)."""
        if self.stride:
            env_index, episode_number = 0, self.first + episode_number * self.stride + env_index
        number, offset = divmod(episode_number, _BLOCK)
        slot = number % _SLOTS if self.stride else env_index
        kept, values = self._blocks.get(slot, (-1, _NONE))
        if kept != number:
            # One SeedSequence for many episodes: hashing one for each would cost more than a CartPole reset.
            words = sequence(self.seed, self.purpose, *self.path, env_index, number).generate_state(_BLOCK)
            values = words >> np.uint32(1)
            self._blocks[slot] = number, values
        return int(values[offset])
