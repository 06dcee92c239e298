"""What stands for the policy until RLlib's own network is built."""

from __future__ import annotations

from typing import Any

from torch import nn


class Placeholder(nn.Module):
    """A policy that has no parameters and never acts, so that the run's model need not fit the environment."""

    normalizer = None
    has_critic = False

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
