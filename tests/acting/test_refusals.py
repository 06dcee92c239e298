"""Acting refuses what training refuses, unless it is told not to look."""

from __future__ import annotations

import functools
import re
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_core.base.errors import ConfigError
from maze_core.collect.agents.single import SingleAgent, compute_action
from maze_core.models.mlp import MlpConfig, MlpModel
from tests.agents import MixedSource

SPACE = spaces.Dict(
    {
        "x": spaces.Box(-1, 1, (2, 2), np.float32),
        "far": spaces.Box(-np.inf, np.inf, (), np.float64),
        "mode": spaces.Discrete(3, start=2),
        "parts": spaces.Tuple([spaces.MultiBinary(2), spaces.Box(0, 255, (2,), np.uint8)]),
        "action_mask": spaces.Tuple([spaces.MultiBinary(2), spaces.MultiBinary(3)]),
    }
)
ACTION = spaces.MultiDiscrete([2, 3])
GOOD = {
    "x": np.zeros((2, 2), np.float32),
    "far": 3.5,
    "mode": 4,
    "parts": (np.ones(2, np.int8), np.zeros(2, np.uint8)),
    "action_mask": (np.ones(2, np.int8), np.ones(3, np.int8)),
}
BAD = {
    "nan": ({"x": np.array([[0, 0], [0, np.nan]], np.float32)}, r"'x'.*nan at \[1, 1\]"),
    "minus infinity": ({"far": -np.inf}, "'far'.*-inf"),
    "too large for float32": ({"far": 1e300}, "'far'.*inf"),
    "no choice": ({"action_mask": (np.ones(2, np.int8), np.zeros(3, np.int8))}, r"'action_mask/1'.*member 1"),
    "another shape": ({"x": np.zeros((2, 3), np.float32)}, r"'x'.*shape \(2, 2\)"),
    "a batch": ({"mode": np.full(7, 4)}, r"'mode'.*shape \(\)"),
    "a lossy dtype": ({"parts": (np.ones(2, np.int8), np.zeros(2))}, "'parts/1'.*dtype uint8"),
    "a text": ({"far": "3.5"}, "'far'.*dtype"),
    "a ragged list": ({"x": [[0.0, 1.0], [0.0]]}, "'x'.*not an array"),
    "a tensor with a gradient": ({"x": torch.zeros((2, 2), requires_grad=True)}, "(?s)'x'.*not an array"),
    "outside of a choice": ({"mode": 1}, "'mode'.*Discrete"),
    "another leaf": ({"y": 0.0}, r"'observation'.*\['action_mask', 'far'"),
    "a list for a Dict": (None, "'observation'.*a list"),
}


@functools.cache
def policy(memory="none"):
    config = MlpConfig(name="mlp", memory=memory)
    torch.manual_seed(1)
    return MlpModel(config).build_policy(observation_space=SPACE, action_space=ACTION, config=config).eval()


def observed(change):
    return [1, 2] if change is None else {**GOOD, **change}


