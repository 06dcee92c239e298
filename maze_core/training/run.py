"""A run: its parts, its counters, and the services it offers to algorithms and observers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from maze_core.envs.builder import EnvBuilder
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.time_limits import missing_time_limit
from maze_core.errors import ConfigError, RunError
from maze_core.models.normalizer import ObservationNormalizer
from maze_core.plugins import discovery
from maze_core.plugins.manager import Hooks, to_stderr
from maze_core.training.checkpoint import Checkpoint, check_finite, write_checkpoint
from maze_core.training.endless import EndlessEpisodes
from maze_core.training.estimation import estimate_statistics
from maze_core.training.evaluation import EvaluationInterrupted, evaluate_policy
from maze_core.training.growing import GrowingFile
from maze_core.training.learner import Learner
from maze_core.training.manifest import CHECKPOINTS
from maze_core.training.metrics_file import METRICS_FILE
from maze_core.training.process_state import isolated_rng, torch_threads
from maze_core.training.report import EpochReport
from maze_core.training.seeding import EpisodeSeeds, Purpose, integer_seed
from maze_core.training.statistics import EpochStatistics, summarize

if TYPE_CHECKING:
    from maze_core.config.base import PluginConfig
    from maze_core.config.run import RunConfig
    from maze_core.envs.vector import VectorEnv
    from maze_core.models.policy import Policy
    from maze_core.plugins.discovery import Loader
    from maze_core.runners.workers import Task, WorkerPool
    from maze_core.training.algorithm import Algorithm
    from maze_core.training.report import RunSummary

FINAL_EVALUATION = 0
"""Number of the final evaluation; the evaluation of an epoch has the epoch's number, from 1."""

_SETUP = 1
# Separates the random numbers of the algorithm's setup from those of training.


@dataclass(slots=True)
class Progress:
    """Live counters for displays; only training writes them."""

    env_steps: int = 0
    updates_in_epoch: int = 0
    updates: int = 0
    phase: Literal["training", "evaluating"] = "training"


