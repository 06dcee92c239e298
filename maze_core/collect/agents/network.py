"""The agent that acts with a policy network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
import torch

from maze_core.base.seeding import load_random_state, random_state
from maze_core.base.tree import concat_trees, subtree, to_arrays
from maze_core.collect.agents.agent import Agent, Choice
from maze_core.collect.agents.forward import Forward, fastest_forward
from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.memory import hears, remembers

if TYPE_CHECKING:
    from maze_core.base.tree import TensorTree, Tree
    from maze_core.collect.agents.agent import Exploration
    from maze_core.collect.agents.row_memory import RowMemory
    from maze_core.envs.masks import MaskCheck
    from maze_core.models.policy import Policy


_NOISE, _EXPLORED = "#noise/", "#explored/"


class NoisePlan(NamedTuple):
    """What `NetworkAgent.ahead` drew for T steps of N environments: copies of the agent elsewhere act as it would."""

    noise: Tree
    """Leaves [T, N, …]: the noise of samples; empty for the most likely actions."""
    explored: Tree
    """Leaves [T, N, …]: the result of `Exploration.ahead`; empty where nothing is explored."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all of it under names that parameters do not have."""
        return {
            **{_NOISE + key: leaf for key, leaf in self.noise.items()},
            **{_EXPLORED + key: leaf for key, leaf in self.explored.items()},
        }

    @staticmethod
    def among(arrays: Mapping[str, np.ndarray]) -> NoisePlan:
        """Return the result of `arrays()` out of others."""
        return NoisePlan(subtree(arrays, _NOISE), subtree(arrays, _EXPLORED))


