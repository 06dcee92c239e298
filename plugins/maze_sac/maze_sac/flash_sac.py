"""FlashSAC (Kim et al., arXiv 2604.04539): soft actor-critic with few updates of large networks with bounded norms."""

from __future__ import annotations

import math
from collections.abc import Generator, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from gymnasium.spaces import Box, Dict
from maze_offpolicy import (
    JointActions,
    ProcessNoise,
    ReplayCollector,
    Target,
    check_reparametrised,
    cross_entropy,
    expectation,
    least_distribution,
    process_of,
    return_distribution,
    steps_of_each,
)
from torch import Tensor, nn

from maze_core import Adam, Algorithm, Batch, Loss, Purpose, generator, hookimpl, torch_generator
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import integer_seed
from maze_sac.actions import Decision, Temperature, decide
from maze_sac.flash_config import FlashSACConfig
from maze_sac.flash_networks import FlashCritics, FlashPolicy
from maze_sac.reward_scale import RewardScale

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import AlgorithmConfig, Optimizer, PluginConfig, Policy, Run, TensorTree, TreeDistribution

_CRITICS = 1
# Separates their first parameters from those of the policy.
_LOSS_NOISE, _PROCESS = 2, 4
# Separate the noise of actions sampled in the loss, and that of collecting, from other chance of acting.


