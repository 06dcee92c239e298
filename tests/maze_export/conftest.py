"""What tests of exporting share: environments of any spaces, and networks whose actions differ from row to row."""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_export import export


class Anything(gymnasium.Env):
    """Observations at random from any space, masks with a choice left; actions must be in the space."""

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._steps = 0
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self._steps += 1
        return self.observe(), 1.0, False, self._steps >= 20, {}

    def observe(self):
        observation = self.observation_space.sample()
        if isinstance(observation, dict):
            for key, value in observation.items():
                if key.endswith("_mask"):
                    # Every member of the MultiDiscrete below has its first choice in the first or third place.
                    value[[0, 2] if len(value) > 2 else 0] = 1
        return observation


OBSERVATIONS = spaces.Dict(
    {
        "action": spaces.Box(-np.inf, np.inf, (2,), np.float64),  # its name is that of a single output
        "picture": spaces.Box(0, 255, (6, 8, 3), np.uint8),
        "mode": spaces.Discrete(4, start=2),
        "noise": spaces.Dict({"action": spaces.MultiDiscrete([2, 3], start=[1, -4])}),
        "bits": spaces.MultiBinary(3),
        "whole": spaces.Box(-5, 5, (2,), np.int16),
        "tool_mask": spaces.MultiBinary(3),
        "pair_mask": spaces.Box(0, 1, (5,), np.int8),
        "switches_mask": spaces.MultiBinary(4),
    }
)
ACTIONS = spaces.Dict(
    {
        "tool": spaces.Discrete(3, start=5),
        "pair": spaces.MultiDiscrete([2, 3], start=[1, -1]),
        "switches": spaces.MultiBinary(4),
        "arm": spaces.Dict({"force": spaces.Box(np.array([[-1, 0]], np.float32), np.array([[1, 3]], np.float32))}),
        "fine": spaces.Box(-0.1, 0.7, (), np.float64),
        "coarse": spaces.Box(-3, 4, (2,), np.int8),
        "half": spaces.Box(-0.1, 0.3, (1,), np.float16),
    }
)
FREE = spaces.Dict(
    {**ACTIONS.spaces, "open": spaces.Box(-np.inf, np.inf, (2,)), "above": spaces.Box(0.5, np.inf, (1,))}
)
"""These have bounds that only a plain Gaussian allows."""


def stir(policy: Any, seed: int = 0) -> None:
    """Give a network weights of ordinary size and its normaliser statistics: its actions differ, and some clip."""
    torch.manual_seed(seed)
    for parameter in policy.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_().mul_(1.5 / parameter[0].numel() ** 0.5)
    if policy.normalizer is not None:
        shifts = {key: policy.normalizer.get_buffer(f"{key}_shift") for key in policy.normalizer.keys}
        policy.normalizer.observe({key: torch.randn(50, *shift.shape) + 0.1 for key, shift in shifts.items()})


@pytest.fixture(scope="session", autouse=True)
def library_read_once():
    """Let torch read its library of ONNX functions once, not for each file, where it has the functions to do so."""
    from torch._export import utils
    from torch.onnx._internal.exporter import _registration

    registry = _registration.ONNXRegistry
    known = cache(registry.from_torchlib)

    def from_torchlib(**version):
        copy = registry()
        copy.__dict__.update(known(**version).__dict__)
        copy.functions = {name: [*those] for name, those in copy.functions.items()}
        return copy

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "from_torchlib", staticmethod(from_torchlib))
        patch.setattr(utils, "_materialize_cpp_cia_ops", cache(utils._materialize_cpp_cia_ops))
        yield


@pytest.fixture
def prepared(quick, monkeypatch):
    """`prepared(env, **parts)`: a silent RunContext whose network is stirred; exports are compared on 130 rows."""
    monkeypatch.setattr(export, "ROWS", 130)

    def build(env, **parts):
        context = quick(env, **parts)
        stir(context.policy)
        return context

    return build
