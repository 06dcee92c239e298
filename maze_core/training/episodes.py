"""Playing episodes side by side, one to each environment, and keeping all that happened in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core.data.trajectories import Trajectory
from maze_core.envs.native import NativeVectorEnv
from maze_core.envs.spaces import allocate, flatten_space, space_specs
from maze_core.training.seeding import EpisodeSeeds, Purpose, sequence

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core.envs.vector import StepResult, Tree, VectorEnv
    from maze_core.policies.base import ActingPolicy


def play(
    env: VectorEnv, policy: ActingPolicy, seed: int, first: int, count: int, stopped: Callable[[], bool]
) -> Iterator[tuple[int, Trajectory]]:
    """Play episodes `first` … `first + count - 1`, at most one to each environment, and give them in this order.

    What happens in an episode depends on `seed`, its number, the policy and the number of environments only: each has
    a seed and a random generator of its own. Where `stopped` comes true, those that have ended so far are given.
    """
    seeds = EpisodeSeeds(seed, Purpose.ROLLOUT_EPISODES, stride=env.num_envs, first=first)
    rngs = [
        np.random.Generator(np.random.PCG64(sequence(seed, Purpose.ROLLOUT_NOISE, first + row)))
        for row in range(env.num_envs)
    ]
    record = _Record(env, seeds)
    env.reset(seeds, record.obs)
    for row in range(env.num_envs):
        policy.begin(row)
    following = 0
    while following < count and not stopped():
        actions = record.received(policy.act(record.obs, rngs))
        record.before_step(actions)
        result = env.step(actions, record.obs)
        record.after_step(result)
        for row in result.begun:
            policy.begin(row)
        while following < count and following in record.ended:
            yield first + following, record.ended.pop(following)
            following += 1
    for row in sorted(row for row in record.ended if following <= row < count):
        yield first + row, record.ended[row]


class _Record:
    """Everything that happened since the environments were reset, and the first episode of each that has ended."""

    def __init__(self, env: VectorEnv, seeds: EpisodeSeeds) -> None:
        self.obs = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
        self.ended: dict[int, Trajectory] = {}
        # A natively vectorised environment seeds single episodes as it likes.
        self._seeds = None if isinstance(env, NativeVectorEnv) else seeds
        self._playing = set(range(env.num_envs))
        self._clips = {key: _clip(space) for key, space in flatten_space(env.action_space, "action").items()}
        self._past: list[tuple[Tree, Tree]] = []
        self._rewards: list[np.ndarray] = []

    def received(self, actions: Tree) -> Tree:
        """The actions as the environments receive them: within their bounds."""
        return {key: clip(actions[key]) for key, clip in self._clips.items()}

    def before_step(self, actions: Tree) -> None:
        self._past.append(({key: leaf.copy() for key, leaf in self.obs.items()}, actions))

    def after_step(self, result: StepResult) -> None:
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
    """A copy of actions [N, …] within the bounds of a leaf."""
    if not isinstance(space, spaces.Box):
        return np.array
    low, high, whole = space.low, space.high, np.dtype(space.dtype).kind != "f"
    return lambda values: np.clip(np.rint(values) if whole else values, low, high).astype(np.float32)
