"""The base class of RLlib's algorithms: RLlib trains within a run of Maze."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from maze_core.base.errors import ConfigError, RunError
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import EpisodeSeeds, Purpose, integer_seed
from maze_core.data.batch import Batch, Loss
from maze_core.learn.algorithm import Algorithm
from maze_core.plugins.hookspecs import hookimpl
from maze_rllib.config import RLlibConfig
from maze_rllib.session import check_installed

if TYPE_CHECKING:
    from maze_core.learn.optimizers.adam import Optimizer
    from maze_core.models.policy import Policy
    from maze_core.plugins.config.run import AlgorithmConfig, RunConfig
    from maze_core.run.run import Run
    from maze_rllib.env_runner import EnvPlan
    from maze_rllib.own_model import PlainView
    from maze_rllib.trainer import Trainer


class RLlib(Algorithm):
    """An algorithm of RLlib on the run's environments and policy. An update is one training iteration of RLlib.

    Ray is started with the first epoch and stopped when the run is closed.
    """

    Config: ClassVar[type[AlgorithmConfig]] = RLlibConfig
    config: RLlibConfig
    columns: ClassVar[Mapping[str, str]] = {
        "loss/policy": "policy",
        "loss/value": "value",
        "loss/critic": "critic",
        "loss/entropy": "entropy",
        "loss/kl": "kl",
        "loss/entropy_coef": "alpha",
    }
    title: ClassVar[str]
    """The algorithm's name in RLlib."""
    preset: ClassVar[Mapping[str, Any]] = {}
    """Defaults that differ from RLlib's; the user can override them."""
    samples: ClassVar[bool] = True
    """True if it steps environments."""

    def check(self, config: RunConfig) -> None:
        """Refuse runners and models that RLlib does not support. Needs no Ray: a trained policy opens without it."""
        self._trainer: Trainer | None = None
        self._saved: dict[str, Any] | None = None
        if config.runner.name not in ("dev", "local"):
            raise ConfigError(
                f"RLlib runs on the runners dev and local, not on {config.runner.name}",
                "runner.name",
                "Next: --runner local",
            )
        self.check_model(config)

    def check_model(self, config: RunConfig) -> None:
        """Refuse models that do not fit the algorithm."""
        if not self.config.rllib_model and getattr(config.model, "critic", None) == "none":
            raise ConfigError(f"{self.config.name} needs a critic", "model.critic", "Next: --set model.critic=separate")

    def _configured(self, config: RunConfig) -> Any:
        """Return RLlib's configuration without the environment and the networks."""
        from maze_rllib.settings import apply, check_model_config

        module = import_module(f"ray.rllib.algorithms.{self.title.lower()}")
        rllib = getattr(module, f"{self.title}Config")()
        settings = {**self.preset, **self.config.settings()}
        apply(rllib, settings)
        model_config = settings.get("model_config")
        if isinstance(model_config, dict):
            if not self.config.rllib_model:
                raise ConfigError("is for RLlib's own network", "algorithm.rllib.model_config", "Add --rllib-model")
            check_model_config(model_config)
        rllib.env_runners(num_env_runners=_workers(config) if self.samples else 0)
        rllib.learners(num_learners=0, num_gpus_per_learner=0)
        rllib.fault_tolerance(restart_failed_env_runners=False, ignore_env_runner_failures=False)
        seed = integer_seed(config.seed or 0, Purpose.POLICY_NOISE) % 2**31
        # A thread measures the machine's load, which nothing reads; it would hold up the end of each run.
        rllib.debugging(seed=seed, log_level="CRITICAL", log_sys_usage=False)
        return rllib

    def setup(self, run: Run) -> None:
        """Check the parameters and fit them to the run's spaces and policy. Imports RLlib; nothing is started yet."""
        check_installed()
        from maze_rllib.own_model import PlainView
        from maze_rllib.settings import blamed
        from maze_rllib.vector_env import TreeVectorEnv, shown_spaces

        self._run = run
        with blamed(self.config.rllib):
            self._rllib = self._configured(run.config)
        view = PlainView(run.observation_space, run.action_space) if self.config.rllib_model else None
        observation_space, action_space = shown_spaces(run.observation_space, run.action_space, view)
        self._rllib.environment(
            env=TreeVectorEnv if self.samples else None,
            observation_space=observation_space,
            action_space=action_space,
            normalize_actions=False,
            clip_actions=False,
        )
        if view is not None:
            hint = "Next: --no-rllib-model; or describe a network that fits by algorithm.rllib.model_config"
            with blamed(self.config.rllib, "algorithm.rllib_model", hint):
                run.policy = self._rllib_policy(view)  # the run evaluates and saves what learns
        else:
            _check_normalizer(run.policy)
            self._rllib.rl_module(rl_module_spec=self.module_spec(run.policy))

    @hookimpl
    def build_policy(self, observation_space: Any, action_space: Any, config: Any) -> Any:
        """Return a placeholder where RLlib's own network learns; None elsewhere: then the run's model is built."""
        if not self.config.rllib_model:
            return None
        from maze_rllib.placeholder import Placeholder

        return Placeholder(observation_space, action_space)

    def _rllib_policy(self, view: PlainView) -> Any:
        """Return RLlib's default network as a policy for evaluation."""
        from maze_rllib.own_model import RLlibPolicy

        warnings.warn(
            "this run learns with RLlib's own network: maze eval, maze rollout and --init-from cannot open it",
            RuntimeWarning,
            stacklevel=2,
        )
        run, rllib = self._run, self._rllib
        spec = rllib.get_rl_module_spec(
            spaces={"default_policy": (rllib.observation_space, rllib.action_space)}, inference_only=True
        )
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT)):
            module = spec.build()
        return RLlibPolicy(module, view, run.observation_space, run.action_space).to(run.device).eval()

    def module_spec(self, policy: Policy) -> Any:
        """Return the specification by which RLlib builds the module around the policy."""
        from ray.rllib.core.rl_module.rl_module import RLModuleSpec

        from maze_rllib.modules import ActorCriticModule

        return RLModuleSpec(module_class=ActorCriticModule, model_config={"policy": policy})

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return a placeholder: RLlib has its own optimizers."""
        return _NoOptimizer()

    def _opened(self) -> Trainer:
        if self._trainer is None:
            from maze_rllib.env_runner import PLAN, EnvRunner
            from maze_rllib.trainer import Trainer

            if self.samples:
                self._rllib.environment(env_config={PLAN: self._plan()})
                self._rllib.env_runners(env_runner_cls=EnvRunner)
            self._trainer = Trainer(self._rllib, self.config.watchdog_seconds, self._run.env_steps)
            if self._saved is not None:
                self._trainer.load_state(self._saved)
            elif not self.config.rllib_model:
                self._trainer.load_policy(self._run.policy.state_dict())
        return self._trainer

    def _plan(self) -> EnvPlan:
        from maze_rllib.env_runner import EnvPlan

        run = self._run
        # A resumed run plays different episodes.
        seeds = EpisodeSeeds(run.seed, Purpose.TRAIN_EPISODES, (run.updates,) if run.updates else ())
        builder = run.env_builder("training")
        return EnvPlan(builder, self.config.num_envs_per_env_runner, seeds, self.config.rllib_model)

    def batches(self) -> Iterator[Batch]:
        """Let RLlib train for one iteration and copy its weights into the policy; yield nothing."""
        from maze_rllib.settings import blamed

        run = self._run
        with blamed(self.config.rllib):
            trainer = self._opened()
            iteration = trainer.iterate(lambda: run.interrupted)
        run.count_env_steps(iteration.env_steps)
        run.statistics.add(iteration.episodes)
        run.record(iteration.metrics)
        if self.config.rllib_model:
            policy: Any = run.policy
            policy.load(trainer.module())
        else:
            run.policy.load_state_dict(trainer.policy())
        yield from ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Not used: RLlib has its own losses."""
        raise RunError("RLlib computes its losses itself")

    def state(self) -> dict[str, Any]:
        """Return RLlib's networks, optimizers and adapted values; empty before the first epoch."""
        return {"rllib": self._saved if self._trainer is None else self._trainer.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()` when RLlib starts."""
        self._saved = state["rllib"]

    def close(self) -> None:
        """End RLlib's workers, and Ray if it was started here."""
        trainer, self._trainer = getattr(self, "_trainer", None), None
        if trainer is not None:
            trainer.close()


class _NoOptimizer:
    """Placeholder for the learner's optimizer."""

    def __init__(self) -> None:
        self.param_groups: list[dict[str, Any]] = []

    def step(self) -> None:
        """Do nothing."""

    def state_dict(self) -> dict[str, Any]:
        """Do nothing."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Do nothing."""


def _check_normalizer(policy: Policy) -> None:
    normalizer = getattr(policy, "normalizer", None)
    if normalizer is not None and getattr(normalizer, "running", True):
        raise ConfigError(
            "RLlib does not update the statistics of an observation normaliser",
            "model.normalize_observations",
            "Scale observations with a wrapper, or use one of Maze's own algorithms.",
        )


def _workers(config: RunConfig) -> int:
    """Return the number of processes that step environments: 0 on `dev`."""
    if config.runner.name == "dev":
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return getattr(config.runner, "workers", None) or max(cores - 1, 1)
