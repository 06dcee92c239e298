"""Generative adversarial imitation learning (Ho and Ermon, arXiv 1606.03476), with PPO's updates of the policy."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from maze_models.side_learner import SideLearner
from maze_onpolicy import RolloutCollector, advantage_rows, clipped_surrogate, normalized, row_divergence
from maze_recordings.recorded_steps import RecordedSteps
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from maze_core import Algorithm, Batch, Loss, Purpose, distribution_of, generator, hookimpl, map_tree
from maze_core.data.batch import joined
from maze_core.models.memory import separate_rows
from maze_imitation.config import GAILConfig
from maze_imitation.discriminator import Discriminator
from maze_imitation.rollout_steps import rollout_steps

if TYPE_CHECKING:
    from maze_core import AlgorithmConfig, Policy, Rollout, Run

_ORDER = 1718050156
# Separates the discriminator's order of rows from the random numbers of other plugins.


class GAIL(Algorithm):
    """Adversarial imitation of recorded trajectories, on-policy, for every action space."""

    Config: ClassVar[type[AlgorithmConfig]] = GAILConfig
    config: GAILConfig
    needs_critic = True
    supports_memory = True
    supports_learners = True
    shaped: ClassVar[bool] = False
    """True: the discriminator is that of AIRL."""
    calls = ("compute_loss", *RolloutCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {"loss/policy": "policy", "loss/entropy": "entropy", "loss/kl": "kl"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"critic": "separate", "log_std_init": -0.25}}

    def setup(self, run: Run) -> None:
        """Load the recordings; build the collector."""
        config = self.config
        self._run = run
        self._experts = self.keep("experts", RecordedSteps(run, config.dataset, config.n_workers, rewards=False))
        self._collector = self.keep("collector", RolloutCollector.of(run, config))
        self._order = self.keep("order", generator(run.seed, Purpose.MINIBATCH_ORDER))

    @hookimpl
    def build_modules(self, run: Run) -> dict[str, SideLearner]:
        """Return the discriminator, which learns for itself after each update of the policy."""
        config = self.config
        self._judged: Batch | None = None
        self.discriminator = Discriminator(run.policy, config, shaped=self.shaped)
        learner = SideLearner(self.discriminator, self._error, self._minibatches, lr=config.discriminator_lr)
        self._mixing = learner.keep("order", generator(run.seed, Purpose.PLUGIN, _ORDER))
        return {"discriminator": learner}

    @hookimpl
    def change_rollout(self, run: Run, rollout: Rollout) -> None:
        """Replace the rewards by those of the discriminator; keep the steps, and as many of the expert, for it."""
        rows = int(rollout.valid.sum())
        if not rows:  # a rollout may contain filler rows only
            self._judged = None
            return
        judged = joined([self._experts.sample(rows, self.config.gamma), self._steps_of(rollout)])
        judged.extra["expert"] = (torch.arange(2 * rows, device=run.device) < rows).float()
        with torch.no_grad():
            if self.shaped:
                distribution = run.policy.distribution(judged.obs)
                judged.extra["log_prob"] = distribution.log_prob(distribution.from_env_action(judged.actions))
            rewards = self.reward(self.discriminator(run.policy, judged)[rows:])
            if self.config.absorbing_state:
                ended = judged.extra["discount"] == 0
                # The best logit of a single state is known.
                best = torch.log((ended[:rows].sum() + 1) / (ended[rows:].sum() + 1))
                rewards += ended[rows:] * self.config.gamma / (1 - self.config.gamma) * self.reward(best)
            rollout.rewards[rollout.valid] = rewards.numpy(force=True)
        self._judged = judged

    def _steps_of(self, rollout: Rollout) -> Batch:
        """Return the valid steps of a rollout, with the actions that were executed, as a replay buffer does."""
        policy, steps = self._run.policy, rollout_steps(rollout, self.config.gamma, self._run.device)
        with torch.no_grad():
            distribution = distribution_of(policy, steps.obs, separate_rows(policy, len(steps)))
        steps.actions = self.discriminator.actions.executed(distribution.env_action(steps.actions))
        return steps

    def reward(self, logits: Tensor) -> Tensor:
        """Return the rewards of steps for the discriminator's logits, [B]."""
        kind = getattr(self.config, "reward", "difference")  # AIRL's is log D - log(1 - D), which are the logits
        if kind == "difference":
            return logits
        return -logsigmoid(-logits) if kind == "positive" else logsigmoid(logits)

    def _minibatches(self) -> Iterator[Batch]:
        if self._judged is not None:
            for _ in range(self.config.n_discriminator_epochs):
                yield from self._judged.minibatches(2 * self.config.discriminator_batch_size, self._mixing)

    def _error(self, batch: Batch) -> Loss:
        logits, expert = self.discriminator(self._run.policy, batch), batch.extra["expert"]
        right = ((logits > 0) == (expert > 0)).float().mean()
        error = binary_cross_entropy_with_logits(logits, expert)
        return Loss(error, {"error": error.detach(), "accuracy": right})

    def batches(self) -> Iterator[Batch]:
        """Collect a rollout; yield its rows in shuffled minibatches, over several passes."""
        config, run = self.config, self._run
        rollout = self._collector.collect()
        longest = getattr(config, "sequence_length", None)  # of a sequence, for a policy with memory
        rows, metrics = advantage_rows(
            run.policy, rollout, config.gamma, config.gae_lambda, run.device, longest, log_probs=True
        )
        run.record(metrics)
        for _ in range(config.n_optimization_epochs if len(rows) else 0):
            for batch in rows.minibatches(config.batch_size, self._order):
                if config.normalize_advantages:
                    batch.extra["advantage"] = normalized(batch.extra["advantage"])
                yield batch
        self._collector.update_normalizer()

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return PPO's clipped surrogate, the squared error of the critic and the entropy bonus."""
        config, data = self.config, batch.extra
        distribution, value = policy(batch.obs, *([] if batch.sequences is None else [batch.sequences]))
        log_ratio = distribution.log_prob(batch.actions) - data["log_prob"]
        gain = clipped_surrogate(log_ratio.exp(), data["advantage"], config.clip_range).mean()
        error, entropy = (value - data["target"]).square().mean(), distribution.entropy().mean()
        metrics = {"policy": gain, "value": error, "entropy": entropy, "kl": row_divergence(log_ratio).mean()}
        total = gain + config.value_loss_coef * error - config.entropy_coef * entropy
        return Loss(total, map_tree(Tensor.detach, metrics))
