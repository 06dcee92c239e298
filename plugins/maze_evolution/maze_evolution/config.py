"""The parameters of CMA-ES."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from maze_core import AlgorithmConfig


class CMAESConfig(AlgorithmConfig):
    """Covariance matrix adaptation."""

    epoch_length: PositiveInt = 10
    """Updates per epoch, each of one population."""
    population_size: Annotated[int, Field(ge=4, le=100_000)] | None = None
    """Members of a population, rounded up to an even number; none: 4 + 3 ln d for d parameters."""
    initial_stddev: PositiveFloat = 0.5
    """Standard deviation of the parameters of the first population around those of the new policy."""
    full_covariance_below: NonNegativeInt = 1000
    """Most parameters whose covariances are adapted; of more only the variances are."""
    n_episodes: PositiveInt = 1
    """Episodes of each member, whose mean return ranks it; more where returns are noisy."""
    max_steps: NonNegativeInt = 0
    """Steps after which a training episode is cut; 0: only the environment ends episodes."""
    deterministic: bool = True
    """Members take their most likely actions; false: they sample."""
    pairs_per_job: Annotated[int, Field(gt=0, le=10_000)] = 16
    """Pairs of members that a worker evaluates in one batch."""
    n_workers: Annotated[int, Field(gt=0, le=1000)] | None = None
    """Workers that evaluate the population; none: all workers of the runner. The result does not depend on it."""
