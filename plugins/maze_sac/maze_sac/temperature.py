"""The entropy coefficient."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Temperature(nn.Module):
    """The entropy coefficient, learnt as its logarithm."""

    def __init__(self, initial: float, learns: bool) -> None:
        super().__init__()
        self.log_coef = nn.Parameter(torch.tensor(initial).log(), requires_grad=learns)

    def coefficient(self) -> Tensor:
        """The coefficient, without gradient, shape ()."""
        return self.log_coef.detach().exp()

    def loss(self, surplus: Tensor) -> Tensor:
        """Return the coefficient's loss for an entropy that exceeds its target by `surplus`, both of shape ()."""
        return self.log_coef * surplus
