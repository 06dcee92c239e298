"""Actions of any space for critics: Box leaves are inputs, discrete leaves have a value per choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from maze_onpolicy import distributions_of
from torch import Tensor, nn

from maze_core import ConfigError, flatten_space
from maze_core.envs.actors import ACTOR, ActorId, actors_of
from maze_core.envs.masks import mask_leaves
from maze_core.models.distributions import Bernoulli, BoxScale, MultiCategorical, SquashedGaussian
from maze_core.models.distributions.chosen import default_name, fitting, name_of
from maze_core.models.inputs import joined_mask

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Policy, TensorTree


class JointActions(nn.Module):
    """All action leaves of an environment: d dimensions of Box leaves, C choices of discrete ones.

    A choice is a value of a Discrete, a value of a MultiDiscrete's member, or a value (0 or 1) of a MultiBinary's bit.
    The value of an action is the sum of the values of its choices, which the critics return for given Box actions.
    With Box leaves only they return one value.

    Where several actors act, only the leaves of a row's actor count: `acting` says which they are. The critics then
    return one more value where some actors have Box leaves only, that of having no choice.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any]) -> None:
        super().__init__()
        leaves = flatten_space(action_space, "action")
        self.boxes = {key: BoxScale(space) for key, space in leaves.items() if isinstance(space, spaces.Box)}
        """The scales of the Box leaves, by key."""
        self._scales = nn.ModuleList(self.boxes.values())
        self.choices = {key: _choices(space) for key, space in leaves.items() if key not in self.boxes}
        """The number of choices of each member of the discrete leaves, by key."""
        self.masks = mask_leaves(observation_space, action_space)
        """The leaves of the observations that mask action leaves, by the key of the leaf."""
        self.box_size = sum(scale.size for scale in self.boxes.values())
        sizes = [size for members in self.choices.values() for size in members]
        self.choice_count = sum(sizes)
        actors = actors_of(observation_space)
        self.several_actors = actors is not None
        """True where only the leaves of a row's actor count."""
        self._actors = {} if actors is None else {key: _acting_on(key, actors) for key in leaves}
        choosing = {actor for key in self.choices for actor in self._actors.get(key, ())}
        self.has_idle = actors is not None and bool(self.choices) and len(choosing) < int(actors.n)
        """True where the last value of the critics is that of an actor that has no choice."""
        # The first of each member's choices among all C.
        starts = torch.tensor([sum(sizes[:i]) for i in range(len(sizes))], dtype=torch.int64)
        self.register_buffer("starts", starts, persistent=False)

    starts: Tensor

    @property
    def outputs(self) -> int:
        """Number of values that a critic returns: one per choice, or one."""
        return self.choice_count + self.has_idle or 1

    def acting(self, obs: TensorTree) -> TensorTree | None:
        """Return in which rows each leaf belongs to the actor that acts, [B] bool by key; None: in all."""
        if not self.several_actors:
            return None
        actor = obs[ACTOR]
        return {key: torch.isin(actor, torch.tensor(its, device=actor.device)) for key, its in self._actors.items()}

    def canonical(self, actions: TensorTree, acting: TensorTree | None = None) -> Tensor | None:
        """Return the Box leaves of actions in environment units, concatenated and scaled to [-1, 1], [B, d].

        Those of other actors than the acting one are zeros.
        """
        scaled = {key: scale.to_canonical(actions[key]) for key, scale in self.boxes.items()}
        if acting is not None:
            scaled = {key: leaf * acting[key].unsqueeze(-1) for key, leaf in scaled.items()}
        return joined(list(scaled.values()))

    def executed(self, actions: TensorTree) -> TensorTree:
        """Return actions in environment units as environments execute and recordings hold them."""
        return {key: self.boxes[key].executed(leaf) if key in self.boxes else leaf for key, leaf in actions.items()}

    def chosen(self, values: Tensor, actions: TensorTree, acting: TensorTree | None = None) -> Tensor:
        """Return the values of actions, [K, B], from the values [K, B, C] of K critics."""
        if not self.choices:
            return values.squeeze(-1)
        picked = values.gather(-1, self.indices(actions).expand(len(values), -1, -1))
        if acting is None:
            return picked.sum(-1)
        owned = [acting[key].unsqueeze(-1).expand(-1, len(sizes)) for key, sizes in self.choices.items()]
        counts = torch.cat(owned, -1)
        total = (picked * counts).sum(-1)
        return total + values[..., -1] * ~counts.any(-1) if self.has_idle else total

    def indices(self, actions: TensorTree) -> Tensor:
        """Return the choices of actions, one for each of M members, counted among all C: [B, M]."""
        members = [actions[key].reshape(len(actions[key]), -1).long() for key in self.choices]
        return torch.cat(members, -1) + self.starts

    def allowed(self, obs: TensorTree) -> Tensor | None:
        """Return True for each choice that the masks of observations allow, [B, C]; None where there are no masks."""
        if not self.masks:
            return None
        rows = next(iter(obs.values())).shape[0]  # `len` would fix it in exports
        parts = []
        for key, sizes in self.choices.items():
            if key not in self.masks:
                parts.append(self.starts.new_ones((rows, sum(sizes)), dtype=torch.bool))
                continue
            mask = joined_mask(obs, self.masks[key]) != 0
            if mask.shape[1] < sum(sizes):  # of bits: each may stay 0
                mask = torch.stack((torch.ones_like(mask), mask), -1).flatten(1)
            parts.append(mask)
        return torch.cat(parts, -1)


