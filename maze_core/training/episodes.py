"""Plays episodes in parallel, one per environment, and records them completely."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core.acting.stepper import Stepper
from maze_core.data.trajectories import Trajectory
from maze_core.envs.native import NativeVectorEnv
from maze_core.envs.spaces import allocate, flatten_space, space_specs
from maze_core.seeding import EpisodeSeeds, Purpose, generator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gymnasium import Space

    from maze_core.acting.agent import Agent, Choice
    from maze_core.envs.vector import StepResult, Tree, VectorEnv

    AgentOf = Callable[[Sequence[np.random.Generator]], Agent]


def play(
    env: VectorEnv, agent_of: AgentOf, seed: int, first: int, count: int, stopped: Callable[[], bool]
) -> Iterator[tuple[int, Trajectory]]:
    """Play episodes `first` … `first + count - 1`, at most one per environment, and yield them in this order.

    An episode depends only on `seed`, its number, the agent and the number of environments: each has its own seed
    and random generator. When `stopped` becomes true, only the episodes finished so far are yielded.
    `agent_of` returns the agent that acts with the given generators, one per environment.
    """
    seeds = EpisodeSeeds(seed, Purpose.ROLLOUT_EPISODES, stride=env.num_envs, first=first)
    agent = agent_of([generator(seed, Purpose.ROLLOUT_NOISE, first + row) for row in range(env.num_envs)])
    recording, stepper = _Recording(env, seeds), Stepper(env, seeds)
    stepper.begin(recording.room({}))
    following = 0
    while following < count and not stopped():
        stepper.step(agent, recording)
        while following < count and following in recording.ended:
            yield first + following, recording.ended.pop(following)
            following += 1
    for row in sorted(row for row in recording.ended if following <= row < count):
        yield first + row, recording.ended[row]


class _Recording:
    """A sink that keeps every step since the reset, and the first finished episode of each environment."""

    def __init__(self, env: VectorEnv, seeds: EpisodeSeeds) -> None:
        self.ended: dict[int, Trajectory] = {}
        self._specs, self._rows = space_specs(env.observation_space, "observation"), env.num_envs
        # A natively vectorised environment chooses the seeds of its episodes itself.
        self._seeds = None if isinstance(env, NativeVectorEnv) else seeds
        self._playing = set(range(env.num_envs))
        self._clips = {key: _clip(space) for key, space in flatten_space(env.action_space, "action").items()}
        self._past: list[tuple[Tree, Tree]] = []
        self._rewards: list[np.ndarray] = []

    def room(self, obs: Tree) -> Tree:
        """Return new arrays, since the current ones are kept."""
        return allocate(self._specs, (self._rows,))

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Keep a step, with actions clipped to their bounds as the environments executed them."""
        self._past.append((obs, {key: clip(choice.actions[key]) for key, clip in self._clips.items()}))
        self._rewards.append(result.reward.copy())
        if result.final_obs is None:
            return
        returns = {episode.env_index: episode.episode_return for episode in result.episodes}
        for k, row in enumerate(map(int, result.final_indices)):
            if row in self._playing:
                self._playing.discard(row)
                final = {key: leaf[k] for key, leaf in result.final_obs.items()}
                self.ended[row] = self._trajectory(row, final, bool(result.terminated[row]), returns[row])

    def _trajectory(self, row: int, final: Tree, terminated: bool, episode_return: float) -> Trajectory:
        obs = {key: np.stack([*(past[key][row] for past, _ in self._past), last]) for key, last in final.items()}
        actions = {key: np.stack([taken[key][row] for _, taken in self._past]) for key in self._clips}
        rewards = np.array([rewards[row] for rewards in self._rewards], np.float32)
        seed = None if self._seeds is None else self._seeds(row, 0)
        return Trajectory(obs, actions, rewards, terminated, not terminated, episode_return, seed)


def _clip(space: Space[Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that copies actions [N, …], clipped to the bounds of a leaf."""
    if not isinstance(space, spaces.Box):
        return np.array
    low, high, whole = space.low, space.high, np.dtype(space.dtype).kind != "f"
    return lambda values: np.clip(np.rint(values) if whole else values, low, high).astype(np.float32)
