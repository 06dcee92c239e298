"""Evaluation: a fixed quota of episodes on environments built exactly like those of training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch
from typing_extensions import TypeIs

from maze_core.collect.agents.network import NetworkAgent, SharedNoise
from maze_core.collect.stepper import Stepper
from maze_core.envs.masks import MaskCheck
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import Episode, Share, copies_of
from maze_core.models.blocks import in_evaluation_mode
from maze_core.plugins.closing import releasing

if TYPE_CHECKING:
    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.base.tree import Tree
    from maze_core.collect.agents.agent import Agent, Choice
    from maze_core.collect.agents.looking_ahead import Planning
    from maze_core.collect.policies.base import ActingPolicy
    from maze_core.envs.vector import StepResult, VectorEnv
    from maze_core.models.policy import Policy

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
    planning: Planning | None = None,
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
        planning: looks ahead with a network, in environments of its own; None: the policy acts alone.

    Raises:
        ConfigError: the environments cannot be copied, so that nobody can look ahead in them.
        EvaluationInterrupted: `stopped` returned true.
    """
    over = False
    with ExitStack() as stack:
        agent = evaluating_agent(policy, env, deterministic, noise)
        if planning is not None and isinstance(agent, NetworkAgent):
            agent = stack.enter_context(releasing(planning.agent(agent, env, seeds)))
        playing = Playing(agent, env, seeds, n_episodes, limit=max_episode_steps, watch=watch)
        stack.enter_context(evaluation_mode(policy))
        while not over:
            if stopped():
                raise EvaluationInterrupted
            over = playing.advance(1)
    return playing.episodes


def _is_plugin(policy: Policy | ActingPolicy) -> TypeIs[ActingPolicy]:
    return hasattr(policy, "blind")  # as all have, and no network; the class is loaded where a run has one alone


@contextmanager
def evaluation_mode(policy: Policy | ActingPolicy) -> Iterator[None]:
    """Let a network act in evaluation mode, without gradients; its modules return to their previous modes."""
    held = nullcontext() if _is_plugin(policy) else in_evaluation_mode(policy)
    with held, torch.inference_mode():
        yield


class Playing:
    """An evaluation that is under way, on all environments or on a share of them.

    Args:
        agent: acts in `env`.
        share: the environments of `env` among those of the evaluation; None: they are all.
        limit: as `max_episode_steps` of `evaluate_policy`, which explains the others.
    """

    def __init__(
        self,
        agent: Agent,
        env: VectorEnv,
        seeds: EpisodeSeeds,
        n_episodes: int,
        *,
        limit: int | None,
        share: Share | None = None,
        watch: Callable[[int], None] = lambda steps: None,
    ) -> None:
        self._agent = agent
        self._quota = _Quota(share or Share(0, copies_of(env), copies_of(env)), n_episodes, limit)
        self._stepper, self._watch = Stepper(env, seeds), watch

    @property
    def longest(self) -> int:
        """Steps of the longest unfinished episode among those still needed."""
        return self._quota.longest

    @property
    def episodes(self) -> list[Episode]:
        """The finished episodes, in order."""
        return self._quota.episodes

    def advance(self, steps: int) -> bool:
        """Step the environments up to `steps` times, in `evaluation_mode`; return True once all episodes have ended."""
        stepper, quota = self._stepper, self._quota
        if not stepper.started:
            env = stepper.env
            stepper.reset(allocate(space_specs(env.observation_space, "observation"), (env.num_envs,)))
        for _ in range(steps):
            if not quota.missing:
                break
            stepper.step(self._agent, quota)
            if quota.steps % _STEPS_BETWEEN_LOOKS == 0:
                self._watch(quota.longest)
                quota.give_up()
        return not quota.missing


def evaluating_agent(
    policy: Policy | ActingPolicy,
    env: VectorEnv,
    deterministic: bool,
    noise: torch.Generator,
    share: Share | None = None,
) -> Agent:
    """Return the agent of a policy in the environments of an evaluation, or in a share of them."""
    if _is_plugin(policy):
        from maze_core.collect.agents.rule import RuleAgent

        rngs = [np.random.default_rng([noise.initial_seed(), row]) for row in range(env.num_envs)]
        return RuleAgent(policy, rngs, env.action_space)
    rows = env.num_envs if share is None else share.total
    masks = MaskCheck(env.observation_space, env.action_space)
    network = NetworkAgent(policy, None if deterministic else SharedNoise(rows, noise), masks=masks)
    if share is None:
        return network
    from maze_core.collect.agents.worker_agent import WorkerAgent

    return WorkerAgent(network, share)


class _Quota:
    """A sink that keeps the requested episodes once they end, and the progress of the others."""

    def __init__(self, share: Share, n_episodes: int, max_episode_steps: int | None) -> None:
        self.steps = 0
        num_envs, self._num_envs, self._limit = share.count, share.count, max_episode_steps
        self._first, self._total = share.first, share.total
        self._ended: dict[int, Episode] = {}
        self.missing = {number for number in range(n_episodes) if 0 <= self._row(number) < share.count}
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
        rows = [self._row(number) for number in self.missing]
        return self.steps - int(self._begun[rows].min(initial=self.steps))

    def next_buffer(self, obs: Tree) -> Tree:
        return obs

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        reward = result.reward
        if len(reward) != self._num_envs:  # several agents: the mean of their rewards
            reward = reward.reshape(self._num_envs, -1).mean(1)
        self._rewards[self.steps % _STEPS_BETWEEN_LOOKS] = reward  # cheaper than adding them up at each step
        self.steps += 1
        for episode in result.episodes:
            row = episode.env_index - self._first
            number = episode.episode_number * self._total + episode.env_index
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
            its = sorted(number for number in self.missing if self._row(number) == row)
            if self._limit is not None and length > self._limit and its:
                self.missing.difference_update(its)
                number = its[0] // self._total
                self._ended[its[0]] = Episode(self._first + row, number, float(self._returns[row]), length)

    def _row(self, number: int) -> int:
        """Return the row of an episode among those of the share."""
        return number % self._total - self._first