class NoiseSource(Protocol):
    """Where the chance in sampled actions comes from."""

    def draw(self, policy: Policy, steps: int) -> TensorTree:
        """Return the noise of the next steps, leaves [steps, N, …]."""

    def state(self) -> dict[str, Any]:
        """Return the random state."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""


class SharedNoise:
    """One generator for all N rows: cheap, and the noise of a row depends on the number of rows."""

    def __init__(self, rows: int, generator: torch.Generator) -> None:
        self.generator = generator
        self._rows = rows

    def draw(self, policy: Policy, steps: int) -> TensorTree:
        """Return the noise of the next steps, leaves [steps, N, …]."""
        return policy.draw_noise((steps, self._rows), self.generator)

    def state(self) -> dict[str, Any]:
        """Return the random state."""
        return {"noise": random_state(self.generator)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        load_random_state(self.generator, state["noise"])


class NetworkAgent(Agent):
    """Acts with a policy network, on the device where its parameters are.

    Args:
        policy: the network; its parameters are those of the moment.
        noise: what samples are drawn with; None: the most likely actions.
        exploration: changes some of the actions; None: they stay as they are.
        fast_rows: act through numpy where it is faster for so many rows, which differs from torch by rounding; None:
            always through torch.
        masks: refuses observations whose masks leave no choice; None: whoever takes the transitions does.
    """

    def __init__(
        self,
        policy: Policy,
        noise: NoiseSource | None,
        *,
        exploration: Exploration | None = None,
        fast_rows: int | None = None,
        masks: MaskCheck | None = None,
    ) -> None:
        self.policy, self._masks = policy, masks
        self.exploration = exploration
        """Changes some of the actions; None: they stay as they are."""
        self._noise, self._fast_rows = noise, fast_rows
        self.memory = memory_of(policy)
        """What the policy remembers of the rows; None: it remembers nothing."""
        self.hears = hears(policy)
        self._ahead: Iterator[dict[str, Any]] = repeat({}) if noise is None else iter(())
        """The noise of the next steps; the most likely actions need none."""
        self._forward = self._fastest()

    @classmethod
    def sampling(cls, policy: Policy, rows: int, noise: torch.Generator | NoiseSource) -> Self:
        """Return the agent that collects what is learned from in so many rows, with samples of the policy."""
        shared = SharedNoise(rows, noise) if isinstance(noise, torch.Generator) else noise
        return cls(policy, shared, fast_rows=rows)._remembering(rows)

    @classmethod
    def exploring(cls, policy: Policy, rows: int, exploration: Exploration) -> Self:
        """Return the same agent with the most likely actions, some of which exploration changes."""
        return cls(policy, None, exploration=exploration, fast_rows=rows)._remembering(rows)

    def _remembering(self, rows: int) -> Self:
        if self.memory is not None:
            self.memory.current(rows)  # a state that is saved before the first step has the memory, too
        return self

    def refresh(self) -> None:
        """Look at the network anew. To be called where modules may have been exchanged, not for new parameters."""
        if not self._forward.is_current():
            self._forward = self._fastest()

    def _fastest(self) -> Forward:
        return fastest_forward(self.policy, self._fast_rows, self.memory, most_likely=self._noise is None)

    def expect(self, steps: int) -> None:
        """Draw the noise of the next steps at once, which is cheaper than step by step."""
        if self._noise is not None:
            drawn = self._noise.draw(self.policy, steps)
            # Some distributions need none: they draw themselves.
            self._ahead = iter(self._forward.by_step(drawn) if drawn else [{}] * steps)

    def begin(self, rows: Sequence[int]) -> None:
        """Forget the episodes of these rows."""
        if self.memory is not None:
            self.memory.begin(rows)

    def wait(self, rows: Sequence[int] | np.ndarray) -> None:
        """Forget the last observation of these rows."""
        if self.memory is not None:
            self.memory.wait(rows)

    def hear(self, actions: Tree, rewards: np.ndarray) -> None:
        """Let a policy with memory take what came of the last choice."""
        if self.memory is not None:
            self.memory.hear(actions, rewards)

    def act(self, obs: Tree) -> Choice:
        """Choose an action for every row, with one forward for all."""
        if self._masks is not None:
            self._masks.check(obs)
        noise = next(self._ahead, None)
        if noise is None:
            self.expect(1)
            noise = next(self._ahead)
        choice = self._forward.act(obs, noise)
        if self.exploration is None:
            return choice
        return self.exploration.explore(obs, Choice(choice.actions, choice.actions))  # it knows environment units

    def ahead(self, steps: int, rows: int, *, counted: bool) -> NoisePlan:
        """Draw what decides the next steps of N = `rows` environments beside the network, as `act` would do.

        `counted`: the run counts each step when it is taken, so that exploration which follows the count changes.
        """
        noise = {} if self._noise is None else self._noise.draw(self.policy, steps)
        explored: Tree = {}
        if self.exploration is not None:
            each = (steps,) if counted else (1,) * steps  # one by one, the count stays where it is
            explored = concat_trees([self.exploration.ahead(count, rows) for count in each])
        return NoisePlan(to_arrays(noise), explored)

    def state(self) -> dict[str, Any]:
        """Return random states and what is remembered. No noise that was drawn ahead may be left."""
        state = {} if self._noise is None else self._noise.state()
        if self.memory is not None:
            state["memory"] = self.memory.state()
        return state if self.exploration is None else {**state, "exploration": self.exploration.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore the result of `state()`."""
        if self._noise is not None:
            self._ahead = iter(())
            self._noise.load_state(state)
        if self.memory is not None:
            self.memory.load_state(state["memory"])
        if self.exploration is not None:
            self.exploration.load_state(state["exploration"])


def memory_of(policy: Policy) -> RowMemory | None:
    """Return what a policy will remember of the rows in which it acts; None: it remembers nothing."""
    if not remembers(policy):
        return None
    from maze_core.collect.agents.row_memory import RowMemory

    return RowMemory(policy)


def draws_itself(policy: Policy) -> bool:
    """Return True where a policy draws random numbers of torch's own while it acts: workers cannot repeat those."""
    obs = allocate(space_specs(policy.observation_space, "observation"), (1,))
    agent = NetworkAgent(policy, SharedNoise(1, torch.Generator()))
    before = torch.get_rng_state()
    agent.act(obs)
    return not torch.equal(before, torch.get_rng_state())
