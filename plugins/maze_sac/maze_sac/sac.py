"""Soft actor-critic, off-policy with a tuned entropy bonus (Haarnoja et al., arXiv 1801.01290 and 1812.05905)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from gymnasium.spaces import Box
from maze_offpolicy import (
    JointActions,
    ProcessNoise,
    ReplayCollector,
    ReplayMemory,
    Target,
    TargetMemory,
    check_log_probs,
    check_reparametrised,
    critics_of,
    memory_builder,
    process_of,
    replay_costs,
)
from torch import Tensor, nn

from maze_core import (
    Adam,
    Algorithm,
    Batch,
    ConfigError,
    Loss,
    Purpose,
    TensorTree,
    distribution_of,
    flatten_space,
    generator,
    hookimpl,
    remembers,
    subtree,
    torch_generator,
)
from maze_core.models.distributions import BoxScale
from maze_sac.actions import Decision, Temperature, decide, target_entropy
from maze_sac.config import SACConfig, SACfDConfig
from maze_sac.estimates import estimate_of, soft_target
from maze_sac.turns import decide_in_turns

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from gymnasium import Space
    from maze_offpolicy import StateActionCritics

    from maze_core import AlgorithmConfig, Optimizer, Policy, Run, RunConfig, Sequences

_LOSS_NOISE, _PROCESS = 2, 4
# Separates the noise of actions sampled in the loss from that of acting.
_NOISE, _NEXT_NOISE = "noise", "next_noise"
_CRITICS, _TARGETS = "critics", "targets"
# Where a batch has the noise of actions for its observations, and for those that follow.


class SAC(Algorithm):
    """Soft actor-critic, off-policy, for every action space."""

    Config: ClassVar[type[AlgorithmConfig]] = SACConfig
    config: SACConfig
    needs_critic = False
    supports_memory = True
    supports_actors = True
    supports_agents = True
    supports_learners = True
    calls = ("compute_loss", *ReplayCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {
        "loss/policy": "policy", "loss/critic": "critic", "loss/entropy": "entropy", "loss/entropy_coef": "alpha",
    }  # fmt: skip
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {
            "distribution": "squashed_gaussian",
            "state_dependent_std": True,
            "hidden": [256, 256],
            "activation": "relu",
        },
        "callbacks": {"early_stopping": {"patience": 50}},
    }

    def check(self, config: RunConfig) -> None:
        """Refuse several learners where a loss draws random numbers, or computes statistics, for a batch as a whole."""
        if config.learners == 1:
            return
        if self.config.dropout:
            raise _one_learner("dropout", "algorithm.dropout")
        if self.config.critic_norm == "batch":
            raise _one_learner("batch normalisation", "algorithm.critic_norm")
        if self.config.target_subset is not None:
            raise _one_learner("a subset of critics drawn for each batch", "algorithm.target_subset")

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
            if self.config.quantiles > 1 and not isinstance(leaf, Box):
                raise ConfigError(
                    f"quantiles of the return need Box actions, but the action {key!r} is {leaf}",
                    "algorithm.quantiles",
                    "Next: --set algorithm.quantiles=1 --set algorithm.drop_top=0",
                )

    def setup_loss(self, run: Run) -> None:
        """Build critics, targets and temperature."""
        config, policy = self.config, run.policy
        self._run = run
        if remembers(policy) and not config.split_rollouts_into_transitions:
            raise ConfigError(
                "a policy with memory learns from whole sequences, whose length is algorithm.sequence_length",
                "algorithm.split_rollouts_into_transitions",
                "Next: --set algorithm.split_rollouts_into_transitions=true",
            )
        if remembers(policy) and run.config.learners > 1:
            raise _one_learner("policies with memory", "model.memory")
        self.actions = JointActions(run.observation_space, run.action_space).to(run.device)
        check_reparametrised(policy, self.actions, "SAC")
        check_log_probs(policy, self.actions, "SAC")
        self.critics = critics_of(
            run,
            self.actions,
            config,
            config.quantiles if config.quantiles > 1 else self.actions.outputs,
            norm=config.critic_norm,
            dropout=config.dropout,
            make_memory=memory_builder(run),
            share_memory=config.critic_memory == "shared",
        )
        self.targets = None if config.critic_norm == "batch" else Target(self.critics)
        self.temperature = Temperature(config.entropy_coef, config.entropy_tuning).to(run.device)
        noise = torch_generator(run.seed, Purpose.POLICY_NOISE, _LOSS_NOISE, device=run.device)
        self.noise = self.keep("noise", noise)
        self._estimate = estimate_of(config, self.noise)
        self._costs = replay_costs(run, self.actions)
        self._cost_loss = None if self._costs is None else self._costs.loss

    def setup(self, run: Run) -> None:
        """Build collector and replay buffer."""
        config = self.config
        targets = {} if self.targets is None else {_TARGETS: TargetMemory(_CRITICS, self.targets.module)}
        collector = ReplayCollector(
            run,
            config.rollouts[1],
            config.num_envs,
            config.replay_buffer_size,
            initial_steps=config.initial_buffer_size,
            first_policy=config.initial_sampling_policy,
            demonstrations=config.initial_demonstrations,
            utd=config.utd or 1.0,
            memory=ReplayMemory.of(
                run.policy, config.sequence_length, config.burn_in, targets, **{_CRITICS: self.critics}
            ),
            her_goals=config.her_goals,
            noise=self._samples(run),
        )
        self._collector = self.keep("collector", collector)

    def _samples(self, run: Run) -> ProcessNoise | None:
        """Return the noise of samples while collecting; None: that of steps that are independent."""
        if self.config.exploration == "gaussian":
            return None
        process = process_of(self.config, generator(run.seed, Purpose.POLICY_NOISE, _PROCESS))
        chance = torch_generator(run.seed, Purpose.POLICY_NOISE)
        return ProcessNoise(run.policy, run.rows_of(self.config.num_envs), chance, process)

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics, their targets if they have some, the temperature, and the critics of costs."""
        targets = {} if self.targets is None else {"targets": self.targets.module}
        costs = {} if self._costs is None else self._costs.modules()
        return {"critics": self.critics, **targets, "temperature": self.temperature, **costs}

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return one Adam: policy and critics at `lr`, the temperature at `entropy_coef_lr`."""
        learning = (policy, self.critics, *(() if self._costs is None else (self._costs.critics,)))
        networks = [p for module in learning for p in module.parameters() if p.requires_grad]
        betas = (self.config.beta1, 0.999)
        groups: list[dict[str, Any]] = [{"params": networks, "lr": self.config.lr, "betas": betas}]
        if self.config.entropy_tuning:
            groups.append({"params": list(self.temperature.parameters()), "lr": self.config.entropy_coef_lr})
        return Adam(groups)

    def batches(self) -> Iterator[Batch]:
        """Step the environments, then yield batches from replay; the targets follow after each update."""
        config, run = self.config, self._run
        if "entropy_coef" in self.scheduled.schedules:
            self.temperature.give(config.entropy_coef)
        due = sum(self._collect() for _ in range(config.rollouts[0]))
        stretch = 1 if config.split_rollouts_into_transitions else config.n_rollout_steps
        for _ in range(config.num_batches_per_iter if config.utd is None else due):
            batch = self._collector.sample(self._rows(), config.gamma, config.n_step, stretch)
            if (run.learner.steps + 1) % config.policy_delay:
                batch.objective = "critic"
            if run.config.learners > 1:
                self._add_noise(batch)
            yield batch
            follows = run.learner.steps % config.target_update_interval == 0
            if self.targets is not None and follows:
                self.targets.follow(config.tau)
            if self._costs is not None:
                if follows:
                    self._costs.follow(config.tau)
                if "cost" in self.row_results:
                    self._costs.weigh(self.row_results["value"], self.row_results["cost"].T)

    def _collect(self) -> int:
        """Step the environments; return the number of updates that are due."""
        due = self._collector.collect()
        if self._costs is not None:
            self._costs.observe(self._collector.ended)
        return due

    def _rows(self) -> int:
        """Return the rows of the next batch."""
        config, early = self.config, self.config.early_batch_size
        return config.batch_size if early is None or self._run.learner.steps >= config.early_updates else early

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the critics' loss, the policy's and the temperature's objectives in one scalar.

        Each part has gradients for its own parameters only: targets and coefficient are constants, and the policy's
        objective uses critics with detached parameters. With the objective `critic` the loss is the critics' alone.
        """
        coefficient = self.temperature.coefficient()
        actions, estimate = self.actions, self._estimate
        with torch.no_grad():
            following = self._decide_next(policy, batch)
        sequences = batch.sequences
        features = self.critics.features(
            policy.normalized(batch.obs), None if sequences is None else sequences.of(_CRITICS)
        )
        acting = actions.acting(batch.obs)
        taken = actions.canonical(batch.actions, acting)
        values, next_values = self._replayed(policy, batch, features, taken, following.box)
        with torch.no_grad():
            bonus = -coefficient * following.negative_entropy
            after = estimate.following(following, next_values)
            target = soft_target(batch.extra["reward"], batch.extra["discount"], after, bonus)
        values = actions.chosen(values, batch.actions, acting)
        critic_loss = estimate.loss(values, target)
        metrics = {"critic": critic_loss.detach(), "q": values.detach().mean()}
        if self._cost_loss is not None:
            cost_error = self._cost_loss.error(policy, batch, following.box, following.expected)
            critic_loss = critic_loss + cost_error
            metrics["cost_critic"] = cost_error.detach()
            self.row_results = {}
        if batch.objective == "critic":
            return Loss(critic_loss, metrics)

        decision = self._decide(policy, batch.obs, sequences, subtree(batch.extra, f"{_NOISE}/"))
        value = estimate.objective(decision, self._values(self.critics, features.detach(), decision.box, frozen=True))
        policy_loss = (coefficient * decision.negative_entropy - value).mean()
        if self._cost_loss is not None:
            costs = self._cost_loss.values(policy, batch.obs, decision.box, decision.expected)
            policy_loss = self._cost_loss.penalized(policy_loss, costs)
            self.row_results = {"value": value.detach(), "cost": costs.detach().T}

        total = critic_loss + policy_loss
        entropy = -decision.negative_entropy.detach()
        if self.config.entropy_tuning:
            wanted = self.config.target_entropy_multiplier * target_entropy(actions, batch.obs, acting)
            total = total + self.temperature.loss((entropy - wanted).mean())
        metrics |= {"policy": policy_loss.detach(), "entropy": entropy.mean(), "entropy_coef": coefficient}
        return Loss(total, metrics)

    def _replayed(
        self, policy: Policy, batch: Batch, features: Tensor, taken: Tensor | None, following: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the values of the actions taken, and those of what follows as constants, each [K, B, outputs].

        Without targets both come from one forward of the critics, so that batch normalisation sees both
        distributions of actions (Bhatt et al., arXiv 1902.05605, section 3.2).
        """
        if self.targets is not None:
            with torch.no_grad():
                targets = self.targets.module
                next_values = self._values(targets, _next_features(targets, policy, batch, _TARGETS), following)
            return self._values(self.critics, features, taken), next_values
        both = torch.cat((features, _next_features(self.critics, policy, batch, _CRITICS)), 1)
        box = None if taken is None or following is None else torch.cat((taken, following))
        values, next_values = self._values(self.critics, both, box, batch=True).chunk(2, 1)
        return values, next_values.detach()

    def _values(self, critics: StateActionCritics, features: Tensor, box: Tensor | None, **options: bool) -> Tensor:
        """Return the critics' values with dropout, which is active in every loss (Hiraoka et al., arXiv 2110.02034)."""
        return critics.values(features, box, chance=self.noise, **options)

    def _decide_next(self, policy: Policy, batch: Batch) -> Decision:
        """Return the policy's decision for the observations that follow."""
        sequences = batch.sequences
        if sequences is None:
            return self._decide(policy, batch.next_obs, noise=subtree(batch.extra, f"{_NEXT_NOISE}/"))
        return self._decide(policy, sequences.obs, sequences.beyond("policy")).rows(sequences.following)

    def _decide(
        self, policy: Policy, obs: TensorTree, sequences: Sequences | None = None, noise: TensorTree | None = None
    ) -> Decision:
        take = decide_in_turns if self.actions.several_actors else decide
        noise = noise or self._draw(policy, len(next(iter(obs.values()))))
        return take(self.actions, distribution_of(policy, obs, sequences), noise)

    def _draw(self, policy: Policy, rows: int) -> TensorTree:
        """Return the noise of sampled actions, leaves [rows, …]; none where no action is a Box."""
        return policy.draw_noise((rows,), self.noise) if self.actions.box_size else {}

    def _add_noise(self, batch: Batch) -> None:
        """Put the noise of the actions that the loss samples into the batch: each learner needs that of its rows."""
        policy = self._run.policy
        batch.extra |= {f"{_NEXT_NOISE}/{key}": leaf for key, leaf in self._draw(policy, len(batch)).items()}
        if batch.objective != "critic":
            batch.extra |= {f"{_NOISE}/{key}": leaf for key, leaf in self._draw(policy, len(batch)).items()}


def _next_features(critics: StateActionCritics, policy: Policy, batch: Batch, name: str) -> Tensor:
    """Return the critics' features of the observations that follow, [K, B, F]; `name`: of the critics in memories."""
    sequences = batch.sequences
    if sequences is None:
        return critics.features(policy.normalized(batch.next_obs))
    features = critics.features(policy.normalized(sequences.obs), sequences.beyond(name))
    return features.index_select(1, sequences.following)


def _one_learner(what: str, where: str) -> ConfigError:
    return ConfigError(f"{what} cannot be divided among several learners", where, "Next: --set learners=1")


class SACfD(SAC):
    """Soft actor-critic from demonstrations: recorded trajectories fill the replay buffer before learning begins."""

    Config = SACfDConfig
    config: SACfDConfig
