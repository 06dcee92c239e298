"""Constraints in algorithms that learn from replay: critics of costs, whose price the policy pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from maze_offpolicy import JointActions, Target, build_critics
from torch import Tensor, nn

from maze_core import Purpose
from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import integer_seed

if TYPE_CHECKING:
    from maze_offpolicy import StateActionCritics

    from maze_core import Batch, Policy, Run, TensorTree
    from maze_core.envs.vector import Episode
    from maze_safety.multipliers import Multipliers

_CRITICS = 3
# Separates the random numbers of their first parameters.


class Prices(nn.Module):
    """What the loss reads of the multipliers: tensors that stay where they are."""

    prices: Tensor
    share: Tensor

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("prices", torch.zeros(count))
        self.register_buffer("share", torch.ones(()))


class CostObjective:
    """The part of constraints in the loss of an algorithm with critics of states and actions. It never changes.

    Args:
        critics: K critics of costs.
        targets: their targets.
        prices: of the K constraints.
        actions: what the critics rate.
        columns: the columns of the K numbers in a batch, and what each is multiplied by to be a cost.
    """

    def __init__(
        self,
        critics: StateActionCritics,
        targets: StateActionCritics,
        prices: Prices,
        actions: JointActions,
        columns: Sequence[tuple[str, float]],
    ) -> None:
        self.critics, self.targets, self.prices, self.actions = critics, targets, prices, actions
        self.columns = tuple(columns)

    def error(
        self,
        policy: Policy,
        batch: Batch,
        following: Tensor | None,
        expected: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """Return half the mean squared error of the critics, summed over them, shape ().

        Args:
            policy: normalises the observations.
            batch: transitions, with the numbers of the constraints.
            following: [B, d] Box actions that follow, in [-1, 1]; None: there are none.
            expected: returns the expected values [K, B] of what follows, from those of all choices [K, B, C].
        """
        actions, data = self.actions, batch.extra
        acting = actions.acting(batch.obs)
        features = self.critics.features(policy.normalized(batch.obs))
        taken = self.critics.values(features, actions.canonical(batch.actions, acting))
        values = actions.chosen(taken, batch.actions, acting)
        with torch.no_grad():
            after = expected(self.targets.values(self.targets.features(policy.normalized(batch.next_obs)), following))
            costs = torch.stack([factor * data[name] for name, factor in self.columns])
            target = torch.addcmul(costs, data["discount"], after)
        return 0.5 * (values - target).square().mean(-1).sum()

    def values(
        self, policy: Policy, obs: TensorTree, box: Tensor | None, expected: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Return what a decision is expected to cost, [K, B], differentiable in it alone; arguments as for `error`."""
        with torch.no_grad():
            features = self.critics.features(policy.normalized(obs))
        return expected(self.critics.values(features, box, frozen=True))

    def penalized(self, loss: Tensor, costs: Tensor) -> Tensor:
        """Return the policy's loss plus the price of its costs [K, B], divided by 1 + the sum of the multipliers."""
        total: Tensor = (loss + self.prices.prices @ costs.mean(-1)) * self.prices.share
        return total


class ReplayCosts:
    """The costs of replayed transitions: what an off-policy algorithm asks for.

    Args:
        run: its algorithm keeps the multipliers.
        multipliers: those of its constraints.
        actions: what its critics rate.
    """

    def __init__(self, run: Run, multipliers: Multipliers, actions: JointActions) -> None:
        config: Any = run.config.algorithm
        count = len(multipliers.names)
        with isolated_rng(integer_seed(run.seed, Purpose.MODEL_INIT, _CRITICS)):
            layers = config.critic_hidden, config.critic_activation, count
            critics = build_critics(run.policy, actions.box_size, actions.outputs, *layers).to(run.device)
        self._run, self._multipliers, self.critics, self._target = run, multipliers, critics, Target(critics)
        self._prices = Prices(count).to(run.device)
        factors = (each.sign / each.unit for each in multipliers.limits)
        columns = list(zip(multipliers.config.info_columns, factors, strict=True))
        self.loss = CostObjective(critics, self._target.module, self._prices, actions, columns)

    def modules(self) -> dict[str, nn.Module]:
        """Return the critics, their targets and the prices."""
        return {"cost_critics": self.critics, "cost_targets": self._target.module, "cost_prices": self._prices}

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Take note of episodes that ended, and move the multipliers where it is time."""
        self._multipliers.observe(episodes)
        if self._multipliers.is_due(self._run.learner.steps):
            self._multipliers.move()
            self._refresh()

    def weigh(self, values: Tensor, costs: Tensor) -> None:
        """Take note of how values [B] and costs [K, B] of the policy's decisions vary."""
        self._multipliers.weigh(values.std(correction=0).item(), costs.std(-1, correction=0).tolist())
        self._refresh()

    def follow(self, tau: float) -> None:
        """Move the targets towards the critics."""
        self._target.follow(tau)

    def _refresh(self) -> None:
        self._prices.prices.copy_(torch.from_numpy(self._multipliers.prices))
        self._prices.share.fill_(self._multipliers.share)
