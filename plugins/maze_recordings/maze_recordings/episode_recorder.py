"""Plays episodes in parallel, one per environment, and records them completely."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core.base.seeding import EpisodeSeeds, Purpose, generator
from maze_core.base.tree import map_tree, take_rows
from maze_core.collect.agents.network import NetworkAgent
from maze_core.collect.assembler import Assembler
from maze_core.collect.stepper import Stepper
from maze_core.data.trajectory import Trajectory
from maze_core.envs.native import NativeVectorEnv
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.several.vector_env import AgentsVectorEnv
from maze_core.envs.spaces import allocate, flatten_space, space_specs
from maze_core.envs.vector import Episode, agents_of, copies_of
from maze_core.envs.wrappers.carry import cycled
from maze_core.plugins.closing import releasing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gymnasium import Space

    from maze_core.base.tree import Tree
    from maze_core.collect.agents.agent import Agent, Choice
    from maze_core.collect.agents.planning import Planning
    from maze_core.envs.vector import StepResult, VectorEnv
    from maze_core.envs.wrappers.carry import Memory

    AgentOf = Callable[[Sequence[np.random.Generator]], Agent]


@dataclass(frozen=True, slots=True)
class Played:
    """A finished episode."""

    number: int
    trajectories: tuple[Trajectory, ...]
    """What happened; where several agents act, one for each of their parts in the episode."""
    summary: Episode


def play(
    env: VectorEnv,
    agent_of: AgentOf,
    seed: int,
    first: int,
    count: int,
    stopped: Callable[[], bool],
    memory: Sequence[Memory] = (),
    planning: Planning | None = None,
) -> Iterator[Played]:
    """Play episodes `first` … `first + count - 1`, at most one per environment, and yield them in this order.

    An episode depends only on `seed`, its number, the agent and the number of environments: each has its own seed
    and random generators. When `stopped` becomes true, only the episodes finished so far are yielded.
    `agent_of` returns the agent that acts with the given generators, one per row. `memory` is what wrappers remember
    before an episode, the same whatever was played before: episode k takes the entry k, in turn. `planning` looks ahead
    with a network.
    """
    env.load_memory(cycled(memory, range(first, first + copies_of(env))))
    seeds = EpisodeSeeds(seed, Purpose.ROLLOUT_EPISODES, stride=copies_of(env), first=first)
    agent_rows = len(agents_of(env))
    rows = [
        (first + row // agent_rows, row % agent_rows) if agent_rows else (first + row,) for row in range(env.num_envs)
    ]
    agent = agent_of([generator(seed, Purpose.ROLLOUT_NOISE, *row) for row in rows])
    recording = _AgentsRecording(env, seeds) if agent_rows else _Recording(env, seeds)
    stepper = Stepper(env, seeds)
    with ExitStack() as stack:
        if planning is not None and isinstance(agent, NetworkAgent):
            agent = stack.enter_context(releasing(planning.agent(agent, env, seeds)))
        stepper.begin(recording.room({}))
        following = 0
        while following < count and not stopped():
            stepper.step(agent, recording)
            while following < count and following in recording.ended:
                yield _numbered(recording.ended.pop(following), first)
                following += 1
    for row in sorted(row for row in recording.ended if following <= row < count):
        yield _numbered(recording.ended[row], first)


def _numbered(played: Played, first: int) -> Played:
    """Return an episode with its number among all."""
    number = first + played.number
    return replace(played, number=number, summary=replace(played.summary, env_index=0, episode_number=number))


class _Recording:
    """A sink that keeps every step since the reset, and the first finished episode of each environment."""

    def __init__(self, env: VectorEnv, seeds: EpisodeSeeds) -> None:
        self.ended: dict[int, Played] = {}
        self._specs, self._rows = space_specs(env.observation_space, "observation"), env.num_envs
        # A natively vectorised environment chooses the seeds of its episodes itself.
        self._seeds = None if isinstance(env, NativeVectorEnv) else seeds
        self._playing = set(range(env.num_envs))
        self._clips = _clips(env)
        self._past: list[tuple[Tree, Tree]] = []
        self._rewards: list[tuple[np.ndarray, np.ndarray]] = []
        """Those of the environment and those after the wrappers."""
        if isinstance(env, SerialVectorEnv):
            env.keep_raw()

    def room(self, obs: Tree) -> Tree:
        """Return new arrays, since the current ones are kept."""
        return allocate(self._specs, (self._rows,))

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Keep a step, with actions clipped to their bounds as the environments executed them."""
        self._past.append((obs, {key: clip(choice.actions[key]) for key, clip in self._clips.items()}))
        wrapped = result.reward.copy()
        self._rewards.append((wrapped if result.raw is None else result.raw, wrapped))
        if result.final_obs is None:
            return
        episodes = {episode.env_index: episode for episode in result.episodes}
        for k, row in enumerate(map(int, result.final_indices)):
            if row in self._playing:
                self._playing.discard(row)
                final = take_rows(result.final_obs, k)
                episode = episodes[row]
                whole = self._trajectory(row, final, bool(result.terminated[row]), episode.episode_return)
                self.ended[row] = Played(row, (whole,), episode)

    def _trajectory(self, row: int, final: Tree, terminated: bool, episode_return: float) -> Trajectory:
        obs = {key: np.stack([*(past[key][row] for past, _ in self._past), last]) for key, last in final.items()}
        actions = {key: np.stack([taken[key][row] for _, taken in self._past]) for key in self._clips}
        raw, wrapped = (np.array([each[kind][row] for each in self._rewards], np.float32) for kind in (0, 1))
        seed = None if self._seeds is None else self._seeds(row, 0)
        return Trajectory(obs, actions, raw, terminated, not terminated, episode_return, seed, wrapped)


