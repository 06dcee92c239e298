"""Evolution strategies: the gradient of a population's fitness (Salimans et al., arXiv 1703.03864)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from math import ceil
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from maze_core import Adam, Algorithm, Batch, Count, Loss, Optimizer, hookimpl, varies
from maze_es.config import ESConfig
from maze_es.evaluations import Evaluations
from maze_es.evaluator import PairResults, Perturbed, noise_seed
from maze_es.noise import Noise
from maze_es.ranks import centred_ranks
from maze_es.search_space import SearchSpace
from maze_es.wrapper import WrappedPolicy, wrap

if TYPE_CHECKING:
    from maze_core import Policy, Run


class ES(Algorithm):
    """Evolution strategies, gradient-free, for every action space; the model needs no critic."""

    Config = ESConfig
    config: ESConfig
    supports_memory = True
    supports_actors = True
    calls = ("compute_loss",)
    columns: ClassVar[Mapping[str, str]] = {"loss/estimate_norm": "|estimate|"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"critic": "none"}}

    @hookimpl(wrapper=True)
    def build_policy(self) -> Generator[None, Policy, Policy | WrappedPolicy]:
        """Wrap the model's policy in the configured policy wrapper."""
        policy = yield
        return policy if self.config.policy_wrapper is None else wrap(policy, self.config)

    def setup(self, run: Run) -> None:
        """Determine the searched parameters and start the workers."""
        config = self.config
        self._run = run
        self.space = SearchSpace(run.policy, deterministic=config.deterministic)
        """The parameters that are searched, and their places in a vector."""
        self.noise = Noise(noise_seed(run.seed), self.space.size)
        self._evaluations = Evaluations(run, config, Perturbed(run.seed, config.noise_stddev))
        # Both episodes of a pair have the same parameters, so its members can be compared.
        run.environments.deal(ceil(config.n_rollouts_per_update / 2))

    def batches(self) -> Iterator[Batch]:
        """Evaluate a population; yield its indices and the ranks of its returns."""
        first = self._evaluations.next_pair
        results = self.evaluate_population()
        ranks = centred_ranks(np.concatenate([result.returns for result in results]))
        indices = torch.arange(first, self._evaluations.next_pair)
        yield Batch({}, {}, {"index": indices, "rank": torch.from_numpy(ranks)})
        self._evaluations.merge(results)

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return a surrogate, linear in the parameters, with gradient minus the estimate, and half their squared norm.

        The estimate is g = 1 / (2 n) * sum over pairs of (rank of theta + sigma eps - rank of theta - sigma eps) eps:
        the mean of the 2 n weighted directions, as in the paper's implementation, without the factor 1 / sigma, which
        has no meaning for ranks and cancels in Adam.
        """
        ranks = batch.extra["rank"].numpy()
        weights = (ranks[:, 0] - ranks[:, 1]) / ranks.size
        estimate = torch.from_numpy(self.noise.weighted_sum(batch.extra["index"].tolist(), weights))
        parameters = self.space.parameters(policy)
        gradients = self.space.split(estimate.to(parameters[0].device)).values()
        along = torch.stack([(p * g).sum() for p, g in zip(parameters, gradients, strict=True)]).sum()
        squares = torch.stack([p.square().sum() for p in parameters]).sum()
        total = -along + self.config.l2_penalty / 2 * squares
        norms = {"estimate_norm": estimate.norm(), "parameter_norm": squares.detach().sqrt()}
        return Loss(total, norms)

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return Adam, or gradient descent with momentum, over the searched parameters."""
        config, parameters = self.config, self.space.parameters(policy)
        if config.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=config.step_size, momentum=config.momentum)
        return Adam(parameters, lr=config.step_size)

    def evaluate_population(self) -> list[PairResults]:
        """Evaluate pairs until both minima are reached. Their number depends on results, not on the workers' speed."""
        config, results = self.config, list[PairResults]()
        self._evaluations.share(self.space.vector(self._run.policy))
        wanted = ceil(config.n_rollouts_per_update / 2)
        while wanted:
            results += self._evaluations.play(wanted)
            pairs = sum(len(result.returns) for result in results)
            steps = sum(int(result.lengths.sum()) for result in results)
            wanted = ceil(max(0, config.n_timesteps_per_update - steps) * pairs / steps)
        return results

    def state(self) -> dict[str, Any]:
        """Return the number of the next pair: with the parameters it determines the next population."""
        return {"next_pair": varies(self._evaluations.next_pair, Count())}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._evaluations.next_pair = state["next_pair"]
