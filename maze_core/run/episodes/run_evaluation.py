"""The evaluations of a run: how many episodes, from which seeds, what is reported of them, and what of endless ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from maze_core.base.foreign_settings import settings_kept
from maze_core.base.process_state import isolated_rng, torch_threads
from maze_core.base.seeding import EpisodeSeeds, Purpose, integer_seed
from maze_core.base.terminal_text import counted
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import Episode, copies_of
from maze_core.envs.wrappers import cycled
from maze_core.run.episodes.evaluation import EvaluationInterrupted, evaluate_policy
from maze_core.run.episodes.statistics import by_parameters, event_histograms, summarize

if TYPE_CHECKING:
    from maze_core.base.tree import Tree
    from maze_core.collect.agents.looking_ahead import Planning
    from maze_core.collect.policies.base import ActingPolicy
    from maze_core.envs.vector import Episode, VectorEnv
    from maze_core.envs.wrappers import Memory
    from maze_core.models.policy import Policy
    from maze_core.plugins.config.run import RunConfig


FINAL_EVALUATION = 0
"""Number of the final evaluation; the evaluation of an epoch has the epoch's number, from 1."""


class RunEvaluation:
    """Evaluates policies in the evaluation environments of a run. The random numbers of training stay untouched."""

    def __init__(self, config: RunConfig, seed: int, env: VectorEnv, warn: Callable[[str], None]) -> None:
        self._config, self._seed, self._env, self._warn = config, seed, env, warn
        self._told: set[str] = set()
        self._endless = EndlessEpisodes(config.evaluation.max_episode_steps, warn)
        self.histograms: dict[str, Any] = {}
        """Those of the last evaluation's events, by metric name."""

    def tell_once(self, message: str) -> None:
        """Tell the user something that concerns all evaluations."""
        if message not in self._told:
            self._told.add(message)
            self._warn(message)

    def check_first_observations(self) -> Tree:
        """Reset the environments once, and return what they show; each evaluation resets them again.

        Raises:
            ConfigError: an observation does not fit the declared space.
        """
        env = self._env
        with settings_kept(), isolated_rng(integer_seed(self._seed, Purpose.EVAL_NOISE, FINAL_EVALUATION)):
            seeds = self._episode_seeds(FINAL_EVALUATION)
            first = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
            env.reset(seeds, first)
        return first

    def evaluate(
        self,
        policy: Policy | ActingPolicy,
        number: int,
        deterministic: bool | None,
        stopped: Callable[[], bool],
        planning: Planning | None = None,
        memory: Sequence[Memory] = (),
        n_episodes: int | None = None,
    ) -> dict[str, float]:
        """Return `eval/…` metrics of raw returns; `number` selects the episodes.

        `deterministic` None: as configured. `stopped` is called before each step, or about every second of workers
        that play on their own. `planning`: looks ahead with a network. `memory`: what wrappers remember before it, in
        turn; empty: what earlier evaluations left.

        An evaluation with a `memory`, and the final one, which may be repeated, leave no trace in the wrappers.

        Raises:
            EvaluationInterrupted: `stopped` returned True. The environments are as before the evaluation.
        """
        started, before = time.perf_counter(), self._env.memory()
        self._endless.begin()
        # A network may draw random numbers itself; they must not change those of training.
        own = integer_seed(self._seed, Purpose.EVAL_NOISE, number, 1)
        try:
            with isolated_rng(own), torch_threads(self._config.threads):
                given = cycled(memory, range(copies_of(self._env)))
                episodes = self._play(policy, number, deterministic, stopped, planning, given, n_episodes)
        except EvaluationInterrupted:
            self._env.load_memory(before)  # a resumed run evaluates once more, from the start
            raise
        if memory or number == FINAL_EVALUATION:
            self._env.load_memory(before)
        cut = self._endless.cut(episodes)
        self.histograms = event_histograms(episodes, "eval")
        metrics = {**summarize(episodes, "eval"), **by_parameters(episodes, "eval"), **cut}
        return {**metrics, "time/evaluation_seconds": time.perf_counter() - started}

    def _play(
        self,
        policy: Policy | ActingPolicy,
        number: int,
        deterministic: bool | None,
        stopped: Callable[[], bool],
        planning: Planning | None,
        memory: list[Memory],
        n_episodes: int | None,
    ) -> list[Episode]:
        """Return the episodes, played by the workers where there are some that can."""
        options, seeds = self._config.evaluation, self._episode_seeds(number)
        noise = integer_seed(self._seed, Purpose.EVAL_NOISE, number)
        n_episodes = self._config.evaluation_episodes if n_episodes is None else n_episodes
        deterministic = options.deterministic if deterministic is None else deterministic

        def look(steps: int) -> None:
            if stopped():
                raise EvaluationInterrupted
            self._endless.watch(steps)

        episodes: list[Episode] | None = None
        evaluate = getattr(self._env, "evaluate", None)
        if evaluate is not None and planning is None:  # its twins of the environments are here
            episodes = evaluate(
                policy,
                look,
                seeds=seeds,
                n_episodes=n_episodes,
                deterministic=deterministic,
                noise=noise,
                limit=options.max_episode_steps,
                memory=memory,
            )
        if episodes is not None:
            return episodes
        if memory:
            self._env.load_memory(memory)
        return evaluate_policy(
            policy,
            self._env,
            seeds,
            n_episodes,
            deterministic=deterministic,
            noise=torch.Generator().manual_seed(noise),
            stopped=stopped,
            max_episode_steps=options.max_episode_steps,
            watch=self._endless.watch,
            planning=planning,
        )

    def _episode_seeds(self, number: int) -> EpisodeSeeds:
        return EpisodeSeeds(self._seed, Purpose.EVAL_EPISODES, (number,), stride=copies_of(self._env))


