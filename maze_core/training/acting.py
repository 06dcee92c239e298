"""A policy outside training: one observation in, one action out, both as the environment has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from maze_core.envs.codecs import ActionCodec, ObservationCodec

if TYPE_CHECKING:
    from maze_core.models.policy import Policy


def compute_action(
    policy: Policy, observation: Any, *, deterministic: bool = True, generator: torch.Generator | None = None
) -> Any:
    """The policy's action for one observation, in the action space's own structure, units and dtype.

    `generator` decides a sampled action; None: torch's global one.
    """
    codec = ObservationCodec(policy.observation_space)
    codec.check(observation)
    device = next(policy.parameters()).device
    obs = {key: torch.from_numpy(leaf).to(device) for key, leaf in codec.tree(observation).items()}
    with torch.inference_mode():
        distribution = policy.distribution(obs)
        if deterministic:
            samples = distribution.mode()
        else:
            noise = policy.draw_noise((1,), generator or torch.default_generator)
            samples = distribution.sample({key: leaf.to(device) for key, leaf in noise.items()})
        actions = {key: leaf.cpu().numpy() for key, leaf in distribution.env_action(samples).items()}
    return ActionCodec(policy.action_space).rows(actions)[0]
