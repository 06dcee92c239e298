"""The contract of an algorithm: data is an iterator of batches, the objective is a hook, the loop is the core's."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from gymnasium import spaces
from torch import nn

from maze_core.config.run import AlgorithmConfig, RunConfig
from maze_core.data.batch import Batch, Loss
from maze_core.envs.spaces import flatten_space
from maze_core.errors import ConfigError
from maze_core.training.adam import Adam, Optimizer

if TYPE_CHECKING:
    from maze_core.models.policy import Policy
    from maze_core.training.learner import Learner
    from maze_core.training.run import Run


class Algorithm(ABC):
    """A learning algorithm. Subclasses give the batches of an update and the loss of a batch.

    Life: constructed with its config; `check`; `setup`; `load_state` where a run is resumed; then for each update the
    core iterates `batches()`, and after each batch it yields takes one optimizer step on `compute_loss`.
    Code after a `yield` therefore runs after that step.
    """

    Config: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """What this algorithm prefers for the other parts of a run, such as `{"model": {"critic": "none"}}`.

    It holds where nothing else is configured, for fields that the chosen plugin of the part has. Presets, files and
    flags win.
    """

    action_spaces: ClassVar[tuple[type[spaces.Space[Any]], ...]] = (
        spaces.Box,
        spaces.Discrete,
        spaces.MultiDiscrete,
        spaces.MultiBinary,
        spaces.Dict,
    )
    """The action spaces this algorithm takes, all unless overridden; without Dict only one of the others at a time.

    A run with another is refused before the first step. Observations are the model's business.
    """

    def __init__(self, config: Any) -> None:
        self.config = config

    def check(self, config: RunConfig) -> None:  # noqa: B027 — most algorithms accept every run
        """Raise ConfigError where this algorithm cannot run under the whole configuration. Nothing is built yet."""

    def check_action_space(self, space: spaces.Space[Any]) -> None:
        """Raise ConfigError for an action space that is not among `action_spaces`."""
        kinds = {type(leaf) for leaf in flatten_space(space, "action").values()}
        several = isinstance(space, spaces.Dict | spaces.Tuple)
        wrong = [kind.__name__ for kind in kinds if not issubclass(kind, self.action_spaces)]
        if wrong or (several and spaces.Dict not in self.action_spaces):
            taken = ", ".join(kind.__name__ for kind in self.action_spaces)
            raise ConfigError(
                f"{self.config.name} takes actions of {taken}, and this environment has {space}",
                "algorithm",
                "Take another algorithm, or wrap the environment.",
            )

    @abstractmethod
    def setup(self, run: Run) -> None:
        """Build what the algorithm needs: collectors, buffers, further networks. `run.policy` is there."""

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """The data of one update, one batch for each optimizer step. Collection happens here."""

    @abstractmethod
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """The objective of one batch. Implementations carry the `hookimpl` mark."""

    def modules(self) -> dict[str, nn.Module]:
        """Further networks that learn or are saved beside the policy, by name, such as critics and their targets."""
        return {}

    @property
    def max_grad_norm(self) -> float:
        """Global norm that gradients are clipped to; 0: no clipping."""
        return getattr(self.config, "max_grad_norm", 0.0)

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """The optimizer of every parameter that learns; Adam with `config.lr` unless overridden."""
        parameters = [p for p in policy.parameters() if p.requires_grad]
        return Adam(parameters, lr=self.config.lr)

    @property
    def epoch_length(self) -> int:
        """Updates in one epoch, after `setup`."""
        length: int = self.config.epoch_length
        return length

    def score(self, metrics: Mapping[str, float]) -> float:
        """How good the policy is, by an epoch's metrics: more is better, nan says nothing. The best one is kept."""
        return metrics.get("eval/return_mean", math.nan)

    def train_epoch(self, learner: Learner, updates: int) -> None:
        """Take `updates` updates. An algorithm that trains by other means overrides this."""
        for _ in range(updates):
            if not learner.update(self.batches()):
                return

    def state(self) -> dict[str, Any]:
        """What a resumed run needs beside networks and optimizer: nested dicts of plain values, arrays, tensors."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027 — the twin of `state`
        """Take up a state that `state` gave."""

    @property
    def disk_bytes(self) -> int:
        """Bytes that this algorithm may come to keep in the run directory beside networks and optimizer."""
        return 0

    def close(self) -> None:  # noqa: B027 — most algorithms hold nothing
        """Release what `setup` acquired; safe to call twice, also after a failed set-up."""
