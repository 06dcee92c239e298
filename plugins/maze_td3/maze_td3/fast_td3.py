"""FastTD3 (Seo et al., arXiv 2505.22642): TD3 for many parallel environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch
from maze_offpolicy import (
    DeterministicTargets,
    critics_of,
    cross_entropy,
    expectation,
    least_distribution,
    process_of,
    return_distribution,
)

from maze_core import Purpose, generator, hookimpl
from maze_td3.fast_config import FastTD3Config
from maze_td3.mixed_noise import MixedNoise
from maze_td3.td3 import TD3

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    import numpy as np
    from maze_offpolicy import StateActionCritics
    from torch import Tensor

    from maze_core import AlgorithmConfig, Batch, Loss, Optimizer, Policy, Run
    from maze_core.collect.agents.agent import Exploration
    from maze_core.envs.vector import StepResult

_MIXTURE = 5
# A random stream beside those of TD3.


class FastTD3(TD3):
    """TD3 with many environments, large batches, critics of distributions and noise of many sizes, for Box actions."""

    Config: ClassVar[type[AlgorithmConfig]] = FastTD3Config
    config: FastTD3Config
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {
            "distribution": "squashed_gaussian",
            "hidden": [512, 256, 128],
            "activation": "relu",
            "normalize_observations": True,
        },
        "callbacks": {"early_stopping": {"patience": 0}},
    }

    def _exploration(
        self, run: Run, rng: np.random.Generator
    ) -> tuple[Exploration, Callable[[StepResult], None] | None]:
        config, drawn = self.config, generator(run.seed, Purpose.POLICY_NOISE, _MIXTURE)
        rows = run.rows_of(config.num_envs)
        limits = lambda: (config.exploration_noise_min, config.exploration_noise)  # noqa: E731
        noise = MixedNoise(run.action_space, process_of(config, rng), rows, drawn, limits)
        return noise, noise.seen

    def _build_critics(self, run: Run) -> StateActionCritics:
        config = self.config
        self.atoms = torch.linspace(config.v_min, config.v_max, config.atoms, device=run.device)
        return critics_of(run, self.actions, config, config.atoms)

    def _build_targets(self, run: Run) -> DeterministicTargets:
        return DeterministicTargets(self.critics, run.policy, self.actions, self.noise, own_policy=False)

    def _follow(self, objective: str) -> None:
        if objective == "critic":
            self.targets.follow(self.config.tau)

    def build_optimizer(self, policy: Policy) -> Optimizer:
        """Return AdamW with a group for each objective."""
        return self._optimizer(policy, self.config.weight_decay)

    def loss_constants(self) -> Hashable:
        """Return nothing: the loss depends on tensors alone."""
        return ()

    @hookimpl
    def compute_loss(self, policy: Policy, batch: Batch) -> Loss:
        """Return the loss of the objective that the batch names."""
        return super().compute_loss(policy, batch)

    def _climbed(self, features: Tensor, acted: Tensor) -> Tensor:
        """Return the least expected return, [B]."""
        return expectation(self.critics.values(features, acted, frozen=True), self.atoms).amin(0)

    def _error(self, policy: Policy, batch: Batch, features: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.critics.values(features, self.actions.canonical(batch.actions))
        target = self._target(policy, batch)
        return cross_entropy(logits, target), expectation(logits.detach(), self.atoms).mean()

    @torch.no_grad()
    def _target(self, policy: Policy, batch: Batch) -> Tensor:
        """Return the probabilities of the atoms as the return, [B, M], by the target critic that expects least."""
        config, critics = self.config, self.targets.critics.module
        following = self.targets.actions(batch, config.target_noise, config.target_noise_clip)
        logits = critics.values(critics.features(policy.normalized(batch.next_obs)), following)
        following, atoms = least_distribution(logits, self.atoms), self.atoms
        return return_distribution(following, batch.extra["reward"], batch.extra["discount"], atoms, atoms)