class Run:
    """A run with all its parts. `maze_core.training.api` builds it; algorithms and observers receive it."""

    def __init__(
        self,
        config: RunConfig,
        *,
        load: Loader = discovery.load,
        warn: Callable[[str], None] | None = None,
        preset: str | None = None,
    ) -> None:
        if config.seed is None:
            raise ValueError("a run needs a drawn seed")
        self.config = config
        self.seed: int = config.seed
        self.preset = preset
        self.init_from: Path | None = None
        """The run directory from which the policy's initial parameters were loaded."""
        self.run_dir: Path | None = None
        self.resumed = False
        self.versions: dict[str, str] = {}
        self.parameter_counts: dict[str, int] = {}
        self.epoch = 0
        self.updates_in_epoch = 0
        self.epoch_trained = False
        """True when only this epoch's evaluation remains."""
        self.env_steps = 0
        self.best_score: float | None = None
        self.best_epoch: int | None = None
        """The last epoch whose evaluation reached `best_score`: the checkpoint `best` is the newest of equals."""
        self.improved_epoch: int | None = None
        """The first epoch whose evaluation reached `best_score`: a tie is no improvement."""
        self.saved_epoch: int | None = None
        """Epoch of the checkpoint `last`; None before there is one."""
        self.progress = Progress()
        self.statistics = EpochStatistics()
        self.notes: list[str] = []
        """Notes for the user before the run begins, one or two sentences each."""
        self.stop_reason: str | None = None
        self.stop_pending: str | None = None
        """Why the run had stopped at the checkpoint it was resumed from; training then ends at once for this reason."""
        self.summary: RunSummary | None = None
        """How training ended, once it has."""
        self.until_epoch: int | None = config.algorithm.n_epochs or None
        self.patience: int = config.algorithm.patience
        """Epochs without improvement before training stops; 0: it never stops for this."""
        self.interrupted = False
        self.torch_rng = torch.Generator().manual_seed(integer_seed(config.seed, Purpose.GLOBAL)).get_state()
        self._seconds_before = 0.0
        self._started_at: float | None = None
        self._load = load
        self._training_env: VectorEnv | None = None
        self._pools: list[WorkerPool] = []
        self._closed = False
        self._metrics: GrowingFile | None = None
        self._endless = EndlessEpisodes(config.evaluation.max_episode_steps, warn or to_stderr)
        self.hooks = Hooks.for_run(config, warn, load)
        self.algorithm: Algorithm = self.hooks.plugin("algorithm")
        self.algorithm.check(config)
        self.device = _device(config.algorithm.device)
        self._runner = load("runner", config.runner.name)(config.runner)
        self._evaluation_env = self._vector_env(self._evaluation_concurrency(), "evaluation")
        self.observation_space = self._evaluation_env.observation_space
        self.action_space = self._evaluation_env.action_space

    # Building

    def build(self) -> None:
        """Build policy, algorithm and optimizer. Then the run can train or load a checkpoint."""
        self.algorithm.check_action_space(self.action_space)
        self.build_policy()
        note = missing_time_limit(self.config.env, lambda: self.env_builder("looking")(0))
        self.notes = [note] if note else []
        # Algorithms call the policy during setup, and a network may draw random numbers itself.
        with isolated_rng(integer_seed(self.seed, Purpose.GLOBAL, _SETUP)):
            self.algorithm.setup(self)
        self.learner = Learner(
            self.policy,
            self.algorithm.modules(),
            self.algorithm.build_optimizer(self.policy),
            self.hooks.compute_loss,
            self.algorithm.max_grad_norm,
            self.after_update,
        )

    def build_policy(self) -> None:
        """Build only the policy, which is enough to evaluate or to act."""
        try:
            with isolated_rng(integer_seed(self.seed, Purpose.MODEL_INIT)):
                policy: Any = self.hooks.build_policy(self.observation_space, self.action_space, self.config.model)
            self.policy: Policy = policy.to(self.device).eval()
        except (MemoryError, RuntimeError) as error:
            if is_about_memory(error):
                raise ConfigError("the networks do not fit into memory", "model", "Make them smaller.") from error
            raise

    def check_first_observations(self) -> None:
        """Reset the evaluation environments once to check their observations; each evaluation resets them again.

        Raises:
            ConfigError: an observation does not fit the declared space.
        """
        env = self._evaluation_env
        seeds = EpisodeSeeds(self.seed, Purpose.EVAL_EPISODES, (FINAL_EVALUATION,), stride=env.num_envs)
        with isolated_rng(integer_seed(self.seed, Purpose.EVAL_NOISE, FINAL_EVALUATION)):
            env.reset(seeds, allocate(space_specs(env.observation_space, "observation"), (env.num_envs,)))

    def estimate_statistics(self) -> None:
        """Estimate the statistics of the policy's observation normaliser, if it asks for that before training."""
        normalizer = getattr(self.policy, "normalizer", None)
        if isinstance(normalizer, ObservationNormalizer):
            estimate_statistics(normalizer, self._evaluation_env, self.seed, self._load)

    def training_env(self, num_envs: int | None = None) -> VectorEnv:
        """Return the training environments, built at the first call and closed with the run.

        `num_envs`: how many, for algorithms whose results depend on it; None: the runner's concurrency.
        """
        if self._training_env is None:
            self._training_env = self._vector_env(num_envs or self._runner.concurrency, "training")
        return self._training_env

    def env_builder(self, purpose: str, env: PluginConfig | None = None) -> EnvBuilder:
        """Return a builder of single environments, the same as in training unless `env` is given.

        Environments of evaluations and rollouts truncate endless episodes.
        """
        limit = self.config.evaluation.max_episode_steps if purpose in ("evaluation", "rollout") else None
        return EnvBuilder(env or self.config.env, self.config.wrappers, self.seed, purpose, self._load, limit)

    def workers(self, task: Task, count: int | None = None) -> WorkerPool:
        """Return workers started by the runner, closed with the run; `count` None: the runner chooses how many."""
        pool: WorkerPool = self._runner.workers(task, count or self._runner.default_workers)
        self._pools.append(pool)
        return pool

    def _vector_env(self, num_envs: int, purpose: str) -> VectorEnv:
        env: VectorEnv = self._runner.vector_env(self.env_builder(purpose), num_envs)
        return env

    def _evaluation_concurrency(self) -> int:
        concurrency = self.config.evaluation.concurrency or self._runner.concurrency
        return max(1, min(concurrency, self.config.evaluation_episodes))

    # Counters

    @property
    def updates(self) -> int:
        """The number of updates since the start of the run."""
        return self.learner.updates

    @property
    def seconds(self) -> float:
        """Seconds of training since the start of the run, summed over resumed parts."""
        running = 0.0 if self._started_at is None else time.perf_counter() - self._started_at
        return self._seconds_before + running

    def start_clock(self) -> None:
        """Start counting seconds."""
        self._started_at = time.perf_counter()

    def stop_clock(self) -> None:
        """Stop counting seconds."""
        self._seconds_before, self._started_at = self.seconds, None

    @property
    def total_env_steps(self) -> int | None:
        """The number of environment steps at which the run ends; None if open."""
        return self.config.steps

    @property
    def total_epochs(self) -> int | None:
        """The number of epochs after which training ends; None if open."""
        return self.until_epoch

    @property
    def epoch_length(self) -> int:
        """The number of updates in one epoch."""
        return self.algorithm.epoch_length

    @property
    def fraction_done(self) -> float:
        """The fraction of the configured run that is done, for schedules; 0 if its end is open."""
        shares = [0.0]
        if self.total_env_steps:
            shares.append(self.env_steps / self.total_env_steps)
        algorithm = self.config.algorithm
        if algorithm.n_epochs:
            shares.append(self.updates / (algorithm.n_epochs * self.epoch_length))
        return min(1.0, max(shares))

    def count_env_steps(self, steps: int) -> None:
        """Add steps taken in training environments to the counters."""
        self.env_steps += steps
        self.progress.env_steps = self.env_steps

    def record(self, metrics: dict[str, float]) -> None:
        """Add values to this epoch's metrics by full name, such as `train/explained_variance`; means are reported."""
        self.statistics.record(metrics)

    # Stopping

    def stop(self, reason: str) -> None:
        """Ask the run to end after this epoch; `reason` is reported."""
        self.stop_reason = self.stop_reason or reason

    def interrupt(self, cause: str) -> None:
        """Ask the run to end after this update, or at once during an evaluation."""
        self.interrupted = True
        self.stop(f"interrupted by {cause}")

    @property
    def steps_done(self) -> bool:
        """True when the configured number of environment steps is reached."""
        return self.total_env_steps is not None and self.env_steps >= self.total_env_steps

    @property
    def finished(self) -> bool:
        """True when the configured number of steps or epochs is done and every epoch is evaluated."""
        epochs_done = self.total_epochs is not None and self.epoch >= self.total_epochs
        return not self.epoch_trained and (self.steps_done or epochs_done)

    def after_update(self) -> bool:
        """Count an update; return True if training continues. The learner calls this after each update."""
        self.updates_in_epoch += 1
        self.progress.updates_in_epoch = self.updates_in_epoch
        self.progress.updates = self.updates
        return not (self.interrupted or self.steps_done)

    # Services

    def evaluate(self, number: int, deterministic: bool | None = None) -> dict[str, float]:
        """Evaluate the policy and return `eval/…` metrics of raw returns; `number` selects the episodes.

        Returns an empty dict if no episodes are configured.

        Raises:
            EvaluationInterrupted: the run was interrupted during the evaluation.
        """
        self.check_open()
        options = self.config.evaluation
        if not self.config.evaluation_episodes:
            return {}
        self.progress.phase = "evaluating"
        self._endless.begin()
        started, before = time.perf_counter(), self.interrupted
        noise = torch.Generator().manual_seed(integer_seed(self.seed, Purpose.EVAL_NOISE, number))
        env, memory = self._evaluation_env, self._evaluation_env.memory()
        # A network may draw random numbers itself; they must not change those of training.
        own = integer_seed(self.seed, Purpose.EVAL_NOISE, number, 1)
        try:
            with isolated_rng(own), torch_threads(self.config.threads):
                episodes = evaluate_policy(
                    self.policy,
                    env,
                    EpisodeSeeds(self.seed, Purpose.EVAL_EPISODES, (number,), stride=env.num_envs),
                    self.config.evaluation_episodes,
                    deterministic=options.deterministic if deterministic is None else deterministic,
                    noise=noise,
                    stopped=lambda: self.interrupted and not before,
                    max_episode_steps=options.max_episode_steps,
                    watch=self._endless.watch,
                )
        except EvaluationInterrupted:
            env.load_memory(memory)  # a resumed run evaluates once more, from the start
            raise
        finally:
            self.progress.phase = "training"
        cut = self._endless.cut(episodes)
        return {**summarize(episodes, "eval"), **cut, "time/evaluation_seconds": time.perf_counter() - started}

    def evaluate_within_epoch(self, metrics: dict[str, float]) -> None:
        """Evaluate within an epoch and tell the observers, which may save the policy; `metrics` are added."""
        epoch = self.epoch + 1
        self.hooks.on_evaluation(self, self.report(epoch, metrics | self.evaluate(epoch)))

    def report(self, epoch: int, metrics: dict[str, float]) -> EpochReport:
        """Return the report of an evaluation, and update the best score."""
        score = self.algorithm.score(metrics)
        is_best = not math.isnan(score) and (self.best_score is None or score > self.best_score)
        ties_best = not is_best and score == self.best_score
        if is_best:
            self.best_score, self.improved_epoch = score, epoch
        if is_best or ties_best:
            self.best_epoch = epoch
        return EpochReport(epoch, self.env_steps, self.updates, self.seconds, metrics, is_best, ties_best)

    def save_checkpoint(self, name: str) -> Path:
        """Write the complete state of the run to `checkpoints/NAME` and tell the observers."""
        folder = self.store(name)
        self.hooks.on_checkpoint(self, folder)
        return folder

    def store(self, name: str) -> Path:
        """Write the complete state of the run to `checkpoints/NAME`."""
        if self.run_dir is None:
            raise RuntimeError("this run has no run directory")
        root = self.run_dir / CHECKPOINTS
        previous = root / "previous" if name == "last" else None
        self._metrics = self._metrics or GrowingFile(self.run_dir / METRICS_FILE)
        extent = self._metrics.extent()
        beside = {} if extent is None else {METRICS_FILE: extent}
        write_checkpoint(root / name, Checkpoint(self.policy.state_dict(), self._state(), beside), previous)
        if name == "last":
            self.saved_epoch = self.epoch
        return root / name

    def _state(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "updates_in_epoch": self.updates_in_epoch,
            "epoch_trained": self.epoch_trained,
            "env_steps": self.env_steps,
            "seconds": self.seconds,
            "best_score": self.best_score,
            "best_epoch": self.best_epoch,
            "improved_epoch": self.improved_epoch,
            "learner": self.learner.state(),
            "statistics": self.statistics.state(),
            "algorithm": self.algorithm.state(),
            "evaluation_memory": self._evaluation_env.memory(),
            "modules": {name: dict(module.state_dict()) for name, module in self.algorithm.modules().items()},
            "torch_rng": torch.get_rng_state(),
            "stop_reason": None if self.interrupted else self.stop_reason,
        }

    def load_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Restore the complete state from a checkpoint. Call it after `build` and before `start_clock`."""
        state = checkpoint.state
        check_finite(self.policy, checkpoint.model, "policy")
        self.policy.load_state_dict(checkpoint.model)
        for name, module in self.algorithm.modules().items():
            check_finite(module, state["modules"][name], name)
            module.load_state_dict(state["modules"][name])
        self.epoch, self.updates_in_epoch = state["epoch"], state["updates_in_epoch"]
        self.epoch_trained = state.get("epoch_trained", False)
        self.env_steps, self._seconds_before = state["env_steps"], state["seconds"]
        self.best_score, self.best_epoch = state["best_score"], state["best_epoch"]
        self.improved_epoch = state.get("improved_epoch", self.best_epoch)  # an older version did not write it
        self.learner.load_state(state["learner"])
        self.statistics.load_state(state["statistics"])
        self.algorithm.load_state(state["algorithm"])
        self._evaluation_env.load_memory(state.get("evaluation_memory", []))
        self.torch_rng = state["torch_rng"]
        self.stop_pending = state.get("stop_reason")
        self.progress.env_steps, self.progress.updates = self.env_steps, self.updates
        self.progress.updates_in_epoch = self.updates_in_epoch
        self.resumed = True

    def check_open(self) -> None:
        """Raise RunError if the run is closed."""
        if self._closed:
            raise RunError("this run is closed")

    def close(self) -> None:
        """Release environments, workers and the algorithm's resources; safe to call twice."""
        self._closed = True
        self.algorithm.close()
        for pool in self._pools:
            pool.close()
        for env in (self._training_env, self._evaluation_env):
            if env is not None:
                env.close()


def is_about_memory(error: Exception) -> bool:
    """True for an error of torch or numpy that means out of memory; torch shows it only in the message."""
    words = ("allocate memory", "out of memory", "overflowed")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("torch finds no CUDA device here", "algorithm.device", "Next: --device cpu, or auto.")
    return torch.device(name)
