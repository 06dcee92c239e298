"""The evaluation of a population by the workers of a run, pair by pair; also for other algorithms that search."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

from maze_core import to_tensors
from maze_core.collect.pools.workers import OrderedResults
from maze_core.envs.vector import Episode
from maze_es.evaluator import PARAMETERS, EvaluatePairs, Members, PairJob, PairResults

if TYPE_CHECKING:
    from torch import Tensor

    from maze_core import Run
    from maze_core.base.seeding import Values


class Evaluations:
    """Plays an episode with each member of the next pairs, and counts steps and episodes for the run.

    Results depend on the pairs' numbers and on what was shared, not on the workers.

    Args:
        run: provides the policy, the environments and the workers.
        config: with `pairs_per_job`, `max_steps`, `deterministic` and `n_workers`, as of ES.
        members: says what the parameters of a pair's members are.
    """

    def __init__(self, run: Run, config: Any, members: Members) -> None:
        self._run, self._pairs_per_job = run, config.pairs_per_job
        self.next_pair = 0
        """The number of pairs so far."""
        task = EvaluatePairs(
            builder=run.env_builder("training"),
            policy=run.policy,
            seed=run.seed,
            members=members,
            pairs_per_job=config.pairs_per_job,
            max_steps=config.max_steps,
            deterministic=config.deterministic,
        )
        self._workers = run.workers(task, config.n_workers)
        self._results = OrderedResults(self._workers)

    def share(self, searched: Tensor) -> None:
        """Share what members are computed from, and the policy's buffers, once for all pairs of an update."""
        policy = self._run.policy
        learnt = {name for name, _ in policy.named_parameters()}
        buffers = {name: value.cpu().numpy() for name, value in policy.state_dict().items() if name not in learnt}
        self._workers.share({PARAMETERS: searched.cpu().numpy(), **buffers})

    def play(self, pairs: int) -> list[PairResults]:
        """Evaluate the next pairs, in jobs of nearly equal size that do not depend on the workers."""
        jobs = ceil(pairs / self._pairs_per_job)
        bounds = [self.next_pair + pairs * i // jobs for i in range(jobs + 1)]
        played = self._results.each(PairJob(a, b - a, self._parameters(a, b)) for a, b in pairwise(bounds))
        results = []
        for first, result in zip(bounds, played, strict=False):
            results.append(result)
            self._count(first, results[-1])
        self.next_pair += pairs
        return results

    def _parameters(self, first: int, end: int) -> tuple[Values, ...]:
        """Return those of the environment in the episodes of these pairs; empty where nobody chooses them."""
        plan = self._run.environments.plan
        rows = () if plan is None else plan.rows
        return tuple(dict(rows[pair % len(rows)]) for pair in range(first, end)) if rows else ()

    def merge(self, results: list[PairResults]) -> None:
        """Add the observations of these pairs to the policy's normaliser, if it has one."""
        if self._run.policy.normalizer is not None:
            for result in results:
                self._run.policy.normalizer.merge(to_tensors(result.moments))

    def _count(self, first: int, result: PairResults) -> None:
        self._run.count_env_steps(int(result.lengths.sum()))
        given = self._parameters(first, first + len(result.returns))
        self._run.statistics.add(
            Episode(
                *(side, first + i, float(result.returns[i, side]), int(result.lengths[i, side])),
                parameters=given[i] if given else None,
            )
            for i in range(len(result.returns))
            for side in (0, 1)
        )
