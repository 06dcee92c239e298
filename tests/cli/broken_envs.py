"""Environments that break the interface of gymnasium or PettingZoo, one way each: a table by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Awkward:
    """Refuses to be anything."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no array")

    def __bool__(self) -> bool:
        raise ValueError("no boolean")

    def __float__(self) -> float:
        raise ValueError("no number")

    def __repr__(self) -> str:
        raise ValueError("no text")


VALUES: dict[str, Any] = {
    "None": None, "text": "x", "number as text": "1.5", "bytes": b"x", "object": object(), "list": [], "dict": {},
    "nan": float("nan"), "inf": float("inf"), "matrix": np.zeros((2, 3)), "objects": np.array([None, "a"], object),
    "complex": 1j, "huge": 10**400, "minus one": -1, "ragged": [[1], [2, 3]], "set": {1}, "function": len,
    "awkward": Awkward(), "booleans": np.array([True, False]), "texts": ["a", "b"], "class": int,
    "long text": "y" * 5000, "date": np.datetime64("2020-01-01"),
}  # fmt: skip
FEW = ("None", "text", "awkward")
"""Those of the fast tests."""
STRANGERS = {"__all__": {"__all__": False}, "an unknown agent": {"zz": 0}, "a part of the agents": {"a": 0}}
"""Dicts of agents that are wrong."""


def raising(*_: Any, **__: Any) -> Any:
    """Raise."""
    raise RuntimeError("their fault")


