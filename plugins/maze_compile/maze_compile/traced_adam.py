"""Adam's step in torch's small operations, which a compiler joins with those of a loss and its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from maze_core import Adam
from maze_core.learn.optimizers import parts_of

if TYPE_CHECKING:
    from maze_core import Optimizer
    from maze_core.learn.optimizers import Lists

_MOST = 65_536
"""Parameters up to which this saves time; for more of them the kernel is as quick, which reads each number once."""


class TracedAdam:
    """The step of some groups of Adam on a CPU, of which a recording is repeated.

    It changes the same tensors as the optimizer's own step, to the same values but for rounding.

    Args:
        groups: settings of each group.
        members: parameters and state of each group.
    """

    def __init__(self, groups: list[dict[str, Any]], members: list[Lists]) -> None:
        self._groups = [_Group(group, *lists) for group, lists in zip(groups, members, strict=True)]
        self._ready = torch.ones((), dtype=torch.bool)
        self._written = self._ready.numpy()

    @staticmethod
    def of(optimizer: Optimizer, parameters: list[Tensor]) -> TracedAdam | None:
        """Return that of an optimizer and the parameters that learn; None: they do not fit.

        The optimizer has to be Adam, and the parameters all of some groups, in their order, and not too many.
        """
        if type(optimizer) is not Adam or sum(parameter.numel() for parameter in parameters) > _MOST:
            return None
        learning = {id(parameter) for parameter in parameters}
        pairs = zip(optimizer.param_groups, optimizer.lists, strict=True)
        chosen = [(group, lists) for group, lists in pairs if any(id(p) in learning for p in lists[0])]
        found = [parameter for _, (members, _) in chosen for parameter in members]
        fits = [id(p) for p in found] == [id(p) for p in parameters]
        if not fits or not all("means" in state for _, (_, state) in chosen):
            return None
        return TracedAdam([group for group, _ in chosen], [lists for _, lists in chosen])

    def prepare(self) -> bool:
        """Write what the next step reads; return False if it changes nothing, and the optimizer has to take it itself.

        That is so where some parameters of a group have taken more steps than others, or decay.
        """
        ready = all(group.prepare() for group in self._groups)
        self._written[...] = ready
        return ready

    @torch.no_grad()
    def step(self, gradient: Tensor, takes: Tensor) -> None:
        """Change parameters and moments; learning rates, decays and counts are those of the last `prepare`.

        Args:
            gradient: of all parameters, one after another, [P].
            takes: shape (), bool; False: everything stays as it is.
        """
        parts = torch.split(gradient, [group.size for group in self._groups])
        for group, part in zip(self._groups, parts, strict=True):
            group.step(part, takes & self._ready)

    @property
    def changed(self) -> list[Tensor]:
        """What a step changes, but for the counts."""
        return [tensor for group in self._groups for tensor in group.changed]

    def count(self) -> None:
        """Count a step."""
        for group in self._groups:
            group.count()


class _Group:
    def __init__(self, group: dict[str, Any], parameters: list[Tensor], state: dict[str, list[Tensor]]) -> None:
        self._group, self._parameters = group, parameters
        self.size = sum(parameter.numel() for parameter in parameters)
        self._mean, self._square = (state[name][0] for name in ("means", "squares"))
        self._counts = state["counts"][0].numpy()
        self._numbers = torch.zeros(5)
        self._written = self._numbers.numpy()

    @property
    def changed(self) -> list[Tensor]:
        return [*self._parameters, self._mean, self._square]

    def prepare(self) -> bool:
        (first, second), counts = self._group["betas"], self._counts.tolist()
        steps = counts[0] + 1
        root = (1 - second**steps) ** 0.5
        # Of both corrections of the bias one division remains.
        rate, eps = self._group["lr"] * root / (1 - first**steps), self._group["eps"] * root
        self._written[:] = rate, eps, 1 - first, second, 1 - second
        return len(set(counts)) == 1 and not self._group["weight_decay"]

    def step(self, gradient: Tensor, takes: Tensor) -> None:
        rate, eps, new, decay, new_square = self._numbers.unbind()
        mean = self._mean + (gradient - self._mean) * new
        square = self._square * decay + gradient * gradient * new_square
        change = torch.where(takes, rate * mean / (square.sqrt() + eps), 0.0)
        self._mean.copy_(torch.where(takes, mean, self._mean))
        self._square.copy_(torch.where(takes, square, self._square))
        for parameter, part in zip(self._parameters, parts_of(change, self._parameters), strict=True):
            parameter.sub_(part)

    def count(self) -> None:
        self._counts += 1
