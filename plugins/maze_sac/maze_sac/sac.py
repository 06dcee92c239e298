"""Soft actor-critic, off-policy with a tuned entropy bonus (Haarnoja et al., arXiv 1801.01290 and 1812.05905)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from maze_core.data.batch import Batch, Loss, TensorTree
from maze_core.data.trajectories_loader import load_trajectories
from maze_core.envs.spaces import flatten_space
from maze_core.errors import ConfigError
from maze_core.models.actor_policy import probe
from maze_core.models.critics import build_critics
from maze_core.models.distributions import BoxScale
from maze_core.models.joint_actions import JointActions
from maze_core.plugins.hookspecs import hookimpl
from maze_core.seeding import Purpose, integer_seed
from maze_core.training.adam import Adam
from maze_core.training.algorithm import Algorithm
from maze_core.training.off_policy import ReplayCollector, check_replay_sizes
from maze_core.training.process_state import isolated_rng
from maze_core.training.schedules import scheduled
from maze_core.training.targets import Target
from maze_sac.actions import Decision, check_distribution, decide, target_entropy
from maze_sac.config import SACConfig, SACfDConfig
from maze_sac.temperature import Temperature
from maze_sac.turns import decide_in_turns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gymnasium import Space

    from maze_core.config.run import AlgorithmConfig, RunConfig
    from maze_core.models.policy import Policy
    from maze_core.training.adam import Optimizer
    from maze_core.training.run import Run

_DEMONSTRATIONS = "algorithm.initial_demonstrations"
_CRITICS, _LOSS_NOISE = 1, 2
# Separate random streams of one purpose: the critics' parameters, and the actions sampled in the loss.


class SAC(Algorithm):
    """Soft actor-critic, off-policy, for every action space."""

    Config: ClassVar[type[AlgorithmConfig]] = SACConfig
    config: SACConfig
    needs_critic = False
    supports_actors = True
    columns: ClassVar[Mapping[str, str]] = {
        "loss/policy": "policy", "loss/critic": "critic", "loss/entropy": "entropy", "loss/entropy_coef": "alpha",
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {
            "distribution": "squashed_gaussian",
            "state_dependent_std": True,
            "hidden": [256, 256],
            "activation": "relu",
        }
    }

    def check(self, config: RunConfig) -> None:
        """Refuse sizes that contradict each other."""
        check_replay_sizes(config)

    def check_action_space(self, space: Space[Any]) -> None:
        """Refuse also Box actions without finite bounds."""
        super().check_action_space(space)
        for key, leaf in flatten_space(space, "action").items():
            if isinstance(leaf, Box) and not BoxScale(leaf).bounded:
                raise ConfigError(
                    f"{self.config.name} needs finite bounds, but the Box action {key!r} is {leaf}",
                    "env",
                    "Give the action space bounds with a wrapper, or use an algorithm that needs none: ppo, a2c.",
                )

    def setup(self, run: Run) -> None:
        """Build collector, replay buffer, critics and temperature."""
        config, policy = self.config, run.policy
        self._run = run
        self._collector = ReplayCollector(
            run,
            config.n_rollout_steps,
            config.num_envs,
            config.replay_buffer_size,
            first_policy=config.initial_sampling_policy,
        )
        if config.initial_demonstrations and run.run_dir is None:  # a new run: check before its folder is created
            self._collector.check(load_trajectories(config.initial_demonstrations), _DEMONSTRATIONS)
        self._actions = JointActions(run.observation_space, run.action_space).to(run.device)
        self._check_policy(policy)
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _CRITICS)):
            self._critics = build_critics(
                policy, self._actions.box_size, self._actions.outputs, config.critic_hidden, config.critic_activation
            ).to(run.device)
        self._targets = Target(self._critics)
        self._temperature = Temperature(config.entropy_coef, config.entropy_tuning).to(run.device)
        self._noise = torch.Generator(run.device)
        self._noise.manual_seed(integer_seed(run.seed, Purpose.POLICY_NOISE, _LOSS_NOISE))

    def _check_policy(self, policy: Policy) -> None:
        zeros = probe(policy.observation_space, 1)
        obs = {key: torch.from_numpy(leaf).to(self._run.device) for key, leaf in zeros.items()}
        with torch.no_grad():
            check_distribution(self._actions, policy.distribution(obs))

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics, their targets and the temperature."""
        return {"critics": self._critics, "targets": self._targets.module, "temperature": self._temperature}

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return one Adam: policy and critics at `lr`, the temperature at `entropy_coef_lr`."""
        networks = [p for module in (policy, self._critics) for p in module.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [{"params": networks, "lr": self.config.lr}]
        if self.config.entropy_tuning:
            groups.append({"params": list(self._temperature.parameters()), "lr": self.config.entropy_coef_lr})
        return Adam(groups)

    def warm_up(self) -> bool:
        """Fill the buffer with the first steps, or with demonstrations."""
        demonstrations = self.config.initial_demonstrations
        if demonstrations is not None and not self._collector.is_warm:
            self._collector.add(load_trajectories(demonstrations), _DEMONSTRATIONS)
        return self._collector.warm_up(self.config.initial_buffer_size)

    def batches(self) -> Iterator[Batch]:
        """Step the environments, then yield batches from replay; the targets follow after each update."""
        config, run = self.config, self._run
        run.learner.scale_lr(scheduled(config.lr_schedule, run.fraction_done))
        for _ in range(config.rollouts_per_iteration):
            self._collector.collect()
        stretch = 1 if config.split_rollouts_into_transitions else config.n_rollout_steps
        for _ in range(config.num_batches_per_iter):
            yield self._collector.sample(config.batch_size, config.gamma, config.n_step, stretch)
            if run.learner.steps % config.target_update_interval == 0:
                self._targets.follow(config.tau)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the squared errors of both critics, the policy's and the temperature's objectives in one scalar.

        Each part has gradients for its own parameters only: targets and coefficient are constants, and the policy's
        objective uses critics with detached parameters.
        """
        coefficient = self._temperature.coefficient()
        critics, actions = self._critics, self._actions
        target = self._target(policy, batch, coefficient)
        features = critics.features(self._seen(policy, batch.obs))
        acting = actions.acting(batch.obs)
        box = actions.canonical(batch.actions, acting)
        values = actions.chosen(critics.values(features, box), batch.actions, acting)
        critic_loss = 0.5 * (values - target).square().mean(-1).sum()

        decision = self._decide(policy, batch.obs)
        value = decision.least(critics.values(features.detach(), decision.box, frozen=True))
        policy_loss = (coefficient * decision.negative_entropy - value).mean()

        total = critic_loss + policy_loss
        entropy = -decision.negative_entropy.detach()
        if self.config.entropy_tuning:
            wanted = self.config.target_entropy_multiplier * target_entropy(actions, batch.obs, acting)
            total = total + self._temperature.loss((entropy - wanted).mean())
        metrics = {
            "critic": critic_loss.detach(),
            "policy": policy_loss.detach(),
            "q": values.detach().mean(),
            "entropy": entropy.mean(),
            "entropy_coef": coefficient,
        }
        return Loss(total, metrics)

    @torch.no_grad()
    def _target(self, policy: Policy, batch: Batch, coefficient: Tensor) -> Tensor:
        """Return r + discount * (least target value of the next action - alpha log pi), [B] (1812.05905, eq. 3, 5)."""
        decision = self._decide(policy, batch.next_obs)
        targets = self._targets.module
        values = targets.values(targets.features(self._seen(policy, batch.next_obs)), decision.box)
        soft = decision.least(values) - coefficient * decision.negative_entropy
        return torch.addcmul(batch.extra["reward"], batch.extra["discount"], soft)

    def _decide(self, policy: Policy, obs: TensorTree) -> Decision:
        noise: TensorTree = {}
        if self._actions.box_size:
            noise = policy.draw_noise((len(next(iter(obs.values()))),), self._noise)
        take = decide_in_turns if self._actions.several_actors else decide
        return take(self._actions, policy.distribution(obs), noise)

    @staticmethod
    def _seen(policy: Policy, obs: TensorTree) -> TensorTree:
        """Return the observations as the policy's networks see them."""
        if policy.normalizer is None:
            return obs
        seen: TensorTree = policy.normalizer(obs)
        return seen

    @hookimpl
    def on_checkpoint(self, run: Run, path: Path) -> None:
        """Delete replay files that no checkpoint needs any more."""
        self._collector.prune()

    @property
    def disk_bytes(self) -> int:
        """Return the bytes that the replay data may reach."""
        return self._collector.disk_bytes

    def state(self) -> dict[str, Any]:
        """Return the states of the environments, of the replay rows on disk, and of all random generators."""
        return {"collector": self._collector.state(), "noise": self._noise.get_state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._collector.load_state(state["collector"])
        self._noise.set_state(state["noise"])


class SACfD(SAC):
    """Soft actor-critic from demonstrations: recorded trajectories fill the replay buffer before learning begins."""

    Config = SACfDConfig
    config: SACfDConfig
