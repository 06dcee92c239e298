"""Algorithms with policies and distributions of their own, which a strict type checker takes without casts."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from maze_core import Adam, Algorithm, AlgorithmConfig, Batch, Loss, Run, hookimpl
from maze_core.data.sequences import Sequences
from maze_core.models.distributions.base import TreeDistribution
from maze_core.models.policy import Policy


class Quantiles:
    """A distribution of one's own."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def sample(self, noise: Tensor) -> Tensor:
        return self.values

    def mode(self) -> Tensor:
        return self.values

    def log_prob(self, sample: Tensor) -> Tensor:
        return self.values

    def entropy(self) -> Tensor:
        return self.values

    def kl(self, other: Quantiles) -> Tensor:
        return self.values - other.values

    def env_action(self, sample: Tensor) -> Tensor:
        return sample

    def from_env_action(self, action: Tensor) -> Tensor:
        return action

    @staticmethod
    def draw_noise(shape: tuple[int, ...], generator: object) -> Tensor:
        raise NotImplementedError


class MyPolicy(Policy):
    def distribution(self, obs: dict[str, Tensor], sequences: Sequences | None = None) -> TreeDistribution:
        return TreeDistribution({"action": Quantiles(obs["observation"])})

    def quantiles(self, obs: dict[str, Tensor]) -> Tensor:
        return obs["observation"]


class Unrelated(nn.Module):
    def quantiles(self, obs: dict[str, Tensor]) -> Tensor:
        return obs["observation"]


class Mine(Algorithm[MyPolicy]):
    Config = AlgorithmConfig

    def setup(self, run: Run) -> None:
        assert isinstance(run.policy, MyPolicy)
        self._policy = run.policy

    def build_optimizer(self, policy: MyPolicy) -> Adam:
        return Adam(policy.parameters(), lr=1e-3)

    def batches(self) -> Iterator[Batch]:
        yield Batch({}, {})

    @hookimpl
    def compute_loss(self, policy: MyPolicy, batch: Batch) -> Loss:
        return Loss(policy.quantiles(batch.obs).sum() + self._policy.quantiles(batch.obs).sum())


class Other(Algorithm[Unrelated]):
    Config = AlgorithmConfig

    def setup(self, run: Run) -> None:
        policy: nn.Module = run.policy
        assert isinstance(policy, Unrelated)
        self._policy = policy

    def batches(self) -> Iterator[Batch]:
        yield Batch({}, {})

    @hookimpl
    def compute_loss(self, policy: Unrelated, batch: Batch) -> Loss:
        return Loss(policy.quantiles(batch.obs).sum())


class Usual(Algorithm):
    Config = AlgorithmConfig

    def setup(self, run: Run) -> None: ...

    def batches(self) -> Iterator[Batch]:
        yield Batch({}, {})

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        return Loss(policy.value(batch.obs).sum())
