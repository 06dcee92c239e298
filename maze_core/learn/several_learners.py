"""Several learners for one run. Another distribution, maze-learners, has the processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install

if TYPE_CHECKING:
    from torch import Tensor, nn

    from maze_core.data.batch import Batch, Loss
    from maze_core.plugins.discovery import Loader
    from maze_core.plugins.hookspecs import Run

LEARNERS = "maze.learners"
"""The entry-point group for further learners: `processes` is called with the arguments of `further_learners`."""


class FurtherLearners(Protocol):
    """The learners of a run besides the process that owns it."""

    def deal(self, batch: Batch, parameters: Sequence[int] | None) -> Batch:
        """Send each learner its share of a batch; return that of this process.

        `parameters`: numbers of those that learn from this batch; None: all.
        """

    def combined(self, loss: Loss) -> Loss:
        """Set the gradients to those of the whole batch; return its loss. `loss`: of this process's share."""

    def close(self) -> None:
        """Close the connections. The run closes the workers."""


def is_installed() -> bool:
    """Return True if a distribution has further learners."""
    return bool(discovery.entries(LEARNERS, "processes"))


def check_installed(learners: int) -> None:
    """Raise ConfigError where a run has several learners and no distribution has further ones."""
    if learners > 1 and not is_installed():
        raise ConfigError(
            "several learners need maze-learners, which is not installed",
            "learners",
            f"Next: {how_to_install('maze-learners')}, or --set learners=1",
        )


def further_learners(
    run: Run, parameters: Sequence[Tensor], modules: dict[str, nn.Module], load: Loader
) -> FurtherLearners:
    """Start and return the further learners of a run.

    Args:
        run: its algorithm is set up.
        parameters: those that learn, in the order of the optimizer.
        modules: the networks besides the policy.
        load: how plugin classes are found.

    Raises:
        ConfigError: they are not installed, or something the loss needs cannot be sent to other processes.
        PluginError: the loss cannot be built there, or the optimizer has parameters that belong to no network.
        RunError: a learner failed to start.
    """
    check_installed(run.config.learners)
    (claim, *_) = discovery.entries(LEARNERS, "processes")
    started: FurtherLearners = discovery.import_claim(claim)(run, parameters, modules, load)
    return started
