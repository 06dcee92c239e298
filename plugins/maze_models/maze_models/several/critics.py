"""Critics where several actors act: one for all of them, and values as sums over the turns of a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gymnasium import Space, spaces
from maze_actors.groups import Group
from maze_actors.routes import along
from maze_normalizers.normalizer import ObservationNormalizer
from torch import Tensor, nn

from maze_core.base.errors import ConfigError
from maze_core.envs.actors import ACTOR, CRITIC, ActorId, keys_below
from maze_core.envs.spaces import flatten_space
from maze_core.models.inputs import critic_spaces
from maze_core.models.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_core.base.tree import TensorTree
    from maze_core.data.sequences import Sequences

_WHERE = "model.joint_critic"


class JointCritic(nn.Module):
    """Encoder and value head over all leaves but masks; those of kinds that wait are zeros, also normalised ones.

    Args:
        actors: of the environment.
        space: the observations that the critic sees.
        built: a policy for `space`, of which the critic is taken.
    """

    def __init__(self, actors: ActorId, space: Space[Any], built: Policy) -> None:
        super().__init__()
        leaves = flatten_space(space, "observation")
        self.encoder = built.encoder if built.critic_encoder is None else built.critic_encoder
        self.value_head = built.value_head
        numbers = range(int(actors.n))
        self.groups = [
            *(Group(kind, kind, tuple(n for n in numbers if actors.actors[actors.names[n]] == kind))
              for kind in actors.kinds),
            *([Group(CRITIC, CRITIC, tuple(numbers))] if any(keys_below(CRITIC, leaves, CRITIC)) else []),
        ]  # fmt: skip
        """The kinds, and what critics alone see, as groups with a normaliser each."""
        self.keys = [{key: key for key in keys_below(group.kind, leaves, CRITIC)} for group in self.groups]
        """The leaves of each of these groups."""
        self.normalizers: list[ObservationNormalizer] = []
        if built.normalizer is not None:
            self.normalizers = [_part(built.normalizer, leaves, its) for its in self.keys]
            self.statistics = nn.ModuleDict(
                {f"{group.name}_group": each for group, each in zip(self.groups, self.normalizers, strict=True)}
            )

    def forward(self, obs: TensorTree) -> Tensor:
        """Return the values of observations [B, …], [B]."""
        seen, actor = dict(obs), obs[ACTOR]
        for number, (group, keys) in enumerate(zip(self.groups, self.keys, strict=True)):
            acts = torch.isin(actor, torch.tensor(group.actors, device=actor.device))
            own = {key: obs[key] for key in keys}
            if self.normalizers:
                own = self.normalizers[number](own)
            for key, leaf in own.items():
                seen[key] = torch.where(along(acts, leaf), leaf, torch.zeros_like(leaf))
        value: Tensor = self.value_head(self.encoder(seen)).squeeze(-1)
        return value


def build_joint_critic(
    build: Callable[[Space[Any], Space[Any], Any], nn.Module],
    actors: ActorId,
    observation_space: Space[Any],
    action_space: Space[Any],
    config: Any,
) -> JointCritic | None:
    """Return a critic of all actors, built by a model plugin; None where each group has its own.

    Args:
        build: builds a policy for some spaces from a configuration.
        actors: of the environment.
        observation_space: the environment's.
        action_space: the environment's.
        config: the model's.

    Raises:
        ConfigError: the model's policy is none of Maze's, has no critic of its own, or remembers.
    """
    if not getattr(config, "joint_critic", False) or config.critic == "none":
        return None
    # It takes no decisions, so it scores no choices, and its actions do not matter.
    plain = config.model_copy(update={"choice_features": {}}) if hasattr(config, "choice_features") else config
    space = _seen(observation_space, set(critic_spaces(observation_space, action_space)), "")
    built = build(space, spaces.Discrete(2), plain)
    if not isinstance(built, Policy) or not built.has_critic:
        raise ConfigError("the model has no critic that can be shared by all actors", _WHERE, "Set it to false.")
    if built.remembers:
        raise ConfigError("a critic of all actors has no memory", _WHERE, "Set it to false, or model.memory to none.")
    if built.critic_encoder is None:
        raise ConfigError("a critic of all actors has layers of its own", _WHERE, "Next: --set model.critic=separate")
    return JointCritic(actors, space, built)


def _seen(space: Space[Any], keys: set[str], prefix: str) -> Space[Any]:
    """Return a space with only the leaves that are among `keys`."""
    if isinstance(space, spaces.Tuple):
        space = spaces.Dict({str(index): child for index, child in enumerate(space.spaces)})
    if not isinstance(space, spaces.Dict):
        return space
    parts = {}
    for key, child in space.spaces.items():
        path = f"{prefix}{key}"
        if any(each == path or each.startswith(f"{path}/") for each in keys):
            parts[key] = _seen(child, keys, f"{path}/")
    return spaces.Dict(parts)


def _part(whole: ObservationNormalizer, leaves: dict[str, Space[Any]], keys: dict[str, str]) -> ObservationNormalizer:
    """Return a normaliser like `whole` for some of its leaves."""
    return ObservationNormalizer(
        {key: leaves[key] for key in keys},
        whole.strategy,
        tuple(key for key in whole.keys if key in keys),
        clip=whole.clip,
        running=whole.running,
        estimation=whole.estimation,
    )


def summed_values(differences: Tensor, goes_on: Tensor, sequences: Sequences, before: Tensor) -> tuple[Tensor, Tensor]:
    """Return values [B], and the last value of each sequence [S].

    V_t = d_t + V_(t-1) where turn t goes on with the decision of the turn before, else V_t = d_t. The value of the turn
    before is a constant: only d_t has a gradient.

    Args:
        differences: [B], d_t of every row.
        goes_on: [B] bool.
        sequences: which rows follow each other.
        before: [S], the value of the row before each sequence; it counts where the first row goes on.
    """
    with torch.no_grad():
        # In float64: a sum over all rows, from which that over earlier decisions is subtracted.
        own = sequences.ordered(differences).double()
        follows = sequences.ordered(goes_on)
        firsts = torch.from_numpy(sequences.starts).to(own.device)
        begins = ~follows
        begins[firsts] = True
        # What the turns before add in a decision: the sum of all rows before, without those of earlier decisions.
        earlier = own.cumsum(0) - own
        decision = begins.cumsum(0) - 1
        carried = own.new_zeros(int(begins.sum()))
        carried[decision[firsts]] = before.double() * follows[firsts]
        base = earlier - earlier[begins][decision] + carried[decision]
        lasts = firsts + torch.from_numpy(sequences.lengths).to(own.device) - 1
        last = (own + base)[lasts].float()
        base = sequences.restored(base.float())
    return differences + base, last