def check_reparametrised(policy: Policy, actions: JointActions, name: str) -> None:
    """Raise ConfigError unless the policy's Box actions are bounded, and differentiable functions of its parameters.

    `name`: what needs that, for the message.
    """
    leaves = flatten_space(policy.action_space, "action")
    for key, part in distributions_of(policy, actions.boxes):
        if not (getattr(part, "reparametrised", False) and getattr(part, "bounded", False)):
            raise ConfigError(
                f"{name} needs a differentiable sample within the bounds for the Box action {key!r}, and the "
                f"distribution {name_of(part)} has none",
                "model.distribution",
                f"Those that do: {', '.join(fitting(leaves[key], differentiable=True))}. "
                "Next: --set model.distribution=squashed_gaussian",
            )


def check_log_probs(policy: Policy, actions: JointActions, name: str) -> None:
    """Raise ConfigError unless the policy's discrete actions have a log-probability for each choice."""
    leaves = flatten_space(policy.action_space, "action")
    for key, part in distributions_of(policy, actions.choices):
        if not (hasattr(part, "log_probs") or isinstance(part, MultiCategorical | Bernoulli)):
            raise ConfigError(
                f"{name} needs `log_probs`, those of all choices, for the action {key!r}, and the distribution "
                f"{name_of(part)} has none",
                "model.distribution",
                f"Next: --set model.distribution={default_name(leaves[key])}",
            )


def bounded_sample(part: Any, noise: Tensor, scale: BoxScale) -> tuple[Tensor, Tensor]:
    """Return a differentiable sample as an action in [-1, 1], and its log-density there, [B, d] and [B]."""
    sample = part.sample(noise)
    return scale.to_canonical(part.env_action(sample)), part.log_prob(sample) + scale.log_volume


def bounded_mode(part: Any, scale: BoxScale) -> Tensor:
    """Return the mode as an action in [-1, 1], differentiable, [B, d]."""
    if isinstance(part, SquashedGaussian):  # without the way to environment units and back, which rounds
        return torch.tanh(part.mode())
    return scale.to_canonical(part.env_action(part.mode()))


def _acting_on(key: str, actors: ActorId) -> list[int]:
    """Return the numbers of the actors to whose kind an action leaf belongs."""
    kind = key.partition("/")[0]
    return [number for number, its in enumerate(actors.actors.values()) if its == kind]


def joined(parts: list[Tensor]) -> Tensor | None:
    """Return tensors [B, …] concatenated along their last dimension; None if there are none."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _choices(space: Space[Any]) -> list[int]:
    """Return the number of choices of each member of a discrete leaf."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec]
    return [2] * int(space.shape[0])  # type: ignore[index]
