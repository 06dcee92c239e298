"""A run: its parts, and the services it offers to algorithms and observers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.free_ram import is_about_memory
from maze_core.base.metrics import VIOLATION, ClosedDict
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import Purpose, integer_seed, torch_generator
from maze_core.base.tolerant_output import to_stderr
from maze_core.envs.wrappers import fits, frozen, training_memory
from maze_core.learn import answers
from maze_core.learn.checks import check_run
from maze_core.learn.taken_over import check_installed, check_learners, planning_of
from maze_core.models.blocks import for_evaluation
from maze_core.models.building import build_policy
from maze_core.plugins.closing import release
from maze_core.plugins.manager import Hooks
from maze_core.run.environments import RunEnvironments
from maze_core.run.episodes.run_evaluation import RunEvaluation
from maze_core.run.progress import RunProgress, whole
from maze_core.run.report import EpochReport
from maze_core.run.saving import Saving

if TYPE_CHECKING:
    import gymnasium
    from torch import nn

    from maze_core.base.seeding import EpisodeSeeds
    from maze_core.collect.agents.agent import Agent
    from maze_core.collect.agents.looking_ahead import Planning, RunPlanning
    from maze_core.collect.agents.network import NetworkAgent
    from maze_core.collect.policies.base import ActingPolicy
    from maze_core.collect.pools.workers import Task, WorkerPool
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.vector import VectorEnv
    from maze_core.envs.wrappers import Memory
    from maze_core.learn.algorithm import Algorithm
    from maze_core.learn.learner import Learner
    from maze_core.learn.taken_over import FurtherLearners, RepeatedSteps, SideLearners
    from maze_core.models.policy import Policy
    from maze_core.plugins.config.base import PluginConfig
    from maze_core.plugins.config.run import RunConfig
    from maze_core.run.report import RunSummary


class Run(RunProgress):
    """A run with all its parts. `maze_core.run.api` builds it; algorithms and observers receive it.

    `to_act`: the run may never train, so its environments are built only when it evaluates.
    Counters, clock and end are those of `RunProgress`.
    Its attributes, besides those below: `config`, `seed`, `algorithm`, `device`, `observation_space` and
    `action_space` (of a single environment), `hooks`, `statistics`, `interrupted`.
    """

    policy: Policy
    """What learns and acts."""
    learner: Learner
    """Takes the gradient steps."""
    side_learners: SideLearners
    """Train the networks of plugins that learn beside the policy."""
    repeated: RepeatedSteps | None = None
    """Takes the learner's steps as they were recorded or compiled; None: all are taken as usual."""
    others: FurtherLearners | None = None
    """The further learners; None: there is one."""
    run_dir: Path | None = None
    """None while there is no directory."""
    init_from: Path | None = None
    """The run directory from which the policy's initial parameters were loaded."""
    checkpoint: str | None = None
    """The checkpoint from which the policy was read, to evaluate or to act; None: it is that of training."""
    forked_from: Path | None = None
    """The run whose state this one has just begun with."""
    resumed: bool = False
    """True once it has gone on from a checkpoint."""
    explores: bool = False
    """True if training acts with `Exploration` rather than with samples of the policy; collectors set it."""
    summary: RunSummary | None = None
    """How training ended, once it has."""

    def __init__(
        self,
        config: RunConfig,
        *,
        warn: Callable[[str], None] | None = None,
        preset: str | None = None,
        to_act: bool = False,
    ) -> None:
        if config.seed is None:
            raise ValueError("a run needs a drawn seed")
        super().__init__(config)
        self.seed: int = config.seed
        self.preset, self.to_act = preset, to_act
        self.histograms: dict[str, Any] = {}
        """Histograms for the next report, by metric name; callbacks and algorithms may add some, until `on_metrics`."""
        self.figures: dict[str, Any] = {}
        """Pictures for the next report, by name, as `EpochReport.figures` describes them; likewise."""
        self.versions: dict[str, str] = {}
        self.parameter_counts: dict[str, int] = {}
        self.notes: list[str] = []
        """Notes for the user before the run begins, one or two sentences each."""
        self.plugin_modules: dict[str, nn.Module] = {}
        """The networks of plugins, by `PLUGIN.NAME`."""
        self.saving = Saving(self)
        """Writes and restores checkpoints."""
        self._closed = False
        self._say = warn or to_stderr
        self._recalled: list[Memory] = []
        self.hooks = Hooks.for_run(config, warn)
        self.algorithm: Algorithm = self.hooks.plugin("algorithm")
        check_run(self.algorithm, config)
        check_learners(self.hooks, config.learners)
        if not to_act:
            check_installed(config.learners)
        self.device = _device(config.algorithm.device)
        self.torch_rng = torch_generator(config.seed, Purpose.GLOBAL).get_state()
        on_gpu = self.device.type == "cuda"
        self.cuda_rng = torch_generator(config.seed, Purpose.GLOBAL, device=self.device).get_state() if on_gpu else None
        """Of the GPU's global generator; None on a CPU."""
        self.planners: RunPlanning | None = planning_of(self)
        """Looks ahead where the policy acts; None: the policy acts alone."""
        self.environments = RunEnvironments(config, vectorised=self.planners is None)
        """The environments and workers of the run."""
        if not to_act:
            _ = self.evaluation
        self.observation_space = self.environments.kind.observation_space
        self.action_space = self.environments.kind.action_space

    @cached_property
    def evaluation(self) -> RunEvaluation:
        """What evaluates the run's policy; the environments of evaluations are built with it."""
        return RunEvaluation(self.config, self.seed, self.environments.evaluation, self._say)

    # Building

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The networks besides the policy, by name: the algorithm's, and those of plugins as `PLUGIN.NAME`."""
        return {**self.algorithm.modules(), **self.plugin_modules}

    def build_policy(self) -> None:
        """Build only the policy, which is enough to evaluate or to act."""
        try:
            with isolated_rng(integer_seed(self.seed, Purpose.MODEL_INIT)):
                policy = build_policy(
                    self.hooks.build_policy, self.observation_space, self.action_space, self.config.model
                )
            self.policy = for_evaluation(policy.to(self.device))
        except (MemoryError, RuntimeError) as error:
            if is_about_memory(error):
                raise ConfigError("the networks do not fit into memory", "model", "Use smaller networks.") from error
            raise

    @property
    def epoch_length(self) -> int:
        """The number of updates in one epoch."""
        return self.algorithm.epoch_length

    def training_env(self, num_envs: int) -> VectorEnv:
        """Return the `num_envs` training environments, built at the first call and closed with the run."""
        return self.environments.training(whole(num_envs, 1, "num_envs of training_env"))

    def rows_of(self, num_envs: int) -> int:
        """Return the number of rows of so many training environments: one for each agent where several act."""
        return num_envs * max(1, len(self.environments.kind.agents))

    def spare_env(self) -> gymnasium.Env[Any, Any]:
        """Return one more environment like those of training, in this process; it is closed with the run."""
        return self.environments.spare()

    def env_builder(self, purpose: str, env: PluginConfig | None = None) -> EnvBuilder:
        """Return a builder of single environments, the same as in training unless `env` is given.

        Environments of evaluations and rollouts truncate endless episodes.
        """
        return self.environments.builder(purpose, env)

    def planning(self, purpose: str) -> Planning | None:
        """Return what looks ahead where the policy acts for a purpose, `training`, `evaluation`, `rollout` or `acting`.

        None: no plugin of the run does. The planner is that of the run's own plugin, so that it may work with its other
        hooks. Errors as for `Hooks.build_planner`.
        """
        return None if self.planners is None else self.planners.planning(purpose)

    def planning_agent(self, network: NetworkAgent, env: VectorEnv, seeds: EpisodeSeeds) -> Agent | None:
        """Return an agent that looks ahead in the training environments, closed with the run; None: no plugin does.

        A collector of one's own lets it act, and saves its state beside that of the `Stepper`.

        Raises:
            ConfigError: the environments cannot be copied.
        """
        return None if self.planners is None else self.planners.agent(network, env, seeds)

    def workers(self, task: Task, count: int | None = None) -> WorkerPool:
        """Return workers started by the runner, closed with the run; `count` None: the runner chooses how many."""
        return self.environments.workers(task, count)

    # Evaluation

    def evaluate(
        self,
        number: int,
        *,
        deterministic: bool | None = None,
        policy: ActingPolicy | None = None,
        look_ahead: bool = True,
        episodes: int | None = None,
    ) -> dict[str, float]:
        """Evaluate the policy and return `eval/…` metrics of raw returns; `number` selects the episodes.

        `policy` acts instead of the run's network, and without the run's planner; `look_ahead` False: the network acts
        alone. `episodes` None: as many as are configured; where that is none, an empty dict is returned.

        Raises:
            EvaluationInterrupted: the run was interrupted during the evaluation.
        """
        self.check_open()
        if not (self.config.evaluation_episodes if episodes is None else episodes):
            return {}
        before, memory = self.interrupted, self._trained_memory()
        if not memory and not self.to_act and (note := self.environments.unshared()) is not None:
            self.evaluation.tell_once(note)
        self.progress.phase = "evaluating"
        try:
            metrics = self.evaluation.evaluate(
                self.policy if policy is None else policy,
                number,
                deterministic,
                lambda: self.terminated or (self.interrupted and not before),
                self.planning("evaluation") if look_ahead and policy is None else None,
                memory,
                episodes,
            )
            self.histograms = type(self.histograms)({**self.histograms, **self.evaluation.histograms})
            return metrics
        finally:
            self.progress.phase = "training"

    def wrapper_memory(self) -> list[Memory]:
        """Return what wrappers remember before an evaluation, in turn; empty: they remember nothing.

        It is what those of training do, with running statistics that no longer change where wrappers can do that. In a
        run without training environments of its own: what earlier evaluations left.
        """
        return self._trained_memory() or self.environments.evaluation.memory()

    def _trained_memory(self) -> list[Memory]:
        """Return what the wrappers of training remember; empty: nothing, or nobody here knows."""
        if self.to_act or not any(self.environments.kind.memory):
            return self._recalled
        return frozen(self.environments.training_memory() or training_memory(self.algorithm.state()))

    def recall_wrappers(self, saved: dict[str, Any]) -> None:
        """Let the wrappers of the evaluation environments remember what a checkpoint says, to evaluate or to act."""
        memory, current = saved["evaluation_memory"], self.environments.kind.memory
        if (note := self.environments.forgotten()) is not None:
            to_stderr(f"note: {note}")
        if not current:
            return
        if fits(memory, current):
            self._recalled = memory
        else:
            to_stderr("note: the wrappers are not those of the saved run, so they begin without its statistics")

    def evaluate_within_epoch(self, metrics: dict[str, float]) -> None:
        """Evaluate within an epoch and tell the observers, which may save the policy; `metrics` are added."""
        epoch = self.epoch + 1
        self.hooks.on_evaluation(self, self.report(epoch, metrics | self.evaluate(epoch)))

    def report(self, epoch: int, metrics: dict[str, float]) -> EpochReport:
        """Return the report of an evaluation, and update the best score."""
        first = self.state.best_score is None
        score = answers.score(self.algorithm, metrics, self.config.score, first=first)
        is_best, ties_best = self.state.rank(score, epoch, metrics.get(VIOLATION, 0.0))
        histograms, self.histograms = self.histograms, {}
        figures, self.figures = self.figures, {}
        counts = epoch, self.env_steps, self.updates, self.seconds
        drawn = ClosedDict(histograms), ClosedDict(figures)
        return EpochReport(*counts, ClosedDict(metrics), is_best, ties_best, *drawn)

    def take_values(self, *, taken: bool) -> None:
        """Take values for the next report, or refuse them: no report follows, or it is that of another epoch."""
        kind: Any = dict if taken else ClosedDict
        if type(self.histograms) is not kind:
            self.histograms, self.figures = kind(self.histograms), kind(self.figures)
        self.statistics.closed = not taken

    # Saving

    def save_checkpoint(self, name: str) -> Path:
        """Write the complete state of the run to `checkpoints/NAME` and tell the observers."""
        folder = self.saving.store(name)
        self.hooks.on_checkpoint(self, folder)
        if name == "last":  # until then rows may be needed that only a kept state refers to
            self.algorithm.prune()
        return folder

    def save_last(self) -> None:
        """Write the checkpoint `last`, if the run has a directory."""
        if self.run_dir is not None:
            self.save_checkpoint("last")

    def keep_state(self) -> None:
        """Keep a copy of the complete state in memory if it is worth its time. Call it between updates."""
        self.saving.keep()

    # Closing

    def check_open(self) -> None:
        """Raise RunError if the run is closed."""
        if self._closed:
            raise RunError("this run is closed")

    def check_whole(self) -> None:
        """Raise RunError if the run cannot train: it is closed, or an update was given up."""
        self.check_open()
        if self.saving.torn:
            next_step = f"resume it from {self.run_dir}"
            raise RunError(f"this run was interrupted in the middle of an update\nNext: {next_step}")

    def close(self) -> None:
        """Release environments, workers and the algorithm's resources; safe to call twice."""
        self._closed = True
        release(self.repeated, self.others, self.algorithm, self.planners, self.environments)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("torch finds no CUDA device here", "algorithm.device", "Next: --device cpu, or auto.")
    return torch.device(name)
