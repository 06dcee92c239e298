"""The sink that fills a replay buffer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from maze_onpolicy import Assembler

from maze_core import map_tree, take_rows, to_tensors
from maze_core.envs.masks import MaskCheck
from maze_core.envs.spaces import allocate, space_specs
from maze_core.envs.vector import agents_of

if TYPE_CHECKING:
    from maze_normalizers.normalizer import ObservationNormalizer

    from maze_core import TensorTree, Tree, VectorEnv
    from maze_core.collect.agents.agent import Choice
    from maze_core.envs.vector import StepResult
    from maze_offpolicy.replay.buffer import ReplayBuffer


class ReplaySink:
    """Writes the transitions of N environments into replay, whose rows are in environment units.

    Args:
        replay: takes them.
        env: the environments.
        normalizer: learns from every observation that is acted on; None: there is none.
        device: where the normaliser is.
        on_step: called with each step of the environments.

    Raises:
        RunError: a mask forbids every choice.
    """

    def __init__(
        self,
        replay: ReplayBuffer,
        env: VectorEnv,
        normalizer: ObservationNormalizer | None,
        device: torch.device,
        on_step: Callable[[StepResult], None],
    ) -> None:
        self._replay, self._on_step = replay, on_step
        # Rows of environments with one agent each are complete after every step, and written in place.
        self._in_place = not agents_of(env)
        self._assembler = Assembler(env.num_envs)
        self._actions = allocate(space_specs(env.action_space, "action"), (env.num_envs,))
        self._normalizer, self._device = normalizer, device
        self._masks = MaskCheck(env.observation_space, env.action_space)
        specs = space_specs(env.observation_space, "observation")
        # Two in turn: what the last actions were chosen from, and what the next are chosen from.
        self.obs, self._spare = allocate(specs, (env.num_envs,)), allocate(specs, (env.num_envs,))

    def begin(self) -> None:
        """Begin the next rows of the buffer with the current observations, which are in `obs`."""
        self._masks.check(self.obs)
        if self._in_place:
            self._replay.begin(self.obs)

    def next_buffer(self, obs: Tree) -> Tree:
        """Return the arrays that the current observations are not in."""
        return self._spare

    def add(self, obs: Tree, choice: Choice, result: StepResult, following: Tree) -> None:
        """Take one transition of every environment."""
        self.obs, self._spare = following, obs
        if self._normalizer is not None:
            valid = torch.from_numpy(result.valid).to(self._device) if result.has_filler else None
            self._normalizer.update(self._to_device(obs), valid)
        if self._in_place:
            self._replay.step(choice.actions, result, following)
        else:
            self._replay.add(self._assembler.add(obs, choice.actions, result, following))
            if self._assembler.open.any():
                self._replay.selector.waiting(np.flatnonzero(self._assembler.open))
        self._on_step(result)
        self._masks.check(self.obs)

    @property
    def open(self) -> tuple[np.ndarray, Tree]:
        """The rows whose action is open, [K], and what these were chosen from, leaves [K, …]."""
        rows = np.flatnonzero(self._assembler.open)
        return rows, take_rows(self._assembler.obs, rows)

    def forget(self, rows: Sequence[int]) -> None:
        """Drop what is open in these rows: their episodes have just begun."""
        self._assembler.forget(rows)
        self._replay.forget(rows)

    def state(self) -> dict[str, Any]:
        """Return the open transitions; nothing where all are complete."""
        return {} if self._in_place else self._assembler.state(self.obs, self._actions)

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        if state:
            self._assembler.load_state(state)

    def _to_device(self, obs: Tree) -> TensorTree:
        tensors = to_tensors(obs)
        if self._device.type == "cpu":
            return tensors
        return map_tree(lambda leaf: leaf.to(self._device, non_blocking=True), tensors)
