"""Environments whose spaces are wrong, odd or enormous. `make` finds them by the names in `SPACES`."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tests.attack.children import in_child, interrupted_after, maze
from tests.attack.oracle import problems_of
from tests.attack.runs import SETTINGS
from tests.attack.verdict import Verdict

USUAL = spaces.Box(-1, 1, (2,), np.float32)
CHOICE = spaces.Discrete(2)
INTERRUPTED = 130


class _OwnSpace(spaces.Space[Any]):
    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return 0

    def contains(self, x: Any) -> bool:
        return True


def _altered(space: Any, **attributes: Any) -> Any:
    """A space that its constructor would have refused."""
    for name, value in attributes.items():
        setattr(space, name, value)
    return space


SPACES: dict[str, Callable[[], Any]] = {
    "a billion numbers": lambda: spaces.Box(-1, 1, (10**9,), np.float32),
    "a thousand cubed": lambda: spaces.Box(0, 255, (1000, 1000, 1000), np.uint8),
    "2**62 choices": lambda: spaces.Discrete(2**62),
    "a billion choices": lambda: spaces.Discrete(10**9),
    "one choice": lambda: spaces.Discrete(1),
    "far start": lambda: spaces.Discrete(3, start=2**62),
    "negative start": lambda: spaces.Discrete(3, start=-5),
    "a million times a million": lambda: spaces.MultiDiscrete([10**6] * 50),
    "a billion in one": lambda: spaces.MultiDiscrete([3, 10**9]),
    "table of choices": lambda: spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "choices that start": lambda: spaces.MultiDiscrete([3, 4], start=[7, -2]),
    "a billion bits": lambda: spaces.MultiBinary(10**9),
    "table of bits": lambda: spaces.MultiBinary([2, 3]),
    "nothing in it": lambda: spaces.Box(-1, 1, (0,), np.float32),
    "nothing across": lambda: spaces.Box(0, 1, (3, 0), np.float32),
    "scalar": lambda: spaces.Box(-1, 1, (), np.float32),
    "empty dict": lambda: spaces.Dict({}),
    "empty tuple": lambda: spaces.Tuple(()),
    "tuple": lambda: spaces.Tuple((CHOICE, USUAL)),
    "nested": lambda: spaces.Dict({"a": spaces.Dict({"b": spaces.Dict({"c": CHOICE})})}),
    "very deep": lambda: _deep(200),
    "names with slashes": lambda: spaces.Dict({"a/b": USUAL, "a": spaces.Dict({"b": USUAL})}),
    "names with escapes": lambda: spaces.Dict({"\x1b[31mred\n": USUAL, "": CHOICE}),
    "long name": lambda: spaces.Dict({"a" * 100_000: USUAL}),
    "a thousand leaves": lambda: spaces.Dict({str(n): CHOICE for n in range(1000)}),
    "text": lambda: spaces.Text(5),
    "sequence": lambda: spaces.Sequence(CHOICE),
    "graph": lambda: spaces.Graph(USUAL, CHOICE),
    "one of": lambda: spaces.OneOf((CHOICE, USUAL)),
    "own kind": lambda: _OwnSpace(),
    "none": lambda: None,
    "an array": lambda: np.zeros(3),
    "a class": lambda: spaces.Box,
    "a string": lambda: "Discrete(2)",
    "low above high": lambda: _altered(spaces.Box(-1, 1, (2,)), low=np.ones(2, "f"), high=-np.ones(2, "f")),
    "bounds of nan": lambda: _altered(spaces.Box(-1, 1, (2,)), low=np.full(2, np.nan, "f")),
    "equal bounds": lambda: spaces.Box(1, 1, (2,), np.float32),
    "half bounded": lambda: spaces.Box(np.array([-np.inf, 0], "f"), np.array([1, np.inf], "f")),
    "largest bounds": lambda: spaces.Box(-np.finfo("f").max, np.finfo("f").max, (2,)),
    "integers of 64 bits": lambda: spaces.Box(-(2**63), 2**63 - 1, (2,), np.int64),
    "unsigned": lambda: spaces.Box(0, 2**64 - 1, (2,), np.uint64),
    "booleans": lambda: spaces.Box(0, 1, (2,), np.bool_),
    "half precision": lambda: spaces.Box(-1, 1, (2,), np.float16),
    "fifty axes": lambda: spaces.Box(0, 1, (1,) * 50, np.float32),
    "small picture": lambda: spaces.Box(0, 255, (1, 1, 3), np.uint8),
}  # fmt: skip


def _deep(levels: int) -> Any:
    space: Any = CHOICE
    for _ in range(levels):
        space = spaces.Dict({"x": space})
    return space


class Odd(gymnasium.Env[Any, Any]):
    """Shows samples of its observation space; what is done does not matter."""

    def __init__(self, observation: str = "usual", action: str = "choice") -> None:
        self.observation_space = SPACES[observation]() if observation in SPACES else USUAL
        self.action_space = SPACES[action]() if action in SPACES else CHOICE
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self.observation_space.sample(), 1.0, self._steps == 5, False, {}


if "Odd-v0" not in gymnasium.registry:
    gymnasium.register("Odd-v0", f"{__name__}:Odd", disable_env_checker=True)


class Spaces:
    """Cases of one algorithm: an odd observation or action space, or both."""

    def __init__(self, algorithm: str, scratch: Path, seed: int = 1) -> None:
        self._algorithm, self._scratch, self._seed = algorithm, scratch, seed
        self._folder = scratch / "world"
        self._folder.mkdir(parents=True)
        names = list(SPACES)
        pairs = [(name, "choice") for name in names] + [("usual", name) for name in names]
        chance = random.Random(f"{seed} {algorithm}")
        chance.shuffle(pairs)
        self._pairs = pairs + [(chance.choice(names), chance.choice(names)) for _ in range(2000)]

    def names(self, count: int) -> list[str]:
        """So many cases."""
        return [str(number) for number in range(min(count, len(self._pairs)))]

    def try_(self, name: str) -> Verdict:
        """Train on it: an error at once, or a run."""
        observation, action = self._pairs[int(name)]
        verdict = Verdict(f"spaces/{self._algorithm}/{name}", f"spaces: {self._algorithm}")
        verdict.what = f"observations: {observation}; actions: {action}"
        run_dir = self._folder / f"run{name}"
        settings = {**SETTINGS[self._algorithm], "algorithm.epoch_length": 1, "algorithm.n_epochs": 1}
        settings |= {"evaluation.n_episodes": 1, "callbacks.console": "null", "evaluation.num_envs": 1, "seed": 1}
        settings |= {"model.name": "template", "env.kwargs": f"{{observation: {observation}, action: {action}}}"}
        settings.pop("model.normalize_observations", None)
        command = [
            "train",
            self._algorithm,
            "--env",
            f"{__name__}:Odd-v0",
            "--preset",
            "none",
            "--run-dir",
            run_dir.name,
        ]
        command += [part for path, value in settings.items() for part in ("--set", f"{path}={value}")]

        def attempt() -> int:
            with interrupted_after(12.0):
                return maze(command)()

        ending = in_child(attempt, self._folder, self._scratch)
        began = (run_dir / "checkpoints" / "last").exists()
        if ending.code == INTERRUPTED and began and not ending.timed_out:
            return verdict
        verdict.problems = problems_of(ending, (0, 1, 2) if began else (0, 2))
        if ending.code == 1 and "tests/attack/spaces.py" in ending.err and not ending.left:
            verdict.problems = []  # the environment itself raised: its author is shown where
        return verdict
