"""Acts for a population: each row with the parameters of its own member."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from maze_core import map_tree, take_rows, to_tensors
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.envs.masks import MaskCheck
from maze_core.envs.spaces import allocate, space_specs
from maze_es.population import remembered

if TYPE_CHECKING:
    from maze_core import TensorTree, Tree
    from maze_es.moments import Moments
    from maze_es.pair_envs import PairEnvs
    from maze_es.population import Population

_CROWDED = 0.75
"""Members whose episode has ended leave the batch once at most this share of the batch is still playing."""


class PopulationAgent(Agent):
    """Plays an episode with each of M members: row i is member i's. Members of a pair get the same noise.

    Args:
        population: computes the actions of all members at once.
        members: [M, d], their parameters.
        envs: says which rows play.
        noise: the noise of actions is drawn from it; None: members take their most likely actions.
        moments: receives the observations.
    """

    def __init__(
        self, population: Population, members: Tensor, envs: PairEnvs, noise: torch.Generator | None, moments: Moments
    ) -> None:
        self._population, self._members, self._envs = population, members, envs
        self._noise, self._moments, self._device = noise, moments, members.device
        self._masks = MaskCheck(envs.observation_space, envs.action_space)
        self._actions = allocate(space_specs(envs.action_space, "action"), (envs.num_envs,))
        self._batch = np.arange(len(members))
        self._playing = self._batch[:0]
        population.load(members)
        self._state = remembered(population.policy, len(members))

    def act(self, obs: Tree) -> Choice:
        """Choose actions for the rows that play; those of other rows have no meaning."""
        if self._playing is not self._envs.rows:
            self._follow(self._envs.rows)
        playing, batch = self._playing, self._batch
        seen = take_rows(obs, playing)
        self._moments.add(seen)
        self._masks.check(seen)
        inputs = seen if batch is playing else take_rows(obs, batch)
        state = take_rows(self._state, self._acting)
        chosen, after = self._population.act(self._tensors(inputs), self._draw(), state)
        self._state = {key: leaf.index_copy(0, self._acting, after[key]) for key, leaf in self._state.items()}
        for key, leaf in chosen.items():
            self._actions[key][playing] = leaf.cpu().numpy()[self._places]
        return Choice(self._actions, self._actions)

    def _follow(self, playing: np.ndarray) -> None:
        """Take other rows as those that play."""
        if len(playing) <= _CROWDED * len(self._batch):
            self._batch = playing
            self._population.load(self._members[torch.from_numpy(playing)])
        elif len(playing) == len(self._batch):
            self._batch = playing
        self._playing = playing
        self._acting = torch.from_numpy(self._batch).to(self._device)
        self._places = np.searchsorted(self._batch, playing)

    def _draw(self) -> TensorTree | None:
        """Return noise for the actions of one step, the same for both members of a pair."""
        if self._noise is None:
            return None
        drawn = self._population.policy.draw_noise((len(self._members) // 2,), self._noise)
        rows = torch.from_numpy(self._batch // 2)
        return map_tree(lambda leaf: leaf[rows].to(self._device), drawn)

    def _tensors(self, obs: Tree) -> TensorTree:
        return to_tensors(obs, self._device)