_SECONDS = 20.0
"""Report only evaluations that take longer than this …"""
_STEPS = 10_000
"""… with an episode of more steps than this."""
WAY_OUT = "To set a time limit: --set env.max_episode_steps=…, or the wrapper time_limit"


class EndlessEpisodes:
    """Reports, once each, that an endless episode slows an evaluation, and that episodes were cut."""

    def __init__(self, limit: int | None, warn: Callable[[str], None]) -> None:
        self._limit, self._warn = limit, warn
        self._reported: set[str] = set()
        self._began = 0.0

    def begin(self) -> None:
        """Start the clock of an evaluation."""
        self._began = time.monotonic()

    def watch(self, steps: int) -> None:
        """Warn if the evaluation is slow; `steps`: length of the longest unfinished episode."""
        if steps < _STEPS or time.monotonic() - self._began < _SECONDS:
            return
        end = "there is no limit" if self._limit is None else f"it will be cut at step {self._limit:,}"
        self._report("long", f"an evaluation episode is at step {steps:,} and has not ended; {end}")

    def cut(self, episodes: Sequence[Episode]) -> dict[str, float]:
        """Return the number of episodes cut at the limit as metric `eval/episodes_cut`; empty if there are none."""
        count = episodes_cut(episodes, self._limit)
        if count:
            self._report("cut", cut_message(count, len(episodes), self._limit))
        return {"eval/episodes_cut": float(count)} if count else {}

    def _report(self, what: str, message: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            self._warn(f"note: {message}. {WAY_OUT}.")


def episodes_cut(episodes: Sequence[Episode], limit: int | None) -> int:
    """Return how many of the episodes reached the limit."""
    return 0 if limit is None else sum(episode.length >= limit for episode in episodes)


def cut_message(count: int, total: int, limit: int | None) -> str:
    """Return the message about episodes that were cut."""
    return (
        f"{count} of {counted(total, 'episode')} cut at step {limit or 0:,} (evaluation.max_episode_steps) and counted"
        " with the return so far"
    )
