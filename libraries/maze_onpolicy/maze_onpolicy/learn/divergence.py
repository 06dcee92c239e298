"""Which distributions a policy gives to actions, and whether they have a KL divergence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from maze_core import ConfigError, flatten_space, remembers, to_tensors
from maze_core.models.building import probe
from maze_core.models.distributions.chosen import default_name, fitting, has_divergence, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from maze_core import Policy


def check_divergence(policy: Policy, name: str) -> None:
    """Raise ConfigError unless all distributions of the policy have a KL divergence.

    `name`: what needs that, for the message.
    """
    leaves = flatten_space(policy.action_space, "action")
    for key, part in distributions_of(policy, leaves):
        if not has_divergence(type(part)):
            raise ConfigError(
                f"{name} needs a KL divergence for the action {key!r}, and the distribution {name_of(part)} has none",
                "model.distribution",
                f"Those that do: {', '.join(fitting(leaves[key], divergence=True))}. "
                f"Next: --set model.distribution={default_name(leaves[key])}",
            )


def distributions_of(policy: Policy, keys: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield a policy's distributions for some action leaves, those of each group where several actors act."""
    device = next(policy.parameters()).device
    obs = to_tensors(probe(policy.observation_space, 1), device)
    rows = len(next(iter(obs.values())))
    with torch.no_grad():
        remember = remembers(policy)
        distribution = policy.step(obs, policy.initial_state(rows))[0] if remember else policy.distribution(obs)
    for key in keys:
        leaf = distribution.parts[key]
        for part in leaf.parts.values() if hasattr(leaf, "parts") else [leaf]:  # where several actors act
            yield key, part
