"""RLlib's algorithms: RLlib trains within a run of Maze."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from maze_recordings.loader import load_trajectories
from maze_recordings.obeyed_masks import check_masks
from maze_recordings.progress import progress_bar

from maze_core import (
    Algorithm,
    AlgorithmConfig,
    Batch,
    ConfigError,
    EpisodeSeeds,
    Loss,
    Purpose,
    RunError,
    hookimpl,
    remembers,
)
from maze_core.base.errors import combined
from maze_core.base.saved_state import refused
from maze_core.base.seeding import integer_seed
from maze_rllib.config import RLlibConfig
from maze_rllib.families import Family, family
from maze_rllib.offered import CLUSTER, WORKERS, other_version
from maze_rllib.session import check_installed

if TYPE_CHECKING:
    from maze_core import Optimizer, PluginConfig, Policy, Run, RunConfig
    from maze_rllib.trainer import Trainer

_RUNNERS = ("dev", "local", "ray")


class RLlib(Algorithm):
    """An algorithm of RLlib on the run's environments and policy. An update is one training iteration of RLlib.

    Ray is started with the first epoch and stopped when the run is closed.
    """

    Config: ClassVar[type[AlgorithmConfig]] = RLlibConfig
    config: Any
    brings_memory = True  # RLlib's own networks; others are refused
    calls = ()
    columns: ClassVar[Mapping[str, str]] = {
        "loss/policy": "policy",
        "loss/value": "value",
        "loss/critic": "critic",
        "loss/entropy": "entropy",
        "loss/kl": "kl",
        "loss/entropy_coef": "alpha",
    }

    @property
    def family(self) -> Family:
        """What the bridge knows of the algorithm."""
        return family(self.config.title)

    def check(self, config: RunConfig) -> None:
        """Refuse runs and models that RLlib does not support. Needs no Ray: a trained policy opens without it."""
        self._trainer: Trainer | None = None
        self._saved: dict[str, Any] | None = None
        if config.runner.name not in _RUNNERS:
            text = f"RLlib runs on the runners {', '.join(_RUNNERS)}, not on {config.runner.name}"
            raise ConfigError(text, "runner.name", "Next: --runner local")
        if self.family.offline and config.steps is not None:
            raise ConfigError(f"{self.config.name} takes no environment steps", "steps", "Next: --epochs")
        if self.config.rllib_model and getattr(config.model, "memory", "none") != "none":
            hint = "Next: --set model.memory=none; RLlib's own network has one by algorithm.model_config.use_lstm=true"
            raise ConfigError("does not reach RLlib's own network", "model.memory", hint)
        if self.config.model_config_.get("use_lstm") and not self.family.recurrent:
            hint = "Next: maze train dqn --set model.memory=lstm, or maze train sac --set model.memory=lstm"
            text = f"RLlib's {self.config.title} fails with networks that remember"
            raise ConfigError(text, "algorithm.model_config.use_lstm", hint)
        if self.family.check is not None and not self.config.rllib_model:
            self.family.check(self.config, config)

    def check_effects(self, runner: PluginConfig) -> None:
        """Refuse parameters that have no effect with this runner. A trained policy may act on any."""
        errors = list(self.config.idle({WORKERS: runner.name != "dev", CLUSTER: _on_cluster(runner)}))
        if errors:
            raise combined(errors)

    @hookimpl
    def build_policy(self, observation_space: Any, action_space: Any, config: Any) -> Any:
        """Return RLlib's own network where it learns; None elsewhere: then the run's model is built."""
        if not self.config.rllib_model:
            return None
        check_installed()
        from maze_rllib.network_keys import check_has_effect
        from maze_rllib.own_model import PlainView, RLlibPolicy

        view = PlainView(observation_space, action_space)
        hint = "Next: describe a network that fits by algorithm.model_config; or --no-rllib-model"
        with self._blamed("algorithm.rllib_model", hint):
            spaces = {"default_policy": (view.observation_space, view.action_space)}

            def built(network: Mapping[str, Any]) -> Any:
                rllib = self._parameters().rl_module(model_config=dict(network))
                return rllib.get_rl_module_spec(spaces=spaces, inference_only=True).build()

            check_has_effect(self.config.model_config_, built)
            return RLlibPolicy(built(self.config.model_config_), view, observation_space, action_space).eval()

    def setup(self, run: Run) -> None:
        """Check the parameters and fit them to the run's spaces and policy. Imports RLlib; nothing is started yet."""
        self.check_effects(run.config.runner)
        check_installed()
        if note := other_version():
            run.notes.append(note)
        from maze_rllib.cluster import placed
        from maze_rllib.vector_env import TreeVectorEnv, shown_spaces

        self._run, policy = run, run.policy
        with self._blamed():
            self._rllib = placed(self._parameters(), run, samples=not self.family.offline)
        view = getattr(policy, "view", None)
        observation_space, action_space = shown_spaces(run.observation_space, run.action_space, view)
        self._rllib.environment(
            env=None if self.family.offline else TreeVectorEnv,
            observation_space=observation_space,
            action_space=action_space,
            normalize_actions=False,
            clip_actions=False,
        )
        if view is None:
            _check_policy(policy)
            self._rllib.rl_module(rl_module_spec=self._module_spec(policy))
        if self.family.offline:
            self._read(run)

    def _parameters(self) -> Any:
        """Return RLlib's configuration with the parameters that are set."""
        from maze_rllib.network_keys import check_known
        from maze_rllib.parameters import rllib_config
        from maze_rllib.settings import apply

        rllib = rllib_config(self.config.title)
        apply(rllib, self.config.settings(), self.config.changed())
        check_known(self.config.model_config_)
        return rllib

    def _module_spec(self, policy: Policy) -> Any:
        """Return the specification by which RLlib builds the module around the policy."""
        from ray.rllib.core.rl_module.rl_module import RLModuleSpec

        from maze_rllib.modules import NoCatalog, on_cpu

        module, _, title = str(self.family.module).partition(":")
        options = {name: getattr(self._rllib, name) for name in self.family.options}
        if self.family.has_critics:
            options["critic_hidden"] = list(self.config.critic_hidden)
        return RLModuleSpec(
            module_class=getattr(import_module(module), title),
            catalog_class=NoCatalog if self.family.has_critics else None,
            model_config={"policy": on_cpu(policy), **options},
        )

    def _read(self, run: Run) -> None:
        """Load the recorded trajectories."""
        from maze_rllib.offline import RecordedData

        folder = self.config.dataset
        with progress_bar(f"loading {folder}", shown="console" in run.config.callbacks) as report:
            data = load_trajectories(Path(folder), 1, report)
        data.check_fits(run.observation_space, run.action_space, f"algorithm.dataset: {folder}")
        check_masks(data, str(folder))
        seed = integer_seed(run.seed, Purpose.MINIBATCH_ORDER)
        source = {"data": data, "policy": run.policy, "seed": seed}
        self._rllib._is_online = False  # RLlib does not set it for CQL, which would step environments for nothing
        self._rllib.offline_data(
            input_=[folder],
            input_config=source,
            offline_data_class=RecordedData,
            dataset_num_iters_per_learner=1,
        )

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return a placeholder: RLlib has its own optimizers."""
        return _NoOptimizer()

    def _opened(self) -> Trainer:
        if self._trainer is None:
            from maze_rllib.env_runner import PLAN, EnvPlan, EnvRunner
            from maze_rllib.trainer import Trainer

            run = self._run
            if not self.family.offline:
                # A resumed run plays different episodes.
                seeds = EpisodeSeeds(run.seed, Purpose.TRAIN_EPISODES, (run.updates,) if run.updates else ())
                envs = self.config.num_envs_per_env_runner
                plan = EnvPlan(run.env_builder("training"), envs, seeds, self.config.rllib_model)
                self._rllib.environment(env_config={PLAN: plan})
                self._rllib.env_runners(env_runner_cls=EnvRunner)
            self._trainer = Trainer(self._rllib, run.config.runner, self.config.watchdog_seconds, run.env_steps)
            if self._saved is not None:
                self._trainer.load_state(self._saved)
            else:
                self._trainer.load_policy(run.policy.state_dict())
        return self._trainer

    def batches(self) -> Iterator[Batch]:
        """Let RLlib train for one iteration and copy its weights into the policy; yield nothing."""
        run = self._run
        with self._blamed():
            trainer = self._opened()
            iteration = trainer.iterate(lambda: run.interrupted)
        run.count_env_steps(iteration.env_steps)
        run.statistics.add(iteration.episodes)
        run.record(iteration.metrics)
        run.policy.load_state_dict(trainer.policy(run.policy.state_dict()))
        yield from ()

    def _blamed(self, otherwise: str = "", hint: str | None = None) -> Any:
        from maze_rllib.settings import blamed

        return blamed(self.config.changed(), otherwise, hint)

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
        if not isinstance(self._saved, dict) and (self._saved is not None or self._run.updates):
            raise refused("state/algorithm/rllib", "a mapping", f"is {type(self._saved).__name__}")

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


def _on_cluster(runner: Any) -> bool:
    """Return True if the run uses a cluster that goes on without it."""
    address = getattr(runner, "address", None) or os.environ.get("RAY_ADDRESS") or "local"
    return runner.name == "ray" and address != "local"


def _check_policy(policy: Policy) -> None:
    if remembers(policy):
        hint = "Next: --set model.memory=none, or one of Maze's own algorithms, such as ppo"
        raise ConfigError("RLlib's learners would cut what a policy of Maze remembers", "model.memory", hint)
    normalizer = getattr(policy, "normalizer", None)
    if normalizer is not None and getattr(normalizer, "running", True):
        raise ConfigError(
            "RLlib does not update the statistics of an observation normaliser",
            "model.normalize_observations",
            "Scale observations with a wrapper, or use one of Maze's own algorithms.",
        )
