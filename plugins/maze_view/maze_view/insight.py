"""What a policy thinks at every step of an episode: values, probabilities, entropies, most likely actions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces

from maze_core import Sequences, flatten_space, remembers
from maze_core.models.distributions import Bernoulli, Categorical, MultiCategorical
from maze_core.models.memory import hears

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Policy, Trajectory

_ROWS = 512
"""Rows of one forward pass."""


@dataclass
class Insight:
    """What a policy thinks in L steps."""

    value: np.ndarray | None = None
    """The critic's estimates, [L]; None without a critic."""
    entropy: np.ndarray | None = None
    """[L], in nats."""
    bars: dict[str, np.ndarray] = field(default_factory=dict)
    """By action leaf: a number for each choice or bit, [L, C]; members of a MultiDiscrete one after the other."""
    unit: str = "probability"
    """What the bars are: probabilities, or values of the choices."""
    likely: dict[str, np.ndarray] = field(default_factory=dict)
    """By Box leaf: the most likely action in environment units, [L, …]."""


@torch.inference_mode()
def insight(policy: Policy, trajectory: Trajectory) -> Insight:
    """Return what a policy thinks at each step; an episode's rows are one sequence for a policy that remembers."""
    if hears(policy):  # what it thinks depends on what was done and paid, in the units of its run
        return Insight()
    length = len(trajectory)
    device = next(policy.parameters()).device
    obs = {key: torch.from_numpy(np.array(leaf[:length])).to(device) for key, leaf in trajectory.obs.items()}
    policy.eval()
    if remembers(policy):
        sequence = Sequences(np.array([length], np.int64), policy.initial_state(1))
        parts = [_think(policy, obs, sequence)]
    else:
        starts = range(0, length, _ROWS)
        parts = [_think(policy, {key: leaf[at : at + _ROWS] for key, leaf in obs.items()}, None) for at in starts]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    pick = {kind: {n.partition(":")[2]: v for n, v in whole.items() if n.startswith(f"{kind}:")} for kind in _KINDS}
    unit = "value" if getattr(policy, "logits_are_values", False) else "probability"
    entropy = None if unit == "value" else whole.get("entropy")
    return Insight(whole.get("value"), entropy, pick["bars"], unit, pick["likely"])


_KINDS = ("bars", "likely")


def _think(policy: Policy, obs: dict[str, torch.Tensor], sequence: Sequences | None) -> dict[str, np.ndarray]:
    distribution = policy.distribution(obs, sequence) if sequence is not None else policy.distribution(obs)
    found: dict[str, Any] = {"entropy": distribution.entropy()}
    if getattr(policy, "has_critic", False):
        found["value"] = policy.value(obs, sequence) if sequence is not None else policy.value(obs)
    actions = flatten_space(policy.action_space, "action")
    for key, part in distribution.parts.items():
        bars = _bars(part, actions.get(key), values=getattr(policy, "logits_are_values", False))
        if bars is not None:
            found[f"bars:{key}"] = bars
        elif isinstance(actions.get(key), spaces.Box):
            found[f"likely:{key}"] = part.env_action(part.mode())
    return {name: leaf.numpy(force=True) for name, leaf in found.items()}


def _bars(part: Any, space: Space[Any] | None, *, values: bool) -> torch.Tensor | None:
    """Return a number for each choice of a leaf, [B, C]; None for leaves without choices."""
    if isinstance(part, Categorical):
        return part.logits if values else part.log_probs.exp()
    if isinstance(part, MultiCategorical) and isinstance(space, spaces.MultiDiscrete):
        padded = part.choices.logits if values else part.choices.log_probs.exp()
        sizes = space.nvec.reshape(-1)
        return torch.cat([padded[:, member, :size] for member, size in enumerate(sizes)], -1)
    if isinstance(part, Bernoulli) and not values:
        return torch.sigmoid(part.logits).flatten(1)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and not values:
        log_probs: torch.Tensor | None = getattr(part, "log_probs", None)
        return None if log_probs is None else log_probs.exp()
    return None
