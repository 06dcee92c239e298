"""The sink that fills a replay buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import torch

from maze_core.envs.masks import MaskCheck
from maze_core.envs.spaces import allocate, space_specs
from maze_core.tree import map_tree, to_tensors

if TYPE_CHECKING:
    from maze_core.acting.agent import Choice
    from maze_core.envs.vector import StepResult, VectorEnv
    from maze_core.models.normalizer import ObservationNormalizer
    from maze_core.tree import TensorTree, Tree


class TransitionStore(Protocol):
    """Where the transitions of N environments go, step by step: a replay buffer."""

    def begin(self, obs: Tree) -> None:
        """Store the current observations, leaves [N, …]."""

    def step(self, actions: Tree, result: StepResult, obs: Tree) -> None:
        """Store one step from them; `obs`: the next observations."""


class ReplaySink:
    """Writes the transitions of N environments into a replay buffer, whose rows are in environment units.

    Args:
        replay: the buffer.
        env: the environments.
        normalizer: learns from every observation that is acted on; None: there is none.
        device: where the normaliser is.
        on_step: told of each step of the environments.

    Raises:
        RunError: a mask forbids every choice.
    """

    def __init__(
        self,
        replay: TransitionStore,
        env: VectorEnv,
        normalizer: ObservationNormalizer | None,
        device: torch.device,
        on_step: Callable[[StepResult], None],
    ) -> None:
        self._replay, self._on_step = replay, on_step
        self._normalizer, self._device = normalizer, device
        self._masks = MaskCheck(env.observation_space, env.action_space)
        specs = space_specs(env.observation_space, "observation")
        # Two in turn: what the last actions were chosen from, and what the next are chosen from.
        self.obs, self._spare = allocate(specs, (env.num_envs,)), allocate(specs, (env.num_envs,))

    def begin(self) -> None:
        """Begin the next rows of the buffer with the current observations, which are in `obs`."""
        self._masks.check(self.obs)
        self._replay.begin(self.obs)

    def room(self, obs: Tree) -> Tree:
        """Return the arrays that the current observations are not in."""
        return self._spare

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Take one transition of every environment."""
        self.obs, self._spare = following, obs
        if self._normalizer is not None:
            valid = torch.from_numpy(result.valid).to(self._device) if result.has_filler else None
            self._normalizer.update(self._to_device(obs), valid)
        self._replay.step(choice.actions, result, following)
        self._on_step(result)
        self._masks.check(self.obs)

    def _to_device(self, obs: Tree) -> TensorTree:
        tensors = to_tensors(obs)
        if self._device.type == "cpu":
            return tensors
        return map_tree(lambda leaf: leaf.to(self._device, non_blocking=True), tensors)
