"""The Decision Transformer (Chen et al., arXiv 2106.01345): reinforcement learning as the modelling of sequences."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from maze_recordings.recorded_steps import RecordedOrder, check_without_steps, load_recorded

from maze_core import (
    Adam,
    Algorithm,
    Batch,
    ConfigError,
    Loss,
    Sequences,
    distribution_of,
    hookimpl,
    take_rows,
    to_tensors,
)
from maze_core.learn.algorithm import learning_parameters
from maze_sequence.config import DTConfig
from maze_sequence.policy import SequencePolicy

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Optimizer, PluginConfig, Policy, Run, RunConfig


class DecisionTransformer(Algorithm):
    """Decision Transformer, offline, for every action space: acts for the return that it is asked for."""

    Config = DTConfig
    config: DTConfig
    needs_critic = False
    brings_memory = True
    calls = ("compute_loss",)
    columns: ClassVar[Mapping[str, str]] = {"loss/nll": "nll", "loss/entropy": "entropy", "loss/reach": "reach"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"normalize_observations": True},
        "callbacks": {"early_stopping": {"patience": 0}},
    }

    def check(self, config: RunConfig) -> None:
        """Refuse runs counted in environment steps."""
        check_without_steps(config)

    @hookimpl(wrapper=True)
    def build_policy(
        self, observation_space: Space[Any], action_space: Space[Any], config: PluginConfig
    ) -> Generator[None, Policy, SequencePolicy]:
        """Put the transformer between the encoder of the model's policy and new heads."""
        return SequencePolicy((yield), self.config, getattr(config, "head_options", None))

    def setup(self, run: Run) -> None:
        """Load the data; tell the policy the return of the best episode, and the largest number."""
        self._run, self._policy = run, cast("SequencePolicy", run.policy)
        self._data = data = load_recorded(run, self.config.dataset, self.config.n_workers)
        self._order = self.keep("order", RecordedOrder(run, data))
        returns = np.add.reduceat(data.rewards, data.starts[:-1], dtype=np.float64)
        # From each step on: the episode's sum, less what was paid before the step.
        paid, lengths = np.cumsum(data.rewards, dtype=np.float64) - data.rewards, np.diff(data.starts)
        left = np.repeat(returns, lengths) - (paid - np.repeat(paid[data.starts[:-1]], lengths))
        largest = float(np.abs(left).max())
        if largest > float(np.finfo(np.float32).max):
            problem = f"the recorded rewards add up to {largest:.3g}, which float32 cannot hold"
            raise ConfigError(problem, "algorithm.dataset", "Next: record with smaller rewards")
        self._returns = left.astype(np.float32)
        self._policy.context.target.fill_(float(returns.max()))
        self._policy.context.scale.fill_(max(largest, 1e-6))

    def batches(self) -> Iterator[Batch]:
        """Yield stretches of episodes that end at steps drawn with replacement."""
        stretches = max(1, self.config.batch_size // self.config.context)
        yield self._stretches(self._order.rng.integers(self._data.steps, size=stretches))

    def _stretches(self, ends: np.ndarray) -> Batch:
        """Return the rows of the last steps up to each of some [S], at most `context`, stretch by stretch."""
        data, device = self._data, self._run.device
        begin = data.starts[np.searchsorted(data.starts, ends, side="right") - 1]
        lengths = np.minimum(ends - begin + 1, self.config.context)
        first = ends - lengths + 1 - begin
        times = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths - first, lengths)
        rows = np.repeat(begin, lengths) + times
        obs = to_tensors(take_rows(data.obs, data.observation_rows(rows)), device)
        actions = to_tensors(take_rows(data.actions, rows), device)
        known = to_tensors({"returns": self._returns[rows], "times": times, "first": first}, device)
        sequences = Sequences(lengths, {})
        sequences.state = self._policy.recorded(actions, known["returns"], known["first"], sequences)
        return Batch(obs, actions, {"return_to_go": known["returns"], "time": known["times"]}, sequences=sequences)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the negative log-likelihood of the recorded actions, and the loss of the returns within reach."""
        distribution = distribution_of(policy, batch.obs, batch.sequences)
        nll = -distribution.log_prob(distribution.from_env_action(batch.actions)).mean()
        loss, metrics = nll, {"nll": nll.detach(), "entropy": distribution.entropy().detach().mean()}
        if (expectile := self.config.return_expectile) is not None:
            reach = cast("SequencePolicy", policy).reach_loss(batch, expectile)
            loss, metrics["reach"] = nll + reach, reach.detach()
        return Loss(loss, metrics)

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return AdamW."""
        group = {"params": learning_parameters(policy), "decoupled_weight_decay": True}
        return Adam([group], self.config.lr, weight_decay=self.config.weight_decay)
