"""Planners and the environments in which they know more than any network: an outsider's plugin, of promised names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from maze_actors.agents import MultiAgentEnv, Round
from maze_planning.planner import Decision, Planner

from maze_core import Plugin, PluginConfig, Policy, hookimpl
from maze_core.base.tree import Tree

STEPS, CHOICES = 8, 4


class Doors(gymnasium.Env[np.ndarray, Any]):
    """One of four doors is right, which no observation tells; the next one is drawn after each step."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space: gymnasium.Space[Any] = spaces.Discrete(CHOICES)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Any]:
        super().reset(seed=seed)
        self.steps = 0
        return self.draw(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = self.pay(action)
        self.steps += 1
        return self.draw(), reward, self.steps == STEPS, False, {}

    def pay(self, action: Any) -> float:
        return float(action == self.right)

    def draw(self) -> np.ndarray:
        self.right = int(self.np_random.integers(CHOICES))
        return np.array([self.steps, self.np_random.normal()], np.float32)


class Locked(Doors):
    """Doors that Python cannot copy, as environments of C libraries."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot pickle 'library.World' object")


class Shared(Doors):
    """Doors whose copies are not true: they share the state."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class Chance(Doors):
    """Doors that nobody can copy: chance comes from elsewhere."""

    def draw(self) -> np.ndarray:
        self.right = int(np.random.randint(CHOICES))
        return np.array([self.steps, np.random.normal()], np.float32)


class Levers(Doors):
    """The same with a lever, which is pulled somewhere between -2 and 6; where it was pulled last is seen."""

    action_space = spaces.Box(-2, 6, (1,), np.float32)
    pulled = 0.0

    def pay(self, action: Any) -> float:
        self.pulled = float(action[0])
        return -abs(self.pulled - 2 * self.right)

    def draw(self) -> np.ndarray:
        super().draw()
        return np.array([self.steps, self.pulled], np.float32)


class DoorsInTurn(MultiAgentEnv):
    """Two agents, each before doors of its own, in turns; or at the same time in every third round."""

    agents = ("one", "two")

    def __init__(self) -> None:
        self.observation_spaces = dict.fromkeys(self.agents, Doors.observation_space)
        self.action_spaces = dict.fromkeys(self.agents, Doors.action_space)

    def reset(self, seed: int) -> Round:
        self._rng, self._steps = np.random.default_rng(seed), 0
        return Round(self._show())

    def step(self, actions: Mapping[str, Any]) -> Round:
        assert actions.keys() == self._right.keys()
        rewards = {name: float(action == self._right[name]) for name, action in actions.items()}
        self._steps += 1
        if self._steps == STEPS:
            return Round({}, rewards, dict.fromkeys(self.agents, np.zeros(2, np.float32)))
        return Round(self._show(), rewards)

    def _show(self) -> dict[str, np.ndarray]:
        acting = self.agents if self._steps % 3 == 2 else (self.agents[self._steps % 3],)
        self._right = {name: int(self._rng.integers(CHOICES)) for name in acting}
        return {name: np.array([self._steps, self._rng.normal()], np.float32) for name in acting}


class LockedInTurn(DoorsInTurn):
    """The same, which Python cannot copy."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot pickle 'library.World' object")


class LockedInTurnSource(Plugin):
    """An env source of those."""

    Config = PluginConfig

    @hookimpl
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> MultiAgentEnv:
        return LockedInTurn()


class DoorsInTurnSource(Plugin):
    """An env source of doors in turn."""

    Config = PluginConfig

    @hookimpl
    def make_agents_env(self, config: PluginConfig, seed: int, index: int) -> MultiAgentEnv:
        return DoorsInTurn()


class OneStep(Planner):
    """Tries each door once."""

    def choose(self, decisions: Sequence[Decision], proposed: Tree) -> Tree:
        return {"action": np.array([self._best(decision) for decision in decisions])}

    def _best(self, decision: Decision) -> int:
        paid = []
        for door in range(CHOICES):
            twin = decision.simulator.copy()
            paid.append(twin.step({"action": np.full(twin.rows, door)}).reward[decision.agent_row])
        return int(np.argmax(paid))


class Shooting(Planner):
    """Tries random sequences of actions, and takes the first action of the best; draws from 0 to 4, as counted."""

    def __init__(self, sequences: int) -> None:
        self._sequences = sequences
        self.begun: list[int] = []

    def begin(self, row: int) -> None:
        self.begun.append(row)

    def choose(self, decisions: Sequence[Decision], proposed: Tree) -> Tree:
        return {"action": np.stack([self._best(each, proposed["action"][0]) for each in decisions])}

    def _best(self, decision: Decision, like: np.ndarray) -> np.ndarray:
        found = []
        for _ in range(self._sequences):
            twin, total, plan = decision.simulator.copy(), 0.0, []
            while not twin.over and len(plan) < 2:
                plan.append((decision.rng.uniform(0, CHOICES, like.shape)).astype(like.dtype))
                total += float(twin.step({"action": np.stack([plan[-1]] * twin.rows)}).reward[decision.agent_row])
            found.append((total, len(found), plan[0]))
        return max(found)[2]


class AheadConfig(PluginConfig):
    name: str = "ahead"
    how: Literal["one_step", "shooting", "nothing", "wrong"] = "one_step"
    sequences: int = 24
    training: bool = True


class Ahead(Plugin):
    """Looks ahead."""

    Config = AheadConfig
    config: AheadConfig

    @hookimpl
    def build_planner(self, policy: Policy, purpose: str) -> Planner | None:
        assert policy.action_space is not None
        if self.config.how == "nothing" or (purpose == "training" and not self.config.training):
            return None
        if self.config.how == "wrong":
            return Wrong()
        return OneStep() if self.config.how == "one_step" else Shooting(self.config.sequences)


class Wrong(Planner):
    """Returns what is no action."""

    def choose(self, decisions: Sequence[Decision], proposed: Tree) -> Tree:
        return {"action": np.full(len(decisions), CHOICES)}
