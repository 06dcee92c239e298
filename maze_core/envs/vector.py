"""The contract of vectorised environments inside Maze: trees in, transitions out, whatever steps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import gymnasium

    from maze_core.envs.layers import Memory
    from maze_core.training.seeding import EpisodeSeeds

Tree = dict[str, np.ndarray]
"""A flat dict of arrays. Single spaces are `{"observation": …}` and `{"action": …}`; nested keys join with `/`."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode: number of steps and raw sum of rewards, before wrappers of the run changed them."""

    env_index: int
    episode_number: int
    episode_return: float
    length: int
    metrics: dict[str, float] = field(default_factory=dict)
    """What the environment or a wrapper reported of it, see `maze_core.envs.layers.METRICS`."""


@dataclass(slots=True)
class StepResult:
    """What one step of N environments gave. The next observations are in the caller's `out` tree.

    `final_obs` holds, for the K environments in `final_indices` whose episode ended at this step, the last
    observation of that episode (leaves `[K, …]`); `out` already holds the first one of the next episode.
    A row with `valid` False is filler (gymnasium's NEXT_STEP autoreset): no transition, no statistics. Its action is
    ignored; the observation it is chosen from is an earlier first one of that environment, so it leaves a choice.
    """

    reward: np.ndarray
    """[N] float32"""
    terminated: np.ndarray
    """[N] bool"""
    truncated: np.ndarray
    """[N] bool; never set together with `terminated` (termination wins)"""
    valid: np.ndarray
    """[N] bool"""
    final_indices: np.ndarray
    """[K] int64"""
    final_obs: Tree | None = None
    episodes: list[Episode] = field(default_factory=list)

    @property
    def begun(self) -> list[int]:
        """The environments in which an episode begins with the next observation; filler counts as one of its own."""
        begun: list[int] = np.flatnonzero(self.terminated | self.truncated | ~self.valid).tolist()
        return begun


class VectorEnv(Protocol):
    """N environments stepped together. The arrays of a StepResult may be reused by the next call: copy to keep."""

    num_envs: int
    observation_space: gymnasium.Space[Any]
    """The space of a single environment, as the user's environment declares it."""
    action_space: gymnasium.Space[Any]

    def reset(self, seeds: EpisodeSeeds, out: Tree) -> None:
        """Begin episode 0 everywhere; write the first observations into `out` (leaves `[N, …]`)."""

    def step(self, actions: Tree, out: Tree) -> StepResult:
        """Step every environment; write the next observations into `out`. `actions`: leaves `[N, …]`, env units."""

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs to go on bit-exactly: nested dicts of str/int/float/list/np.ndarray only."""

    def restore(self, seeds: EpisodeSeeds, state: dict[str, Any], out: Tree) -> None:
        """Return to a recorded state by replaying the unfinished episodes; write the current observations."""

    def memory(self) -> list[Memory]:
        """Return what the wrappers of each environment remember beyond episodes; plain values, as in `state`."""

    def load_memory(self, memory: list[Memory]) -> None:
        """Restore the result of `memory()`, before a `reset`; an environment it does not cover keeps what it has."""

    def close(self) -> None:
        """Release the environments; safe to call twice."""
