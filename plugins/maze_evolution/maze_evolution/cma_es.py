"""CMA-ES: a population whose covariances adapt to what was good (Hansen and Ostermeier 2001), by the package `cma`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, log
from typing import Any, ClassVar

import numpy as np
import torch
from maze_es.evaluations import Evaluations
from maze_es.evaluator import PairJob
from maze_es.search_space import SearchSpace
from torch import Tensor

from maze_core import Algorithm, Batch, Count, Loss, Optimizer, Policy, Run, hookimpl, varies
from maze_core.data.batch import OwnStep
from maze_evolution.config import CMAESConfig
from maze_evolution.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Given:
    """The members are what was shared, [size, d]; each pair of them comes again after all others."""

    def of(self, searched: Tensor, job: PairJob) -> Tensor:
        """Return the members of a job."""
        rows = torch.arange(2 * job.first, 2 * (job.first + job.count)) % len(searched)
        return searched[rows]


class Still:
    """An optimizer that leaves the parameters as they are; one of torch takes a second to build."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), "lr": 0.0}]

    def step(self) -> None:
        """Take no step."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: there is no state."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore nothing."""


class CMAES(Algorithm):
    """CMA-ES, gradient-free, for every action space and small networks; the model needs no critic."""

    Config = CMAESConfig
    config: CMAESConfig
    supports_memory = True
    supports_actors = True
    calls = ()
    columns: ClassVar[Mapping[str, str]] = {"loss/stddev": "stddev"}
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"critic": "none", "hidden": [16]}}

    def setup(self, run: Run) -> None:
        """Determine the searched parameters and start the workers."""
        config = self.config
        self._run = run
        self.space = SearchSpace(run.policy, deterministic=config.deterministic)
        """The parameters that are searched, and their places in a vector."""
        size = config.population_size or 4 + int(3 * log(self.space.size))
        self._pairs = ceil(size / 2)
        self._strategy = Strategy(
            self.space.vector(run.policy).cpu().numpy(),
            config.initial_stddev,
            2 * self._pairs,
            run.seed,
            diagonal=self.space.size > config.full_covariance_below,
        )
        self._evaluations = Evaluations(run, config, Given())

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return an optimizer that takes no step: the strategy sets the parameters."""
        return Still(self.space.parameters(policy))

    def batches(self) -> Iterator[Batch | OwnStep]:
        """Evaluate a population; yield the step to the mean of its best members."""
        self._evaluations.share(torch.from_numpy(self._strategy.ask()).float())
        results = self._evaluations.play(self._pairs * self.config.n_episodes)
        returns = np.concatenate([result.returns for result in results]).reshape(self.config.n_episodes, -1)
        self._strategy.tell(returns.mean(0))
        yield OwnStep(self._step, self.space.parameters(self._run.policy))
        self._evaluations.merge(results)

    def _step(self) -> dict[str, Tensor]:
        """Set the policy's parameters to the mean."""
        parameters = self.space.parameters(self._run.policy)
        mean = torch.from_numpy(self._strategy.mean).float().to(parameters[0].device)
        with torch.no_grad():
            for parameter, part in zip(parameters, self.space.split(mean).values(), strict=True):
                parameter.copy_(part)
        return {"stddev": torch.tensor(self._strategy.stddev), "parameter_norm": mean.norm()}

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return 0: there is no batch to learn from."""
        return Loss(torch.zeros(()))

    def state(self) -> dict[str, Any]:
        """Return the values of all populations, from which the next one follows."""
        return {"strategy": self._strategy.state(), "next_pair": varies(self._evaluations.next_pair, Count())}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._strategy.load_state(state["strategy"])
        self._evaluations.next_pair = state["next_pair"]
