"""Plays episodes in parallel, one per environment, and records them completely."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from maze_onpolicy import Assembler

from maze_core import EpisodeSeeds, NetworkAgent, Purpose, Trajectory, generator, take_rows
from maze_core.collect.stepper import Stepper
from maze_core.envs.codecs import ActionCodec
from maze_core.envs.parameters import SEED
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import Episode, agents_of, can_replay, copies_of
from maze_core.envs.wrappers import cycled
from maze_core.plugins.closing import releasing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from maze_core import Tree, VectorEnv
    from maze_core.collect.agents.agent import Agent, Choice
    from maze_core.collect.agents.looking_ahead import Planning
    from maze_core.envs.vector import StepResult
    from maze_core.envs.wrappers import Memory

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
    recording = _Recording(env, seeds)
    stepper = Stepper(env, seeds)
    with ExitStack() as stack:
        if planning is not None and isinstance(agent, NetworkAgent):
            agent = stack.enter_context(releasing(planning.agent(agent, env, seeds)))
        stepper.reset(recording.next_buffer({}))
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


class _Steps(NamedTuple):
    """Of K rows what a trajectory holds of a step; leaves [K, …]."""

    rows: np.ndarray
    obs: Tree
    actions: Tree
    rewards: np.ndarray
    raw: np.ndarray
    """The rewards before the run's wrappers."""

    def place(self, row: int) -> int | None:
        """Return the place of a row among the K; None: it is not one of them."""
        place = int(self.rows.searchsorted(row))
        return place if place < len(self.rows) and self.rows[place] == row else None


class _Recording:
    """A sink that keeps every transition since the reset, and the first finished episode of each environment.

    A trajectory has the steps of one agent, and its rewards until its next action.
    """

    def __init__(self, env: VectorEnv, seeds: EpisodeSeeds) -> None:
        self.ended: dict[int, Played] = {}
        self._specs, self._rows = space_specs(env.observation_space, "observation"), env.num_envs
        # A natively vectorised environment chooses the seeds of its episodes itself.
        self._seeds = seeds if can_replay(env) else None
        self._agents = len(agents_of(env))
        self._playing = set(range(copies_of(env)))
        self._codec = ActionCodec(env.action_space)
        self._assembler = Assembler(env.num_envs)
        self._past: list[_Steps] = []
        """What each step completed."""
        self._begun = [0] * env.num_envs
        """The step in which the current part of each row begins."""
        self._parts: list[list[Trajectory]] = [[] for _ in range(env.num_envs)]
        if (keep_raw := getattr(env, "keep_raw", None)) is not None:
            keep_raw()

    def next_buffer(self, obs: Tree) -> Tree:
        """Return new arrays, since the current ones may be kept."""
        return allocate(self._specs, (self._rows,))

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Keep the transitions that are complete, with actions as the environment executed them."""
        done = self._assembler.add(obs, self._codec.executed(choice.actions), result, following)
        rewards = done.rewards.copy()
        self._past.append(_Steps(done.rows, done.obs, done.actions, rewards, rewards if done.raw is None else done.raw))
        for k in np.flatnonzero(done.ended).tolist() if len(result.final_indices) else ():
            row = int(done.rows[k])
            if row // max(1, self._agents) in self._playing:
                final = take_rows(done.following, k)
                self._parts[row].append(self._trajectory(row, final, bool(done.terminated[k])))
            self._begun[row] = len(self._past)
        for episode in result.episodes:
            if episode.env_index in self._playing:
                self._playing.discard(episode.env_index)
                self.ended[episode.env_index] = Played(episode.env_index, self._trajectories(episode), episode)

    def _trajectories(self, episode: Episode) -> tuple[Trajectory, ...]:
        """Return the parts of the agents in an episode that has just ended, those of one agent after the other."""
        if not self._agents:  # the environment has summed its rewards exactly
            (whole,) = self._parts[episode.env_index]
            return (self._set(replace(whole, episode_return=episode.episode_return), episode),)
        rows = range(episode.env_index * self._agents, (episode.env_index + 1) * self._agents)
        return tuple(self._set(part, episode) for row in rows for part in self._parts[row])

    def _set(self, part: Trajectory, episode: Episode) -> Trajectory:
        """Return a part of an episode with the parameters that the environment had, one of which may be its seed."""
        if (values := episode.parameters) is None:
            return part
        seed = int(values.get(SEED, part.seed or 0)) if part.seed is not None else None
        return replace(part, parameters=values, seed=seed)

    def _trajectory(self, row: int, final: Tree, terminated: bool) -> Trajectory:
        """Return the part of a row's agent that has just ended."""
        past = self._past[self._begun[row] :]
        steps = [(each, k) for each in past if (k := each.place(row)) is not None]
        obs = {key: np.stack([*(each.obs[key][k] for each, k in steps), last]) for key, last in final.items()}
        actions = {key: np.stack([each.actions[key][k] for each, k in steps]) for key in self._codec.specs}
        wrapped = np.array([each.rewards[k] for each, k in steps], np.float32)
        raw = np.array([each.raw[k] for each, k in steps], np.float32)
        seed = None if self._seeds is None else self._seeds(row // max(1, self._agents), 0)
        total = float(raw.sum(dtype=np.float64))
        return Trajectory(obs, actions, raw, terminated, not terminated, total, seed, wrapped)
