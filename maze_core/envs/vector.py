"""The interface of vectorised environments inside Maze: action trees in, transitions out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from maze_core.base.errors import ConfigError
from maze_core.base.tree import Tree

if TYPE_CHECKING:
    import gymnasium

    from maze_core.base.seeding import EpisodePlan, EpisodeSeeds, Values
    from maze_core.envs.wrappers import Memory


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode: its number of steps and its return, summed before the run's wrappers change rewards.

    With several agents it is the episode of all: the return is `MultiAgentEnv.score` of theirs, the length counts steps
    of the environment.
    """

    env_index: int
    """Number of the environment, or of the copy where several agents have a row each."""
    episode_number: int
    episode_return: float
    length: int
    metrics: dict[str, float] = field(default_factory=dict)
    """Numbers that the environment or a wrapper reported, see `maze_core.envs.wrappers.METRICS`, and KPIs."""
    events: Any = None
    """Statistics of the events that they reported; None where none are declared."""
    parameters: Values | None = None
    """Those that the environment had in it; None where they do not change."""


@dataclass(frozen=True, slots=True)
class EndedEpisode:
    """An episode that ended in a step of all environments, before its rewards are counted.

    `raw_return` is the sum of the rewards below all wrappers, None where there are none, `raw_reward` the last of them.
    """

    index: int
    episode: int
    length: int
    terminated: bool
    raw_return: float | None
    raw_reward: float
    metrics: dict[str, float]
    events: Any
    parameters: Values | None

    def counted(self, env_index: int, total: float) -> Episode:
        """Return the episode; `total` is the sum of its rewards, which counts where there is no other."""
        returned = total if self.raw_return is None else self.raw_return
        return Episode(env_index, self.episode, returned, self.length, self.metrics, self.events, self.parameters)


@dataclass(slots=True)
class StepResult:
    """The result of one step of N environments. The next observations are in the caller's `out` tree.

    `final_obs` holds, for the K environments in `final_indices` whose episode ended at this step, the last
    observation of that episode (leaves `[K, …]`); `out` already holds the first one of the next episode.
    A row with `valid` False is filler (gymnasium's NEXT_STEP autoreset): no transition, no statistics. Its action is
    ignored. Its observation is an earlier first observation of that environment, so its mask allows a choice.
    With several agents (`acting` is given) such a row is that of an agent that waits: its reward and its flags belong
    to its last action.
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
    has_filler: bool = False
    """True where a row is filler; else nobody reads `valid`. Environments that never produce such rows leave it."""
    acting: np.ndarray | None = None
    """[N] bool, the agents that act next; None: all rows, as in environments with one agent each."""
    restarted: np.ndarray | None = None
    """[N] bool, the rows of copies whose episode ended; None where `acting` is."""
    info: Tree = field(default_factory=dict)
    """Leaves [N] float32: the numbers of `info` that the algorithm learns from (`Algorithm.info_columns`)."""
    raw: np.ndarray | None = None
    """[N] float32, the rewards before the run's wrappers; None where they are those of `reward`, or are not kept."""

    @property
    def steps(self) -> int:
        """Number of environments that took a step: all but the filler rows."""
        return int(self.valid.sum()) if self.has_filler else len(self.valid)

    @property
    def begun(self) -> list[int]:
        """Indices of the rows whose next observation begins an episode; a filler row counts as an episode.

        With several agents: the rows of agents that ended, and all rows of copies whose episode ended.
        """
        ended: list[int] = self.final_indices.tolist()
        if self.restarted is not None:  # an agent that waits is in the middle of its episode
            return sorted({*ended, *np.flatnonzero(self.restarted).tolist()}) if ended else ended
        return sorted({*ended, *np.flatnonzero(~self.valid).tolist()}) if self.has_filler else ended


class VectorEnv(Protocol):
    """N environments stepped together. The next call may reuse the arrays of a StepResult: copy to keep."""

    num_envs: int
    observation_space: gymnasium.Space[Any]
    """The space of a single environment, as the user's environment declares it."""
    action_space: gymnasium.Space[Any]

    def reset(self, seeds: EpisodeSeeds, out: Tree) -> None:
        """Begin episode 0 everywhere; write the first observations into `out` (leaves `[N, …]`)."""

    def step(self, actions: Tree, out: Tree) -> StepResult:
        """Step every environment; write the next observations into `out`. `actions`: leaves `[N, …]` in env units."""

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs to continue bit-exactly: nested dicts of str/int/float/list/np.ndarray only."""

    def restore(self, seeds: EpisodeSeeds, state: dict[str, Any], out: Tree) -> None:
        """Restore the result of `state()` by replaying the unfinished episodes; write the current observations."""

    def memory(self) -> list[Memory]:
        """Return what each environment's wrappers remember across episodes; plain values, as in `state`."""

    def load_memory(self, memory: list[Memory]) -> None:
        """Restore the result of `memory()`, before a `reset`; environments without an entry keep their memory."""

    def close(self) -> None:
        """Release the environments; safe to call twice."""


@dataclass(frozen=True)
class Share:
    """The environments of one worker: `count` from index `first` on, of `total` in all."""

    first: int
    count: int
    total: int


def agents_of(env: VectorEnv) -> tuple[str, ...]:
    """Return the names of the agents that have a row each in every copy; empty for environments with one agent."""
    return tuple(getattr(env, "agents", ()))


def can_replay(env: VectorEnv) -> bool:
    """Return True for environments that replay unfinished episodes; natively vectorised ones begin new episodes."""
    return bool(getattr(env, "replays", True))


def instruct(env: VectorEnv, plan: EpisodePlan) -> None:
    """Let the episodes that begin from now on have these parameters.

    Raises:
        ConfigError: these environments begin their episodes themselves.
    """
    tell: Any = getattr(env, "instruct", None)
    if tell is None:
        raise begins_episodes()
    tell(plan)


def begins_episodes() -> ConfigError:
    """Return the error about environments that nobody can give the parameters of an episode."""
    return ConfigError(
        "natively vectorised environments begin their episodes themselves, so nobody can choose their parameters",
        "env",
        "Next: --set env.vectorization=single",
    )


def copies_of(env: VectorEnv) -> int:
    """Return the number of environments: of copies, where several agents have a row each."""
    return env.num_envs // max(1, len(agents_of(env)))