class FlashSAC(Algorithm):
    """Soft actor-critic with few updates of large networks with bounded norms, for Box actions with finite bounds."""

    Config: ClassVar[type[AlgorithmConfig]] = FlashSACConfig
    config: FlashSACConfig
    needs_critic = False
    action_spaces = (Box, Dict)
    calls = ("compute_loss", *ReplayCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {
        "loss/policy": "policy", "loss/critic": "critic", "loss/entropy": "entropy", "loss/entropy_coef": "alpha",
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"distribution": "squashed_gaussian", "state_dependent_std": True, "hidden": []},
        "callbacks": {"early_stopping": {"patience": 0}},
    }

    @hookimpl(wrapper=True)
    def build_policy(
        self, observation_space: Space[Any], action_space: Space[Any], config: PluginConfig
    ) -> Generator[None, Policy, FlashPolicy]:
        """Put bounded layers behind the encoder of the model's policy."""
        return FlashPolicy((yield), self.config, getattr(config, "head_options", None))

    def setup(self, run: Run) -> None:
        """Build critics, target, temperature, collector and the scale of rewards."""
        config, self._run = self.config, run
        policy = self._policy = cast("FlashPolicy", run.policy)
        self.actions = JointActions(run.observation_space, run.action_space).to(run.device)
        check_reparametrised(policy, self.actions, config.name)
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _CRITICS)):
            self.critics = FlashCritics.of(policy, self.actions.box_size, config).to(run.device)
        self.target = Target(self.critics)
        self.temperature = Temperature(config.entropy_coef, True).to(run.device)
        noise = torch_generator(run.seed, Purpose.POLICY_NOISE, _LOSS_NOISE, device=run.device)
        self.noise = self.keep("noise", noise)
        rows = run.rows_of(config.num_envs)
        self.rewards = self.keep("rewards", RewardScale(rows, lambda: config.gamma, config.return_bound))
        process = process_of(config, generator(run.seed, Purpose.POLICY_NOISE, _PROCESS))
        chance = torch_generator(run.seed, Purpose.POLICY_NOISE)
        collector = ReplayCollector(
            run,
            steps_of_each(config.collect_steps, config.num_envs),
            config.num_envs,
            config.replay_buffer_size,
            initial_steps=config.initial_buffer_size,
            first_policy=config.initial_sampling_policy,
            utd=config.utd,
            her_goals=config.her_goals,
            noise=ProcessNoise(policy, rows, chance, process),
            seen=self.rewards.seen,
        )
        self._collector = self.keep("collector", collector)

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics, their target and the temperature."""
        return {"critics": self.critics, "target": self.target.module, "temperature": self.temperature}

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return one Adam for policy, critics and temperature."""
        learning = (policy, self.critics, self.temperature)
        return Adam([p for module in learning for p in module.parameters() if p.requires_grad], lr=self.config.lr)

    def batches(self) -> Iterator[Batch]:
        """Step the environments, then yield batches with scaled rewards; after each step norms are bounded again."""
        config, run = self.config, self._run
        for _ in range(self._collector.collect()):
            batch = self._collector.sample(config.batch_size, config.gamma, config.n_step)
            batch.extra["reward"] = batch.extra["reward"] * self.rewards.factor
            if (run.learner.steps + 1) % config.policy_delay:
                batch.objective = "critic"
            yield batch
            self._policy.bound()
            self.critics.bound()
            self.target.follow(config.tau)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the critics' loss, the policy's and the temperature's objectives in one scalar.

        Each part has gradients for its own parameters only. With the objective `critic` the loss is the critics' alone.
        """
        critics, coefficient = self.critics, self.temperature.coefficient()
        ahead = following_observations(batch)
        with torch.no_grad():
            following = self._decide(policy.distribution(ahead), len(batch))
        both = {key: torch.cat((leaf, ahead[key])) for key, leaf in batch.obs.items()}
        seen, rows = policy.normalized(both), len(batch)
        taken = torch.cat((cast("Tensor", self.actions.canonical(batch.actions)), cast("Tensor", following.box)))
        features = critics.features(seen)
        # Both distributions of actions are in the batch by which features are normalised.
        logits = critics.logits(features, taken, batch=True)[:, :rows]
        target = self._target(batch, seen, taken, -coefficient * following.negative_entropy)
        critic_loss = cross_entropy(logits, target)
        metrics = {"critic": critic_loss.detach(), "q": expectation(logits.detach(), critics.atoms).mean()}
        if batch.objective == "critic":
            return Loss(critic_loss, metrics)

        learning = cast("FlashPolicy", policy).learning_distribution(batch.obs, ahead)
        decision = self._decide(learning, rows)
        ours = features[:, :rows].detach()
        logits = critics.logits(ours, cast("Tensor", decision.box), batch=False, frozen=True)
        value = expectation(logits, critics.atoms).amin(0)
        policy_loss = (coefficient * decision.negative_entropy - value).mean()
        entropy = -decision.negative_entropy.detach().mean()
        wanted = normal_entropy(self.config.target_std, self.actions.box_size)
        total = critic_loss + policy_loss + self.temperature.loss(entropy - wanted)
        metrics |= {"policy": policy_loss.detach(), "entropy": entropy, "entropy_coef": coefficient}
        return Loss(total, metrics)

    @torch.no_grad()
    def _target(self, batch: Batch, seen: Any, taken: Tensor, bonus: Tensor) -> Tensor:
        """Return the probabilities of the atoms as the return with the entropy's bonus [B], [B, M].

        `seen`, `taken`: the observations and actions of the batch, then those that follow, 2 B rows.
        """
        target, atoms = self.target.module, self.critics.atoms
        logits = target.logits(target.features(seen), taken, batch=True, observe=False)[:, len(batch) :]
        least, returns = least_distribution(logits, atoms), atoms + bonus.unsqueeze(-1)
        return return_distribution(least, batch.extra["reward"], batch.extra["discount"], returns, atoms)

    def _decide(self, distribution: TreeDistribution, rows: int) -> Decision:
        return decide(self.actions, distribution, self._policy.draw_noise((rows,), self.noise))


def following_observations(batch: Batch) -> TensorTree:
    """Return what follows each row, leaves [B, …]; the row's own observation where the episode terminated.

    What is seen beyond the end would otherwise count, as a part of the batch by which features are normalised.
    """
    ended = batch.extra["discount"] == 0
    return {
        key: torch.where(ended.view(-1, *[1] * (leaf.dim() - 1)), leaf, batch.next_obs[key])
        for key, leaf in batch.obs.items()
    }


def normal_entropy(std: float, dimensions: int) -> float:
    """Return the entropy of independent normals with this standard deviation: d (½ log 2πe + log std)."""
    return dimensions * (0.5 * math.log(2 * math.pi * math.e) + math.log(std))
