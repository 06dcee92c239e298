"""A population of policies that acts in one batched forward pass: row i uses the parameters of member i."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from maze_core import remembers, take_rows
from maze_core.models.building import batchable
from maze_es.rows import rows_of

if TYPE_CHECKING:
    from maze_core import Policy, TensorTree
    from maze_es.search_space import SearchSpace


Acted: TypeAlias = "tuple[TensorTree, TensorTree]"
"""Actions in environment units, leaves [M, …], and what members remember afterwards, leaves [M, …]."""


class Population(Protocol):
    """M members, each a policy with its own parameters."""

    policy: Policy
    """A copy of the policy, with the buffers that all members share."""

    def load(self, vectors: Tensor) -> None:
        """Set the members' parameters to the vectors [M, d]."""

    def act(self, obs: TensorTree, noise: TensorTree | None, state: TensorTree) -> Acted:
        """Act: row i is member i's observation, action and memory.

        Args:
            obs: leaves [M, …]
            noise: leaves [M, …]; None: members take their most likely action.
            state: what members remember, leaves [M, …]; empty for policies without memory.
        """


def acting(policy: Policy, obs: TensorTree, noise: TensorTree | None, state: TensorTree) -> Acted:
    """Act with one policy; without noise it takes the most likely actions."""
    distribution, after = policy.step(obs, state) if state else (policy.distribution(obs), {})
    return distribution.env_action(distribution.mode() if noise is None else distribution.sample(noise)), after


class LayeredPopulation:
    """The policy with layers that have a row of parameters for each member.

    A linear layer is one batched product, a convolution has a group for each member; all other operations treat the
    rows of a batch separately anyway. For small networks this takes a fifth of vmap's time.
    """

    def __init__(self, policy: Policy, space: SearchSpace) -> None:
        self.policy: Policy = batchable(policy)
        self._space = space
        layers = [self.policy.get_submodule(path) for path in {name.rpartition(".")[0]: None for name in space.shapes}]
        self._rows = [(layer, rows) for layer in layers if (rows := rows_of(layer)) is not None]

    def load(self, vectors: Tensor) -> None:
        """Set the members' parameters to the vectors [M, d]."""
        for name, rows in self._space.split(vectors).items():
            path, _, key = name.rpartition(".")
            setattr(self.policy.get_submodule(path), key, nn.Parameter(rows, requires_grad=False))
        for layer, build in self._rows:
            layer.forward = build(layer)

    def act(self, obs: TensorTree, noise: TensorTree | None, state: TensorTree) -> Acted:
        """Act with all members."""
        return acting(self.policy, obs, noise, state)


class VmappedPopulation(nn.Module):
    """The policy under `torch.func.vmap`: any model without control flow that depends on values."""

    def __init__(self, policy: Policy, space: SearchSpace) -> None:
        super().__init__()
        self.policy: Policy = batchable(policy)
        self._space = space

    def load(self, vectors: Tensor) -> None:
        """Set the members' parameters to the vectors [M, d]."""
        self._rows = {f"policy.{name}": rows for name, rows in self._space.split(vectors).items()}

    def act(self, obs: TensorTree, noise: TensorTree | None, state: TensorTree) -> Acted:
        """Act with all members."""
        acted: Acted = vmap(self._member)(self._rows, obs, noise or {}, state)
        return acted

    def _member(self, parameters: TensorTree, *trees: TensorTree) -> Acted:
        obs, noise, state = (take_rows(tree, None) for tree in trees)
        actions, after = functional_call(self, parameters, (obs, noise or None, state))
        return take_rows(actions, 0), take_rows(after, 0)

    def forward(self, obs: TensorTree, noise: TensorTree | None, state: TensorTree) -> Acted:
        """Act with the parameters of one member, which `functional_call` puts in place."""
        return acting(self.policy, obs, noise, state)


class SinglePopulation:
    """The policy with the parameters of one member after the other: slow, but correct for every model."""

    def __init__(self, policy: Policy, space: SearchSpace) -> None:
        self.policy: Policy = copy.deepcopy(policy)
        self._space = space

    def load(self, vectors: Tensor) -> None:
        """Set the members' parameters to the vectors [M, d]."""
        self._vectors = vectors

    def act(self, obs: TensorTree, noise: TensorTree | None, state: TensorTree) -> Acted:
        """Act with all members."""
        acted = []
        for i, vector in enumerate(self._vectors):
            for name, value in self._space.split(vector).items():
                self.policy.get_parameter(name).data.copy_(value)
            own, drawn, before = (take_rows(tree or {}, np.s_[i : i + 1]) for tree in (obs, noise, state))
            acted.append(acting(self.policy, own, None if noise is None else drawn, before))
        both = zip(*acted, strict=True)
        actions, after = ({key: torch.cat([row[key] for row in rows]) for key in rows[0]} for rows in both)
        return actions, after


def make_population(policy: Policy, space: SearchSpace, obs: TensorTree) -> Population:
    """Return the fastest population that acts on `obs` (leaves [M, …]) like M single policies."""
    generator = torch.Generator().manual_seed(0)
    count = len(next(iter(obs.values())))
    vectors = space.vector(policy).cpu() + torch.randn(count, space.size, generator=generator) / 2
    vectors = vectors.to(space.vector(policy).device)
    reference = SinglePopulation(policy, space)
    wanted = _actions(reference, vectors, obs)
    kinds: tuple[type[LayeredPopulation] | type[VmappedPopulation], ...] = (LayeredPopulation, VmappedPopulation)
    for kind in kinds:
        try:
            population: Population = kind(policy, space)
            found = _actions(population, vectors, obs)
        except Exception:  # noqa: BLE001, S112 — whatever a user's model does not bear, the next kind is tried
            continue
        if all(
            torch.allclose(found[key].double(), value.double(), rtol=1e-3, atol=1e-3) for key, value in wanted.items()
        ):
            return population
    return reference


def remembered(policy: Policy, rows: int) -> TensorTree:
    """Return what a policy remembers where episodes begin, leaves [rows, …]; empty for a policy without memory."""
    return policy.initial_state(rows) if remembers(policy) else {}


def _actions(population: Population, vectors: Tensor, obs: TensorTree) -> TensorTree:
    with torch.no_grad():
        population.load(vectors)
        state = remembered(population.policy, len(vectors))
        actions, after = population.act(obs, None, state)
        return {**actions, **population.act(obs, None, after)[1]}
