"""Estimates observation statistics before training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from maze_core.config.load import part_config
from maze_core.envs.spaces import allocate, space_specs
from maze_core.policies.base import build_policy_plugin
from maze_core.training.process_state import isolated_rng
from maze_core.training.seeding import EpisodeSeeds, Purpose, integer_seed, sequence

if TYPE_CHECKING:
    from maze_core.envs.vector import Tree, VectorEnv
    from maze_core.models.normalizer import ObservationNormalizer
    from maze_core.plugins.discovery import Loader
    from maze_core.policies.base import ActingPolicy

_ROWS = 4096
"""Observations buffered before the statistics are updated."""


def estimate_statistics(normalizer: ObservationNormalizer, env: VectorEnv, seed: int, load: Loader) -> None:
    """Estimate a normaliser's statistics from new episodes, with the number of steps and the policy plugin it names.

    These steps do not count as training. Up to N - 1 more are taken, since the N environments step together.

    Raises:
        ConfigError: there is no such policy plugin, or it does not fit the environment.
        RunError: the environment failed.
    """
    wanted = normalizer.estimation
    if not wanted.steps:
        return
    part = wanted.policy
    config = part_config("policy", {"name": part} if isinstance(part, str) else part, load=load)
    policy = build_policy_plugin(config, env.observation_space, env.action_space, load)
    with isolated_rng(integer_seed(seed, Purpose.NORMALIZATION)):
        _watch(normalizer, env, policy, seed)


def _watch(normalizer: ObservationNormalizer, env: VectorEnv, policy: ActingPolicy, seed: int) -> None:
    rngs = [
        np.random.Generator(np.random.PCG64(sequence(seed, Purpose.NORMALIZATION, row))) for row in range(env.num_envs)
    ]
    obs = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(EpisodeSeeds(seed, Purpose.NORMALIZATION), obs)
    for row in range(env.num_envs):
        policy.begin(row)
    seen: list[Tree] = []
    left = normalizer.estimation.steps
    while left > 0:
        before = {key: obs[key].copy() for key in normalizer.keys}
        result = env.step(policy.act(obs, rngs), obs)
        seen.append({key: leaf[result.valid] for key, leaf in before.items()})
        left -= int(result.valid.sum())
        for row in result.begun:
            policy.begin(row)
        if len(seen) * env.num_envs >= _ROWS or left <= 0:
            _observe(normalizer, seen)
            seen = []


def _observe(normalizer: ObservationNormalizer, seen: list[Tree]) -> None:
    device = normalizer.count.device
    normalizer.observe(
        {key: torch.from_numpy(np.concatenate([rows[key] for rows in seen])).to(device) for key in normalizer.keys}
    )
