"""Networks of callbacks that learn beside the algorithm: with an optimizer, a limit and batches of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from maze_core.base.errors import PluginError
from maze_core.base.saved_state import Count, varies
from maze_core.collect.collector import load_state_of, put, state_of
from maze_core.learn.learner import Learner
from maze_core.learn.optimizers import Adam

if TYPE_CHECKING:
    from torch import nn

    from maze_core.collect.collector import Kept
    from maze_core.data.batch import Batch, Loss
    from maze_core.learn.optimizers import Optimizer

B = TypeVar("B", default="Batch")
K = TypeVar("K", bound="Kept")


class SideLearner(Generic[B]):
    """A network and how it learns, returned from the hook `build_modules` in the place of the network alone.

    After an update of the algorithm it takes its own ones: an update is one pass over `batches()`, with an optimizer
    step for each batch. Neither its gradients nor their limit have anything to do with the algorithm's. Checkpoints
    contain network, optimizer, and what `keep` was given. A schedule of the algorithm's learning rate does not apply.

    Args:
        network: what learns; its parameters without `requires_grad` are saved, too.
        loss: returns the loss of a batch.
        batches: yields the batches of one update: `Batch`es, or whatever `loss` takes; nothing where there is no data.
        lr: learning rate of Adam, if `optimizer` is None.
        optimizer: of the network's parameters.
        max_grad_norm: the limit of the norm of a step's gradient; 0: none.
        updates_per_epoch: spread evenly over the algorithm's updates of an epoch, several after one where there are
            more; None: one after each.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[B], Loss],
        batches: Callable[[], Iterable[B]],
        *,
        lr: float = 1e-3,
        optimizer: Optimizer | None = None,
        max_grad_norm: float = 0.0,
        updates_per_epoch: int | None = None,
    ) -> None:
        if updates_per_epoch is not None and updates_per_epoch < 0:
            raise PluginError(f"updates_per_epoch must not be negative, got {updates_per_epoch}")
        learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
        if not learning:
            raise PluginError("a network that learns beside the algorithm has no parameter that learns")
        self.network = network
        self.updates = 0
        """Passes over `batches()` since the start of the run."""
        self._loss, self._batches, self._per_epoch = loss, batches, updates_per_epoch
        self._optimizer: Optimizer = optimizer or Adam(learning, lr=lr)
        self._max_grad_norm = max_grad_norm
        self._kept: dict[str, Kept] = {}

    @cached_property
    def _learner(self) -> Learner:
        """Takes the steps; built when the network is on the run's device."""
        return Learner(self.network, {}, self._optimizer, self._max_grad_norm)

    def keep(self, name: str, part: K) -> K:
        """Save `part` with every checkpoint, restore it with a resumed run, and return it.

        `part`: an object with `state()` and `load_state(state)`, or a random generator of numpy or torch.
        """
        put(self._kept, name, part)
        return part

    def learn(self, number: int, epoch_length: int) -> None:
        """Take the updates that are due after an update of the algorithm; `number` counts those before it in the epoch.

        Raises:
            RunError: a loss or gradient is not finite, or reaches no parameter.
        """
        wanted = epoch_length if self._per_epoch is None else self._per_epoch
        for _ in range((number + 1) * wanted // epoch_length - number * wanted // epoch_length):
            for batch in self._batches():
                self._learner.step(self._loss(batch))
            self._learner.check()
            self.updates += 1

    def epoch_metrics(self) -> dict[str, float]:
        """Return means over the steps since the last call, by names without `loss/`."""
        return {name.removeprefix("loss/"): value for name, value in self._learner.epoch_metrics().items()}

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the network."""
        kept = {name: state_of(part) for name, part in self._kept.items()}
        return {"learner": self._learner.state(), "updates": varies(self.updates, Count()), "kept": kept}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        self._learner.load_state(state["learner"])
        self.updates = state["updates"]
        for name, part in self._kept.items():
            load_state_of(part, state["kept"][name])