@pytest.mark.parametrize("name", BAD)
def test_an_observation_is_refused_by_its_leaf(name):
    change, message = BAD[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for act in (SingleAgent(policy()).act, functools.partial(compute_action, policy(), deterministic=False)):
            with pytest.raises(ConfigError, match=message) as caught:
                act(observed(change))
            text = str(caught.value)
            assert "check=False" in text
            assert "first" not in text
            assert not re.search("environment|train", text)


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_stored_is_refused_without_checks_too(name):
    """In words for who sends observations: nothing is said of training, and nothing to set that is set."""
    change, message = BAD[name]
    for act in (SingleAgent(policy(), check=False).act, functools.partial(compute_action, policy(), check=False)):
        try:
            assert ACTION.contains(act(observed(change)))
        except ConfigError as error:
            text = str(error)
            assert re.search(message, text)
            assert not re.search("environment|train|first|check=False|finite", text)
            assert text.endswith("needs an observation with the structure, shapes and dtypes of its observation space.")


def test_most_of_it_is_refused_without_checks():
    refused = set()
    for name, (change, _) in BAD.items():
        try:
            SingleAgent(policy(), check=False).act(observed(change))
        except ConfigError:
            refused.add(name)
    assert len(refused) >= 5


def test_a_refused_observation_changes_neither_memory_nor_noise():
    agents = [SingleAgent(policy("gru"), deterministic=False, generator=torch.Generator().manual_seed(3)) for _ in "ab"]
    chosen: list[list[list[int]]] = [[], []]
    for step in range(6):
        for number, agent in enumerate(agents):
            if number:
                with pytest.raises(ConfigError):
                    agent.act({**GOOD, "far": np.nan})
            chosen[number].append(agent.act({**GOOD, "far": float(step)}).tolist())
    assert chosen[0] == chosen[1]


def test_without_checks_it_acts_all_the_same():
    for change in ({"far": np.nan}, {"x": np.full((2, 2), np.inf)}, BAD["no choice"][0]):
        agent = SingleAgent(policy(), check=False)
        assert ACTION.contains(agent.act(observed(change)))
        assert ACTION.contains(compute_action(policy(), observed(change), check=False))


def test_values_that_fit_are_not_refused():
    agent = SingleAgent(policy())
    lists = {**GOOD, "x": [[0, 1], [0, 1]], "mode": np.int16(2), "parts": [[True, False], [1, 2]]}
    lists["parts"][1] = np.array([1, 2], np.uint8)
    for good in (GOOD, lists, {**GOOD, "far": 3.4e38, "x": np.full((2, 2), 3e38, np.float32)}):
        assert ACTION.contains(agent.act(good))


SEEN = {"x": np.zeros(2, np.float32), "action_mask": np.ones(3, np.int8)}


@pytest.mark.parametrize(
    ("name", "observation", "message"),
    [
        ("one", {**SEEN, "x": np.array([0, np.inf])}, r"of 'one' is refused at 'x': it holds inf at \[1\]"),
        ("late", {**SEEN, "action_mask": np.zeros(3, np.int8)}, r"of 'late'.*'action_mask'.*every choice"),
        ("two", np.array([0, 0, np.nan], np.float32), r"of 'two' is refused at 'observation': it holds nan at \[2\]"),
        ("two", np.zeros(2, np.float32), r"of 'two' is refused at 'observation'.*shape \(3,\)"),
        ("one", {"x": SEEN["x"]}, "of 'one'.*keys"),
        ("one", None, "of 'one'.*NoneType"),
    ],
)
def test_each_agent_refuses_what_is_not_its_own(quick, name, observation, message):
    context = quick(MixedSource, "ppo")
    agents = context.agents()
    with pytest.raises(ConfigError, match=message):
        agents.act(name, observation)
    good = {"one": SEEN, "late": SEEN, "two": np.zeros(3, np.float32)}[name]
    expected = context.agents().act(name, good)
    assert np.array_equal(agents.act(name, good), expected), "it remembers nothing of what it refused"
    unchecked = context.agents(check=False)
    if isinstance(observation, dict) and len(observation) == 2:
        assert unchecked.act(name, observation) in (0, 1, 2)
    elif np.shape(observation) != (3,):
        with pytest.raises(ConfigError, match=message) as caught:
            unchecked.act(name, observation)
        assert not re.search("environment|train|check=False|finite", str(caught.value))


@pytest.mark.parametrize("check", [True, False])
def test_what_is_more_than_an_observation_is_named(quick, check):
    context = quick("CartPole-v1")
    env = context.make_env()
    seen, info = env.reset(seed=0)
    agent = context.agent(check=check)
    agent.act(seen)
    for argument, answer in (
        ((seen, info), r"observation: is all that env.reset\(\) returns\nNext: pass the first: env.reset\(\)\[0\]"),
        (env.step(0), r"observation: is all that env.step\(action\) returns"),
        (np.stack([seen] * 3), r"observation: is a batch of 3, of shape \(3, 4\); it must be one observation"),
        ([seen, seen], r"observation: is a batch of 2, of shape \(2, 4\)"),
    ):
        with pytest.raises(ConfigError, match=answer):
            agent.act(argument)
    with pytest.raises(ConfigError, match="the observation is refused"):
        agent.act(np.zeros((3, 5), np.float32))
