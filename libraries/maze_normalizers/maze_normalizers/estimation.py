"""Estimates observation statistics before training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core.base.process_state import isolated_rng
from maze_core.base.seeding import EpisodeSeeds, Purpose, generator, integer_seed
from maze_core.base.tree import to_device
from maze_core.collect.agents.rule import RuleAgent
from maze_core.collect.policies.base import build_policy_plugin
from maze_core.collect.stepper import Stepper
from maze_core.envs.spaces import allocate, space_specs

if TYPE_CHECKING:
    from maze_core.base.tree import Tree
    from maze_core.collect.agents.agent import Choice
    from maze_core.envs.vector import StepResult, VectorEnv
    from maze_core.plugins.config.base import PluginConfig
    from maze_normalizers.normalizer import ObservationNormalizer


_ROWS = 4096
"""Observations buffered before the statistics are updated."""


def estimate_statistics(normalizer: ObservationNormalizer, env: VectorEnv, seed: int, policy: PluginConfig) -> None:
    """Estimate a normaliser's statistics from new episodes of a policy plugin, with the number of steps it names.

    These steps do not count as training. Up to N - 1 more are taken, since the N environments step together.

    Raises:
        ConfigError: the policy does not fit the environment.
        RunError: the environment failed.
    """
    acting = build_policy_plugin(policy, env.observation_space, env.action_space)
    rngs = [generator(seed, Purpose.NORMALIZATION, row) for row in range(env.num_envs)]
    agent, stepper = RuleAgent(acting, rngs, env.action_space), Stepper(env, EpisodeSeeds(seed, Purpose.NORMALIZATION))
    seen = _Seen(normalizer, env)
    with isolated_rng(integer_seed(seed, Purpose.NORMALIZATION)):
        stepper.reset(seen.next_buffer({}))
        while seen.steps < normalizer.estimation.steps:
            stepper.step(agent, seen)
        seen.show()


class _Seen:
    """A sink that shows a normaliser the observations that were acted on, some thousand at a time."""

    def __init__(self, normalizer: ObservationNormalizer, env: VectorEnv) -> None:
        self.steps = 0
        """Steps taken, of all environments together."""
        self._normalizer = normalizer
        self._specs, self._num_envs = space_specs(env.observation_space, "observation"), env.num_envs
        self._rows: list[Tree] = []

    def next_buffer(self, obs: Tree) -> Tree:
        """Return new arrays: the current ones are kept."""
        return allocate(self._specs, (self._num_envs,))

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Keep the observations of a step."""
        self._rows.append({key: obs[key][result.valid] for key in self._normalizer.keys})
        self.steps += int(result.valid.sum())
        if len(self._rows) * self._num_envs >= _ROWS:
            self.show()

    def show(self) -> None:
        """Show the normaliser what was kept."""
        rows, self._rows = self._rows, []
        if rows:
            device = self._normalizer.count.device
            keys = self._normalizer.keys
            leaves = {key: torch.from_numpy(np.concatenate([row[key] for row in rows])) for key in keys}
            self._normalizer.observe(to_device(leaves, device))
