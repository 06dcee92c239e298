"""Critic burn-in: the first epochs of an actor-critic, in which only the critic learns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from torch import Tensor, nn

from maze_core import ConfigError
from maze_onpolicy.closed_form.actor_critic import ClosedForm

if TYPE_CHECKING:
    from maze_core import Policy, Sequences, TensorTree, TreeDistribution
    from maze_core.plugins.hookspecs import Run


class CriticBurnIn:
    """Keeps the action distribution unchanged during the burn-in.

    Parameters that the critic shares with the policy are frozen. The running statistics of an observation normaliser
    affect the policy too: code that updates them checks `active` first.

    Args:
        run: provides the policy and the number of finished epochs.
        epochs: length of the burn-in; 0: none.

    Raises:
        ConfigError: the critic shares all its parameters with the policy, so nothing could learn.
    """

    def __init__(self, run: Run, epochs: int) -> None:
        self._run, self._epochs = run, epochs
        self._acting = _acting_parameters(run) if epochs else []
        self._found: tuple[int, ClosedForm | None] | None = None

    @property
    def active(self) -> bool:
        """True during the burn-in epochs."""
        return self._run.epoch < self._epochs

    def closed_form(self) -> ClosedForm | None:
        """Return the closed form of the run's policy; None during the burn-in, and where autograd is needed.

        The policy's modules are looked at once an epoch.
        """
        run = self._run
        if run.repeated is not None and run.repeated.recording:
            return None
        if self._found is None or self._found[0] != run.epoch:
            formulas = run.config.closed_form and not self.active
            self._found = run.epoch, ClosedForm.of(run.policy) if formulas else None
        return self._found[1]

    def forward(
        self, policy: Policy, obs: TensorTree, sequences: Sequences | None = None
    ) -> tuple[TreeDistribution, Tensor]:
        """Return distribution and value [B]; during the burn-in only the critic's own parameters get gradients."""
        frozen = _frozen(self._acting) if self.active else nullcontext()
        with frozen:
            result: tuple[TreeDistribution, Tensor] = policy(obs) if sequences is None else policy(obs, sequences)
        return result


def _acting_parameters(run: Run) -> list[nn.Parameter]:
    """Return the parameters that the action distribution depends on; a custom policy may share any with its critic."""
    from maze_onpolicy.learn.parameters import policy_parameters

    found = policy_parameters(run.policy)
    if not found.critic:
        raise ConfigError(
            "the critic has no parameters of its own to train before the policy",
            "algorithm.critic_burn_in_epochs",
            "Set it to 0, or give the critic its own layers.",
        )
    return found.deciding


@contextmanager
def _frozen(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Disable gradients for these parameters inside the block."""
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