class _AgentsRecording:
    """The same where several agents act: a trajectory has the steps of one agent, and its rewards until the next."""

    def __init__(self, env: VectorEnv, seeds: EpisodeSeeds) -> None:
        self.ended: dict[int, Played] = {}
        self._specs, self._rows = space_specs(env.observation_space, "observation"), env.num_envs
        self._seeds, self._agent_rows, self._clips = seeds, len(agents_of(env)), _clips(env)
        self._playing = set(range(copies_of(env)))
        self._assembler, self._raw = Assembler(env.num_envs), Assembler(env.num_envs)
        """Of the steps, and of their rewards before the wrappers."""
        self._steps: list[list[tuple[Tree, Tree]]] = [[] for _ in range(env.num_envs)]
        """Observation and action of each step of the current part, for each row."""
        self._rewards: list[list[tuple[np.float32, np.float32]]] = [[] for _ in range(env.num_envs)]
        """Those of the environment and those after the wrappers."""
        self._parts: list[list[Trajectory]] = [[] for _ in range(env.num_envs)]
        if isinstance(env, AgentsVectorEnv):
            env.keep_raw()

    def room(self, obs: Tree) -> Tree:
        """Return new arrays, since rows of the current ones are kept."""
        return allocate(self._specs, (self._rows,))

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Keep the transitions that are complete, with actions clipped to their bounds."""
        taken = {key: clip(choice.actions[key]) for key, clip in self._clips.items()}
        done = self._assembler.add(obs, taken, result, following)
        unwrapped = result.reward if result.raw is None else result.raw
        raw = self._raw.add({}, {}, replace(result, reward=unwrapped, final_obs=None), {}).rewards
        for k, row in enumerate(done.rows.tolist()):
            if row // self._agent_rows not in self._playing:
                continue
            self._steps[row].append((take_rows(done.obs, k), take_rows(done.actions, k)))
            self._rewards[row].append((raw[k], done.rewards[k]))
            if done.ended[k]:
                self._close(row, take_rows(done.following, k), bool(done.terminated[k]))
        for episode in result.episodes:
            if episode.env_index in self._playing:
                self._playing.discard(episode.env_index)
                rows = range(episode.env_index * self._agent_rows, (episode.env_index + 1) * self._agent_rows)
                parts = tuple(part for row in rows for part in self._parts[row])
                self.ended[episode.env_index] = Played(episode.env_index, parts, episode)

    def _close(self, row: int, final: Tree, terminated: bool) -> None:
        """End the part of a row's agent; one that never acted has none."""
        steps, rewards = self._steps[row], np.array(self._rewards[row], np.float32).reshape(-1, 2)
        obs = {key: np.stack([*(seen[key] for seen, _ in steps), last]) for key, last in final.items()}
        actions = {key: np.stack([action[key] for _, action in steps]) for key in self._clips}
        raw, wrapped = rewards.T.copy()
        total, seed = float(raw.sum(dtype=np.float64)), self._seeds(row // self._agent_rows, 0)
        self._parts[row].append(Trajectory(obs, actions, raw, terminated, not terminated, total, seed, wrapped))
        self._steps[row], self._rewards[row] = [], []


def _clips(env: VectorEnv) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Return for each leaf of actions a function that copies them, clipped to their bounds."""
    return map_tree(_clip, flatten_space(env.action_space, "action"))


def _clip(space: Space[Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that copies actions [N, …], clipped to the bounds of a leaf."""
    if not isinstance(space, spaces.Box):
        return np.array
    low, high, whole = space.low, space.high, np.dtype(space.dtype).kind != "f"
    return lambda values: np.clip(np.rint(values) if whole else values, low, high).astype(np.float32)
