"""The observation normalisers of several groups as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from maze_actors.routes import along
from torch import Tensor, nn

from maze_core.base.tree import subtree
from maze_core.envs.actors import ACTOR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from maze_actors.groups import Group
    from maze_normalizers.normalizer import Estimation, ObservationNormalizer

    from maze_core.base.tree import TensorTree


class ActorNormalizer(nn.Module):
    """Shows each group's normaliser only the rows in which an actor of the group acts.

    Args:
        groups: the groups that have a normaliser.
        normalizers: theirs, in the same order; not copied.
        keys: key in the environment's tree → key in the group's tree, for each group.
    """

    def __init__(
        self, groups: Sequence[Group], normalizers: Sequence[ObservationNormalizer], keys: Sequence[Mapping[str, str]]
    ) -> None:
        super().__init__()
        self._groups, self._leaves = list(groups), [dict(each) for each in keys]
        # torch forbids submodules named like a method ("type", "half"); groups may have such names.
        names = [f"{group.name}_group" for group in groups]
        self.normalizers = nn.ModuleDict(dict(zip(names, normalizers, strict=True)))
        self._members = dict(zip(names, normalizers, strict=True))
        seen = [full for each, leaves in zip(normalizers, keys, strict=True) for full, own in leaves.items()
                if own in each.keys]  # fmt: skip
        self.keys = (ACTOR, *dict.fromkeys(seen))
        """The leaves that `update` needs."""

    @property
    def count(self) -> Tensor:
        """The number of rows seen by all groups together."""
        return torch.stack([each.count for each in self._members.values()]).sum()

    @property
    def running(self) -> bool:
        """True where training changes statistics."""
        return any(each.running for each in self._members.values())

    @property
    def estimation(self) -> Estimation:
        """The steps seen before training."""
        return max((each.estimation for each in self._members.values()), key=lambda wanted: wanted.steps)

    def forward(self, obs: TensorTree) -> TensorTree:
        """Return the tree with the leaves of each row's actor normalised, as its group's policy sees them."""
        normalized = dict(obs)
        for (each, own, rows), leaves in zip(self._routed(obs, None), self._leaves, strict=True):
            seen = each(own)
            for full, key in leaves.items():
                if key in each.keys:
                    normalized[full] = torch.where(along(rows, obs[full]), seen[key], normalized[full])
        return normalized

    def update(self, obs: TensorTree, valid: Tensor | None = None) -> None:
        """Add rows of training data to the statistics of the groups that act in them; arguments as for a single one."""
        for each, own, rows in self._routed(obs, valid):
            each.update(own, rows)

    def observe(self, obs: TensorTree, valid: Tensor | None = None) -> None:
        """Add rows as `update` does, also where `running` is False."""
        for each, own, rows in self._routed(obs, valid):
            each.observe(own, rows)

    def merge(self, other: Mapping[str, Tensor]) -> None:
        """Add the rows that another one has seen, from its state dict."""
        for name, each in self._members.items():
            prefix = f"normalizers.{name}."
            each.merge(subtree(other, prefix))

    def _routed(
        self, obs: TensorTree, valid: Tensor | None
    ) -> list[tuple[ObservationNormalizer, dict[str, Tensor], Tensor]]:
        """Return each normaliser with the leaves as its group names them, and which rows it is shown, [*rows] bool."""
        actor = obs[ACTOR]
        routed = []
        for each, group, leaves in zip(self._members.values(), self._groups, self._leaves, strict=True):
            acts = torch.isin(actor, torch.tensor(group.actors, device=actor.device))
            rows = acts if valid is None else acts & valid.reshape(acts.shape).bool()
            routed.append((each, {own: obs[full] for full, own in leaves.items() if full in obs}, rows))
        return routed
