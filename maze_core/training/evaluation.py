"""Evaluation: a fixed quota of episodes on environments built exactly like those of training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core.acting.network import NetworkAgent, SharedNoise
from maze_core.acting.rule import RuleAgent
from maze_core.acting.stepper import Stepper
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import Episode, copies_of
from maze_core.policies.base import ActingPolicy

if TYPE_CHECKING:
    from maze_core.acting.agent import Agent, Choice
    from maze_core.envs.vector import StepResult, Tree, VectorEnv
    from maze_core.models.policy import Policy
    from maze_core.seeding import EpisodeSeeds

_STEPS_BETWEEN_LOOKS = 1000


class EvaluationInterrupted(Exception):  # noqa: N818 — no error: the user asked for it
    """The user interrupted the run during an evaluation; its results so far are discarded."""


def evaluate_policy(
    policy: Policy | ActingPolicy,
    env: VectorEnv,
    seeds: EpisodeSeeds,
    n_episodes: int,
    *,
    deterministic: bool,
    noise: torch.Generator,
    stopped: Callable[[], bool] = lambda: False,
    max_episode_steps: int | None = None,
    watch: Callable[[int], None] = lambda steps: None,
) -> list[Episode]:
    """Play episodes 0 … n_episodes-1 and return them in order.

    Environment i plays episodes i, i + N, i + 2N, …; N counts copies where several agents act in each. The episodes
    that count are fixed before the first step, so short ones are not favoured. With `seeds` of stride N the result of a
    deterministic policy does not depend on N.
    A network acts in evaluation mode; afterwards each of its modules returns to its previous mode.

    Args:
        policy: the policy to evaluate: a network, or a policy plugin that is set up for the environments.
        env: N environments; where they can, they truncate episodes at `max_episode_steps` themselves.
        seeds: seeds of the episodes.
        n_episodes: number of episodes.
        deterministic: most likely actions of a network instead of samples.
        noise: generator for sampling; a policy plugin's generators are seeded by it.
        stopped: called before each step.
        max_episode_steps: an environment that exceeds it is abandoned: its episode is returned unfinished, with the
            wrappers' rewards, and it plays no later episodes.
        watch: called now and then with the number of steps of the longest unfinished episode.

    Raises:
        EvaluationInterrupted: `stopped` returned true.
    """
    agent = _agent(policy, env, deterministic, noise)
    quota = _Quota(copies_of(env), n_episodes, max_episode_steps)
    stepper = Stepper(env, seeds)
    network = None if isinstance(policy, ActingPolicy) else policy
    modes = [] if network is None else [(module, module.training) for module in network.modules()]
    if network is not None:
        network.eval()
    try:
        stepper.begin(allocate(space_specs(env.observation_space, "observation"), (env.num_envs,)))
        with torch.inference_mode():
            while quota.missing:
                if stopped():
                    raise EvaluationInterrupted
                stepper.step(agent, quota)
                if quota.steps % _STEPS_BETWEEN_LOOKS == 0:
                    watch(quota.longest)
                    quota.give_up()
    finally:
        for module, training in modes:
            module.training = training
    return quota.episodes


def _agent(policy: Policy | ActingPolicy, env: VectorEnv, deterministic: bool, noise: torch.Generator) -> Agent:
    if isinstance(policy, ActingPolicy):
        rngs = [np.random.default_rng([noise.initial_seed(), row]) for row in range(env.num_envs)]
        return RuleAgent(policy, rngs, env.action_space)
    return NetworkAgent(policy, None if deterministic else SharedNoise(env.num_envs, noise))


class _Quota:
    """A sink that keeps the requested episodes once they end, and the progress of the others."""

    def __init__(self, num_envs: int, n_episodes: int, max_episode_steps: int | None) -> None:
        self.steps = 0
        self._num_envs, self._limit = num_envs, max_episode_steps
        self._ended: dict[int, Episode] = {}
        self.missing = set(range(n_episodes))
        """Numbers of the requested episodes that have not ended."""
        self._begun = np.zeros(num_envs, np.int64)
        """The step after which each environment's current episode began."""
        self._rewards = np.zeros((_STEPS_BETWEEN_LOOKS, num_envs))
        """Rewards since the last look."""
        self._returns = np.zeros(num_envs)
        """Sum of rewards before it, in each unfinished episode."""

    @property
    def episodes(self) -> list[Episode]:
        """The finished episodes, in order."""
        return [self._ended[number] for number in sorted(self._ended)]

    @property
    def longest(self) -> int:
        """Steps of the longest unfinished episode among those still needed."""
        rows = [number % self._num_envs for number in self.missing]
        return self.steps - int(self._begun[rows].min(initial=self.steps))

    def room(self, obs: Tree) -> Tree:
        return obs

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        reward = result.reward
        if len(reward) != self._num_envs:  # several agents: the mean of their rewards
            reward = reward.reshape(self._num_envs, -1).mean(1)
        self._rewards[self.steps % _STEPS_BETWEEN_LOOKS] = reward  # cheaper than adding them up at each step
        self.steps += 1
        for episode in result.episodes:
            row = episode.env_index
            number = episode.episode_number * self._num_envs + row
            if number in self.missing:
                self.missing.remove(number)
                self._ended[number] = episode
            self._begun[row] = self.steps

    def give_up(self) -> None:
        """Keep unfinished episodes beyond the limit, which a natively vectorised environment may ignore."""
        for row in range(self._num_envs):
            length = self.steps - int(self._begun[row])
            before = max(0, _STEPS_BETWEEN_LOOKS - length)
            self._returns[row] = self._rewards[before:, row].sum() + (0.0 if before else self._returns[row])
            its = sorted(number for number in self.missing if number % self._num_envs == row)
            if self._limit is not None and length > self._limit and its:
                self.missing.difference_update(its)
                number = its[0] // self._num_envs
                self._ended[its[0]] = Episode(row, number, float(self._returns[row]), length)