class TextlessError(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise ValueError("no text")


def raising_itself(*_: Any, **__: Any) -> Any:
    """Raise an exception that is its own cause."""
    error = RuntimeError("their fault")
    raise error from error


def raising_in_a_circle(*_: Any, **__: Any) -> Any:
    """Raise an exception whose cause is caused by it."""
    first, second = RuntimeError("their fault"), TextlessError()
    first.__cause__, second.__cause__ = second, first
    raise second


def exiting(*_: Any, **__: Any) -> Any:
    """Exit."""
    sys.exit(3)


def returning(value: Any) -> Callable[..., Any]:
    """A method that returns the value."""
    return lambda *_, **__: value


class Good(gymnasium.Env):
    """An environment of five steps."""

    observation_space: Any = spaces.Box(-1, 1, (2,))
    action_space: Any = spaces.Discrete(2)
    metadata: Any = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 — gymnasium's own attribute

    def __init__(self, render_mode: Any = None) -> None:
        self.left = 5

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.left = 5
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return np.zeros(2, np.float32), 0.0, self.left == 0, False, {}


class NoSpaces(gymnasium.Env):
    """An environment that declares nothing."""

    reset, step = Good.reset, Good.step


def single_environments(names: tuple[str, ...]) -> dict[str, type[gymnasium.Env]]:
    """Broken environments of gymnasium, with these of the wrong values."""
    found: dict[str, type[gymnasium.Env]] = {
        "no spaces": NoSpaces,
        "no observation space": type("Broken", (NoSpaces,), {"action_space": Good.action_space}),
        "no action space": type("Broken", (NoSpaces,), {"observation_space": Good.observation_space}),
    }

    def add(name: str, **members: Any) -> None:
        found[name] = type("Broken", (Good,), members)

    for attribute in ("observation_space", "action_space", "metadata", "events"):
        add(f"{attribute} raises", **{attribute: property(raising)})
        for name in names:
            add(f"{attribute} is {name}", **{attribute: VALUES[name]})
    for method in ("reset", "step", "close"):
        add(f"{method} raises", **{method: raising})
        add(f"{method} raises itself", **{method: raising_itself})
        add(f"{method} raises in a circle", **{method: raising_in_a_circle})
        add(f"{method} exits", **{method: exiting})
        add(f"{method} is None", **{method: None})
        add(f"{method} takes nothing", **{method: lambda self: None})
        for name in names:
            add(f"{method} returns {name}", **{method: returning(VALUES[name])})
    for count in range(7):
        for method in ("reset", "step"):
            add(f"{method} returns {count} values", **{method: returning((np.zeros(2, np.float32),) * count)})
    for name in names:
        for slot, kind in enumerate(("observation", "info")):
            add(f"{kind} of the reset is {name}", reset=_spoilt(Good.reset, slot, VALUES[name]))
        for slot, kind in enumerate(("observation", "reward", "terminated", "truncated", "info")):
            add(f"{kind} of a step is {name}", step=_spoilt(Good.step, slot, VALUES[name]))
        add(f"metrics are {name}", step=_spoilt(Good.step, 4, {"episode_metrics": VALUES[name]}))
    return found


def _spoilt(method: Callable[..., Any], slot: int, value: Any) -> Callable[..., Any]:
    def spoilt(self: Any, *arguments: Any, **named: Any) -> Any:
        result = list(method(self, *arguments, **named))
        result[slot] = value
        return tuple(result)

    return spoilt


def parallel_environments(names: tuple[str, ...]) -> dict[str, type[Any]]:
    """Broken parallel environments of PettingZoo, with these of the wrong values."""
    from pettingzoo import ParallelEnv

    class Together(ParallelEnv):  # type: ignore[misc]
        metadata: Any = {"name": "together"}  # noqa: RUF012 — PettingZoo's own attribute
        possible_agents: Any = ("a", "b")

        def observation_space(self, agent: Any) -> Any:
            return spaces.Box(-1, 1, (2,))

        def action_space(self, agent: Any) -> Any:
            return spaces.Discrete(2)

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            self.agents, self.left = ["a", "b"], 5
            return {name: np.zeros(2, np.float32) for name in self.agents}, {name: {} for name in self.agents}

        def step(self, actions: Any) -> Any:
            self.left -= 1
            over, names = self.left == 0, self.agents
            self.agents = [] if over else names
            values: tuple[Any, ...] = (np.zeros(2, np.float32), 1.0, over, False, {})
            return tuple(dict.fromkeys(names, value) for value in values)

        def close(self) -> None:
            pass

    found: dict[str, type[Any]] = {}

    def add(name: str, **members: Any) -> None:
        found[name] = type("Broken", (Together,), members)

    for attribute in ("possible_agents", "metadata"):
        add(f"{attribute} raises", **{attribute: property(raising)})
        for name in names:
            add(f"{attribute} is {name}", **{attribute: VALUES[name]})
    add("two agents of one name", possible_agents=["a", "a"])
    add("spaces as dicts", observation_space={"a": spaces.Discrete(2)})
    add("observations alone", reset=lambda self, **_: Together.reset(self)[0])
    for method in ("observation_space", "action_space", "reset", "step", "close"):
        add(f"{method} raises", **{method: raising})
        add(f"{method} is None", **{method: None})
        add(f"{method} takes nothing", **{method: lambda self: None})
        for name in names if method != "close" else ():
            add(f"{method} returns {name}", **{method: returning(VALUES[name])})
    wrong = {name: VALUES[name] for name in names} | STRANGERS
    for name, value in wrong.items():
        for slot, kind in enumerate(("observations", "infos")):
            add(f"{kind} of the reset are {name}", reset=_spoilt(Together.reset, slot, value))
        for slot, kind in enumerate(("observations", "rewards", "terminations", "truncations", "infos")):
            add(f"{kind} of a step are {name}", step=_spoilt(Together.step, slot, value))
    return found


def turn_environments(names: tuple[str, ...]) -> dict[str, type[Any]]:
    """Broken environments of PettingZoo whose agents act in turn, with these of the wrong values."""
    from pettingzoo import AECEnv

    class InTurn(AECEnv):  # type: ignore[misc]
        metadata: Any = {"name": "in_turn"}  # noqa: RUF012 — PettingZoo's own attribute
        possible_agents: Any = ("a", "b")
        render_mode: Any = None

        def observation_space(self, agent: Any) -> Any:
            return spaces.Box(-1, 1, (2,))

        def action_space(self, agent: Any) -> Any:
            return spaces.Discrete(2)

        def observe(self, agent: Any) -> Any:
            return np.zeros(2, np.float32)

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            self.agents, self.left = ["a", "b"], 5
            self.rewards = dict.fromkeys(self.agents, 0.0)
            self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
            self.terminations = dict.fromkeys(self.agents, False)
            self.truncations = dict.fromkeys(self.agents, False)
            self.infos: Any = {name: {} for name in self.agents}
            self.agent_selection = "a"

        def step(self, action: Any) -> Any:
            if self.terminations[self.agent_selection]:
                self._was_dead_step(action)
                return
            self.left -= 1
            self.terminations = dict.fromkeys(self.agents, self.left == 0)
            self.agent_selection = "b" if self.agent_selection == "a" else "a"

        def close(self) -> None:
            pass

    found: dict[str, type[Any]] = {}

    def add(name: str, **members: Any) -> None:
        found[name] = type("Broken", (InTurn,), members)

    add("nothing broken")
    for attribute in ("possible_agents", "metadata", "render_mode"):
        add(f"{attribute} raises", **{attribute: property(raising)})
        for name in names:
            add(f"{attribute} is {name}", **{attribute: VALUES[name]})
    for attribute in ("agents", "agent_selection", "infos", "terminations", "rewards"):
        for name in names:
            add(f"{attribute} after the reset is {name}", reset=_leaving(InTurn.reset, attribute, VALUES[name]))
            add(f"{attribute} after a step is {name}", step=_leaving(InTurn.step, attribute, VALUES[name]))
        add(f"{attribute} are missing", reset=_leaving(InTurn.reset, attribute))
    for name, stranger in {"a stranger": "zz", "__all__": "__all__"}.items():
        add(f"agent_selection is {name}", step=_leaving(InTurn.step, "agent_selection", stranger))
        add(f"agents name {name}", reset=_leaving(InTurn.reset, "agents", ["a", stranger]))
    for method in ("observation_space", "action_space", "observe", "reset", "step", "last", "close"):
        add(f"{method} raises", **{method: raising})
        add(f"{method} exits", **{method: exiting})
        add(f"{method} is None", **{method: None})
        add(f"{method} takes nothing", **{method: lambda self: None})
        for name in names:
            add(f"{method} returns {name}", **{method: returning(VALUES[name])})
    for count in range(7):
        add(f"last returns {count} values", last=returning((np.zeros(2, np.float32),) * count))
    for name in names:
        for slot, kind in enumerate(("observation", "reward", "termination", "truncation", "info")):
            add(f"{kind} of last is {name}", last=_spoilt(InTurn.last, slot, VALUES[name]))
    add("agents that have ended stay", step=lambda self, action: action is None or InTurn.step(self, action))
    add("no turn ends", step=lambda self, action: None)
    add("a parallel reset", reset=lambda self, **_: InTurn.reset(self) or ({}, {}))
    return found


def _leaving(method: Callable[..., Any], attribute: str, *value: Any) -> Callable[..., Any]:
    """A method after which the attribute has this value, or is missing."""

    def leaving(self: Any, *arguments: Any, **named: Any) -> Any:
        method(self, *arguments, **named)
        if value:
            setattr(self, attribute, value[0])
        elif hasattr(self, attribute):
            delattr(self, attribute)

    return leaving
