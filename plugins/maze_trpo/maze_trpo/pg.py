"""Plain policy gradient: REINFORCE with returns to go and a baseline (Williams 1992; Sutton et al. 2000)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, ClassVar

from maze_onpolicy import RolloutCollector, advantage_rows, normalized

from maze_core import Algorithm, Batch, Loss, Policy, Run, distribution_of, hookimpl
from maze_core.data.batch import mean_of_rows
from maze_core.models.memory import value_of
from maze_trpo.config import PolicyGradientConfig


class PolicyGradient(Algorithm):
    """Plain policy gradient (REINFORCE), on-policy, for every action space."""

    Config = PolicyGradientConfig
    config: PolicyGradientConfig
    supports_memory = True
    supports_actors = True
    supports_agents = True
    supports_learners = True
    supports_tensors = True
    weighs_rows = True
    calls = ("compute_loss", *RolloutCollector.calls)
    columns: ClassVar[Mapping[str, str]] = {"loss/policy": "policy", "loss/value": "value", "loss/entropy": "entropy"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"critic": "separate", "log_std_init": -0.25}}

    def setup(self, run: Run) -> None:
        """Build the collector."""
        self._run = run
        self._collector = self.keep("collector", RolloutCollector.of(run, self.config))

    def batches(self) -> Iterator[Batch]:
        """Collect a rollout and yield all of its rows once.

        With lambda 1 an advantage is the sum of discounted rewards to the end of the episode minus the baseline. Where
        the rollout or a time limit ends first, the baseline stands for what follows; without one nothing does.
        """
        config, run = self.config, self._run
        rollout = self._collector.collect()
        length, baseline = config.sequence_length, run.policy.has_critic
        rows, metrics = advantage_rows(
            run.policy, rollout, config.gamma, 1.0, run.device, length, log_probs=True, baseline=baseline
        )
        run.record(metrics)
        if len(rows):  # a rollout may contain filler rows only
            if config.normalize_advantages:
                rows.extra["advantage"] = normalized(rows.extra["advantage"], rows.extra.get("group"))
            yield rows
        self._collector.update_normalizer()

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the policy gradient, the squared error of the baseline and the entropy bonus."""
        config, data = self.config, batch.extra
        distribution = distribution_of(policy, batch.obs, batch.sequences)
        # The weight is 1, but for agents that waited since an earlier rollout.
        log_prob = distribution.log_prob(batch.actions)
        weight = (log_prob.detach() - data["log_prob"]).exp()
        gain = mean_of_rows(weight * log_prob * data["advantage"], data)
        entropy = mean_of_rows(distribution.entropy(), data)
        loss = Loss(-gain - config.entropy_coef * entropy, {"policy": -gain.detach(), "entropy": entropy.detach()})
        if not policy.has_critic:
            return loss
        error = mean_of_rows((value_of(policy, batch.obs, batch.sequences) - data["target"]).square(), data)
        return Loss(loss.total + config.value_loss_coef * error, {**loss.metrics, "value": error.detach()})
