"""RLlib's algorithms, one class each, for `maze train rllib-…`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gymnasium import spaces
from maze_recordings.loader import load_trajectories

from maze_core.base.errors import ConfigError
from maze_core.base.progress import progress_bar
from maze_core.base.seeding import Purpose, integer_seed
from maze_rllib.base import RLlib
from maze_rllib.config import (
    APPOConfig,
    BCConfig,
    DQNConfig,
    IMPALAConfig,
    MARWILConfig,
    PPOConfig,
    SACConfig,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from maze_core.models.policy import Policy
    from maze_core.plugins.config.run import AlgorithmConfig, RunConfig
    from maze_core.run.run import Run


ASYNCHRONOUS = {"timeout_s_sampler_manager": 0.1, "use_env_runner_state_server": False, "min_time_s_per_iteration": 0}
"""With RLlib's defaults its learner spins while it waits, which starves its workers on few cores."""


class RLlibPPO(RLlib):
    """RLlib's PPO: proximal policy optimisation, for every action space."""

    Config: ClassVar[type[AlgorithmConfig]] = PPOConfig
    title = "PPO"


class RLlibIMPALA(RLlib):
    """RLlib's IMPALA: importance weighted actor-learner architecture, for every action space."""

    Config: ClassVar[type[AlgorithmConfig]] = IMPALAConfig
    title = "IMPALA"
    preset = ASYNCHRONOUS


class RLlibAPPO(RLlib):
    """RLlib's APPO: asynchronous PPO, for every action space."""

    Config: ClassVar[type[AlgorithmConfig]] = APPOConfig
    title = "APPO"
    preset = ASYNCHRONOUS

    def module_spec(self, policy: Policy) -> Any:
        """Return the specification of the module with the old policy."""
        from ray.rllib.core.rl_module.rl_module import RLModuleSpec

        from maze_rllib.modules import TargetedActorCriticModule

        return RLModuleSpec(module_class=TargetedActorCriticModule, model_config={"policy": policy})


class RLlibDQN(RLlib):
    """RLlib's DQN: double, dueling, n-step, with prioritised replay, for one Discrete action."""

    Config: ClassVar[type[AlgorithmConfig]] = DQNConfig
    config: DQNConfig
    title = "DQN"
    action_spaces = (spaces.Discrete,)

    def check_model(self, config: RunConfig) -> None:
        """Refuse settings that need heads which Maze's models do not have."""
        if self.config.rllib_model:
            return
        if self.config.rllib.get("num_atoms", 1) != 1:
            raise ConfigError(
                "distributional Q-values need RLlib's own network", "algorithm.rllib.num_atoms", "Add --rllib-model"
            )
        if self.config.dueling and getattr(config.model, "critic", None) == "none":
            hint = "Next: --set model.critic=separate, or --no-dueling"
            raise ConfigError("dueling uses the critic of the model, but the model has none", "model.critic", hint)

    def module_spec(self, policy: Policy) -> Any:
        """Return the specification of the module whose action values are the policy's logits."""
        from ray.rllib.core.rl_module.rl_module import RLModuleSpec

        from maze_rllib.value_modules import QModule

        options = {"policy": policy, "dueling": self.config.dueling, "double_q": self.config.double_q}
        return RLModuleSpec(module_class=QModule, model_config={**options, "epsilon": self._rllib.epsilon})


class RLlibSAC(RLlib):
    """RLlib's SAC: soft actor-critic, for one Box or Discrete action."""

    Config: ClassVar[type[AlgorithmConfig]] = SACConfig
    config: SACConfig
    title = "SAC"
    action_spaces = (spaces.Box, spaces.Discrete)
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {
            "critic": "none",
            "distribution": "squashed_gaussian",
            "state_dependent_std": True,
            "hidden": [256, 256],
            "activation": "relu",
        }
    }

    def check_model(self, config: RunConfig) -> None:
        """Refuse a state critic, which would never learn, and a Gaussian that leaves the bounds."""
        if self.config.rllib_model:
            return
        if getattr(config.model, "critic", "none") != "none":
            raise ConfigError(
                "SAC has its own critics; a state critic would never learn", "model.critic", "Leave it at none."
            )
        if getattr(config.model, "distribution", "squashed_gaussian") != "squashed_gaussian":
            raise ConfigError("SAC needs the squashed Gaussian", "model.distribution", "Leave it as it is.")

    def module_spec(self, policy: Policy) -> Any:
        """Return the specification of the policy with critics around copies of its encoder."""
        from ray.rllib.core.rl_module.rl_module import RLModuleSpec

        from maze_rllib.value_modules import NoCatalog, SACModule

        options = {"policy": policy, "twin_q": self.config.twin_q, "critic_hidden": list(self.config.critic_hidden)}
        return RLModuleSpec(module_class=SACModule, catalog_class=NoCatalog, model_config=options)


class RLlibBC(RLlib):
    """RLlib's BC: behavioural cloning of recorded trajectories, for every action space."""

    Config: ClassVar[type[AlgorithmConfig]] = BCConfig
    config: BCConfig
    title = "BC"
    samples = False

    def check(self, config: RunConfig) -> None:
        """Refuse runs counted in environment steps."""
        if config.steps is not None:
            raise ConfigError(f"{self.config.name} takes no environment steps", "steps", "Next: --epochs")
        if self.config.rllib_model:
            raise ConfigError("only Maze's models learn from recorded actions", "algorithm.rllib_model")
        super().check(config)

    def setup(self, run: Run) -> None:
        """Load the recorded trajectories."""
        super().setup(run)
        from maze_rllib.offline import RecordedData, as_samples

        config = self.config
        with progress_bar(f"loading {config.dataset}", shown="console" in run.config.callbacks) as report:
            data = load_trajectories(Path(config.dataset), 1, report)
        data.check_fits(run.observation_space, run.action_space, f"algorithm.dataset: {config.dataset}")
        seed = integer_seed(run.seed, Purpose.MINIBATCH_ORDER)
        source = {"data": data, "samples": as_samples(run.policy, data), "seed": seed}
        self._rllib.offline_data(
            input_=[config.dataset],
            input_config=source,
            offline_data_class=RecordedData,
            dataset_num_iters_per_learner=1,
        )


class RLlibMARWIL(RLlibBC):
    """RLlib's MARWIL: cloning of recorded trajectories that prefers the better actions, for every action space."""

    Config: ClassVar[type[AlgorithmConfig]] = MARWILConfig
    title = "MARWIL"
