"""A policy outside training: one observation in, one action out, both as the environment has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from maze_core.acting.network import NetworkAgent, SharedNoise
from maze_core.envs.codecs import ActionCodec, ObservationCodec

if TYPE_CHECKING:
    from maze_core.models.policy import Policy


def compute_action(
    policy: Policy, observation: Any, *, deterministic: bool = True, generator: torch.Generator | None = None
) -> Any:
    """Return the policy's action for one observation, in the action space's own structure, units and dtype.

    `generator` decides a sampled action; None: torch's global one.
    """
    codec = ObservationCodec(policy.observation_space)
    codec.check(observation)
    noise = None if deterministic else SharedNoise(1, generator or torch.default_generator)
    choice = NetworkAgent(policy, noise).act(codec.tree(observation))
    return ActionCodec(policy.action_space).rows(choice.actions)[0]
