"""A trained network as a policy that acts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core.config.base import PluginConfig
from maze_core.policies.base import ActingPolicy

if TYPE_CHECKING:
    from maze_core.data.batch import TensorTree
    from maze_core.envs.vector import Tree
    from maze_core.models.policy import Policy


class NetworkPolicy(ActingPolicy):
    """Acts with a policy network: by its most likely actions, or by samples."""

    def __init__(self, policy: Policy, *, deterministic: bool) -> None:
        super().__init__(PluginConfig())
        self.policy = policy.eval()
        self._deterministic = deterministic
        self._generator = torch.Generator()

    def act(self, obs: Tree, rngs: Sequence[np.random.Generator]) -> Tree:
        """One forward for all rows; each row's noise comes from its own generator."""
        device = next(self.policy.parameters()).device
        with torch.inference_mode():
            distribution = self.policy.distribution({k: torch.from_numpy(leaf).to(device) for k, leaf in obs.items()})
            if self._deterministic:
                samples = distribution.mode()
            else:
                samples = distribution.sample({k: leaf.to(device) for k, leaf in self._noise(rngs).items()})
            return {key: leaf.cpu().numpy() for key, leaf in distribution.env_action(samples).items()}

    def _noise(self, rngs: Sequence[np.random.Generator]) -> TensorTree:
        """Leaves [N, …]"""
        rows = []
        for rng in rngs:
            self._generator.manual_seed(int(rng.integers(2**63)))
            rows.append(self.policy.draw_noise((1,), self._generator))
        return {key: torch.cat([row[key] for row in rows]) for key in rows[0]}
