"""Behavioural cloning: maximum likelihood of recorded actions under the policy's own distribution.

Pomerleau, "Efficient training of artificial neural networks for autonomous navigation", Neural Computation 3 (1991).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from maze_recordings.loader import load_trajectories
from maze_recordings.obeyed_masks import check_masks
from maze_recordings.progress import progress_bar
from torch import Tensor

from maze_bc.config import BCConfig
from maze_bc.dataset import Rows, Segments, as_samples, fingerprint, split
from maze_core import (
    Adam,
    Algorithm,
    Batch,
    ConfigError,
    Count,
    Loss,
    Purpose,
    distribution_of,
    generator,
    hookimpl,
    remembers,
    varies,
)
from maze_core.base.saved_state import Anything
from maze_core.base.seeding import GeneratorState, load_random_state

if TYPE_CHECKING:
    from maze_recordings.trajectories import Trajectories

    from maze_core import Optimizer, Policy, Run, RunConfig

VALIDATION_LOSS = "validation/loss"


class BC(Algorithm):
    """Behavioural cloning of recorded trajectories, for every action space. An update is one minibatch."""

    Config = BCConfig
    config: BCConfig
    supports_memory = True
    supports_actors = True
    supports_agents = True
    calls: tuple[str, ...] | None = ("compute_loss", "on_evaluation")
    columns: ClassVar[Mapping[str, str]] = {"loss/nll": "nll", "validation/loss": "val loss", "loss/entropy": "entropy"}

    def check(self, config: RunConfig) -> None:
        """Refuse runs counted in environment steps, and those with neither evaluation nor validation."""
        if self.config.eval_every_k_iterations is None:
            self.calls = ("compute_loss",)
        if config.steps is not None:
            raise ConfigError("bc trains on recorded data and takes no environment steps", "steps", "Next: --epochs")
        if not config.evaluation_episodes and not self.config.validation_percentage:
            raise ConfigError(
                "without evaluation episodes the validation loss decides which policy is best, and there is none",
                "algorithm.validation_percentage",
                "Next: --validation-percentage 20, or --n-eval-episodes 8",
            )

    def setup(self, run: Run) -> None:
        """Load and split the data; estimate the normaliser's statistics from it."""
        self._run = run
        data = self._load(run)
        samples = as_samples(run.policy, data, run.device)
        episodes = split(len(data), self.config.validation_percentage, _generator(run, Purpose.DATA_SPLIT))
        rows = [Rows(data, samples, numbers) for numbers in episodes]
        self._validation_rows = len(rows[1])
        self._train, self._validation = (self._units(each) for each in rows)
        self._data_set = fingerprint(data)
        self._order = _generator(run, Purpose.MINIBATCH_ORDER)
        self._begin_pass()
        if run.policy.normalizer is not None and run.init_from is None:
            for batch in self._train.chunks(run.device):
                run.policy.normalizer.update(batch.obs)

    def _units(self, rows: Rows) -> Rows | Segments:
        """Return what minibatches are drawn from: rows, or segments for a policy that remembers."""
        policy = self._run.policy
        return Segments(rows, policy, self.config.sequence_length) if remembers(policy) else rows

    def _load(self, run: Run) -> Trajectories:
        config = self.config
        with progress_bar(f"loading {config.dataset}", shown="console" in run.config.callbacks) as report:
            data = load_trajectories(Path(config.dataset), config.n_workers, report)
        data.check_fits(run.observation_space, run.action_space, f"algorithm.dataset: {config.dataset}")
        check_masks(data, config.dataset)
        if config.validation_percentage and len(data) < 2:
            raise ConfigError(
                f"{config.dataset} contains only one episode, which cannot be split for validation",
                "algorithm.validation_percentage",
                "Next: --validation-percentage 0",
            )
        return data

    def _begin_pass(self) -> None:
        """Draw the order of the next pass; keep the random state that reproduces it."""
        self._before_pass = self._order.bit_generator.state
        self._permutation = self._order.permutation(len(self._train))
        self._position = 0

    @property
    def epoch_length(self) -> int:
        """Return the minibatches in one epoch: as configured, or one pass over the training rows."""
        return self.config.epoch_length or -(-len(self._train) // self._batch_units)

    @property
    def _batch_units(self) -> int:
        """Rows, or segments, of a minibatch."""
        size, train = self.config.batch_size, self._train
        return train.count_in(size) if isinstance(train, Segments) else size

    def batches(self) -> Iterator[Batch]:
        """Yield the next minibatch of the pass; the networks are in training mode while they learn from it."""
        run, config = self._run, self.config
        every = config.eval_every_k_iterations
        # Before the update, so that a resumed run makes up for an interrupted evaluation.
        if every and run.state.updates_in_epoch and run.updates % every == 0:
            run.evaluate_within_epoch(self.validate(run.policy))
        rows = self._permutation[self._position : self._position + self._batch_units]
        self._position += len(rows)
        if self._position == len(self._permutation):
            self._begin_pass()
        with _training_mode(run.policy):
            yield self._train.batch(rows, run.device)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on the batch and the policy alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the negative log-likelihood of the recorded actions minus an entropy bonus."""
        distribution = distribution_of(policy, batch.obs, batch.sequences)
        likelihood = distribution.log_prob(batch.actions).mean()
        entropy = distribution.entropy().mean()
        weight: Any = self.config.entropy_coef  # a tensor where it has a schedule, in steps that are recorded
        total = -likelihood - weight * entropy if isinstance(weight, Tensor) or weight else -likelihood
        return Loss(total, {"nll": -likelihood.detach(), "entropy": entropy.detach()})

    def epoch_metrics(self) -> dict[str, float]:
        """Return the loss on the validation episodes."""
        return self.validate(self._run.policy)

    def validate(self, policy: Policy) -> dict[str, float]:
        """Return the loss on the validation episodes, and the errors of the most likely actions."""
        totals: dict[str, Tensor] = {}
        was_training = policy.training
        policy.eval()
        with torch.no_grad():
            for batch in self._validation.chunks(self._run.device):
                for name, value in self._measure(policy, batch).items():
                    totals[name] = totals.get(name, torch.zeros((), dtype=torch.float64)) + value.double().cpu()
        policy.train(was_training)
        return {f"validation/{name}": (total / self._validation_rows).item() for name, total in totals.items()}

    def _measure(self, policy: Policy, batch: Batch) -> dict[str, Tensor]:
        """Return sums over the rows of a batch."""
        distribution = distribution_of(policy, batch.obs, batch.sequences)
        nll, entropy = -distribution.log_prob(batch.actions), distribution.entropy()
        sums = {"loss": (nll - self.config.entropy_coef * entropy).sum(), "entropy": entropy.sum()}
        taken, recorded = distribution.env_action(distribution.mode()), distribution.env_action(batch.actions)
        matches = [_rows(taken[k] == a).all(1) for k, a in recorded.items() if not a.is_floating_point()]
        errors = [_rows((taken[k] - a).abs()).mean(1) for k, a in recorded.items() if a.is_floating_point()]
        if matches:
            sums["accuracy"] = torch.stack(matches).all(0).sum()
        if errors:
            sums["action_error"] = torch.stack(errors).mean(0).sum()
        return sums

    def score(self, metrics: Mapping[str, float]) -> float:
        """Return the evaluation's mean return, or minus the validation loss where there is no evaluation."""
        if self._run.config.evaluation_episodes:
            return super().score(metrics)
        return -metrics[VALIDATION_LOSS]

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return the configured optimizer over the policy's parameters. A critic gets no gradient."""
        config, parameters = self.config, [p for p in policy.parameters() if p.requires_grad]
        if config.optimizer == "sgd":
            return torch.optim.SGD(parameters, config.lr, momentum=0.9, weight_decay=config.weight_decay)
        group = {"params": parameters, "decoupled_weight_decay": config.optimizer == "adamw"}
        return Adam([group], config.lr, weight_decay=config.weight_decay)

    def state(self) -> dict[str, Any]:
        """Return the position in the pass over the data."""
        position = varies(self._position, Count(below=len(self._train) + 1))
        return {
            "before_pass": varies(self._before_pass, GeneratorState(self._order)),
            "position": position,
            "data_set": varies(self._data_set, Anything()),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`.

        Raises:
            ConfigError: the data set is not the one with which the run began.
        """
        if state["data_set"] != self._data_set:
            raise ConfigError(
                f"{self.config.dataset} no longer contains the episodes that this run started with",
                "algorithm.dataset",
                "To clone other data, start a new run: maze train bc --init-from RUN",
            )
        load_random_state(self._order, state["before_pass"])
        self._begin_pass()
        self._position = state["position"]


def _generator(run: Run, purpose: Purpose) -> np.random.Generator:
    return generator(run.seed, purpose)


def _rows(values: Tensor) -> Tensor:
    """Return [B, …] as [B, d]."""
    return values.reshape(len(values), -1)


@contextmanager
def _training_mode(policy: Policy) -> Iterator[None]:
    """Set training mode (dropout is active) inside; restore the modes of all modules afterwards."""
    was_training = policy.training
    policy.train()
    try:
        yield
    finally:
        policy.train(was_training)
