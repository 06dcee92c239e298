"""Plugins that the core calls directly: what they return is checked at the start, and their errors name them."""

from __future__ import annotations

import pytest
import torch
from gymnasium import spaces
from torch import nn

from maze_core.base.errors import PluginError
from maze_core.collect.pools.checked_runner import CheckedRunner
from maze_core.collect.pools.dev import DevConfig, DevRunner
from maze_core.envs.builder import EnvBuilder
from maze_core.models.distributions.chosen import check_head
from maze_core.models.distributions.discrete import Categorical
from maze_core.models.distributions.family import Family
from maze_core.models.memory import Memory
from maze_core.models.memory_check import check_memory
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import env_config
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.direct_calls import named

pytestmark = pytest.mark.usefixtures("known_plugins")


class Sums(Memory):
    """A sound memory."""

    def __init__(self):
        super().__init__()
        self.layer, self.out_features = nn.Linear(3, 4), 4

    def initial_state(self, rows):
        return {"sum": torch.zeros(rows, 4)}

    def step(self, features, state):
        found = (state["sum"] + self.layer(features)).tanh()
        return found, {"sum": found}


def broken_memories():
    step, start, after = Sums.step, Sums.initial_state, Memory.after
    yield "out_features", {"out_features": True}, "has no `out_features`"
    yield "initial_state", {"initial_state": lambda self, rows: None}, "returned None, not a dict"
    yield "rows", {"initial_state": lambda self, rows: start(self, 2)}, r"not a tensor \[1, …\]"
    yield "numpy", {"initial_state": lambda self, rows: {"sum": start(self, rows)["sum"].numpy()}}, "a ndarray as 'sum'"
    yield "bfloat16", {"initial_state": lambda self, rows: {"sum": start(self, rows)["sum"].bfloat16()}}, "be saved"
    yield "nothing", {"step": lambda self, row, state: None}, "`step` returned None, not features and"
    yield "state", {"step": lambda self, row, state: (step(self, row, state)[0], {})}, "that after a step {}"
    yield "nan", {"step": lambda self, row, state: (step(self, row, state)[0] * torch.nan, state)}, "not finite"
    yield "shape", {"step": lambda self, row, state: (row, state)}, r"returned features torch.float32 \(1, 3\)"
    yield "in place", {"step": lambda self, row, state: (state["sum"].add_(1), dict(state))}, "changes the state"
    yield "short", {"unroll": lambda self, rows, *more: after(self, rows, *more)[0][:-1]}, r"`unroll` .* \(2, 4\)"
    yield (
        "other",
        {"unroll": lambda self, rows, *more: after(self, rows, *more)[0] + 1},
        "`unroll` gives other features",
    )
    yield "mixes", {"step": lambda self, row, state: (step(self, row, state)[0] + row.mean(), state)}, "gives other"


def test_a_memory_is_tried_before_the_first_step():
    before = torch.random.get_rng_state()
    sound = Sums()
    drawn = torch.random.get_rng_state()
    check_memory(sound, "sums", 3)
    assert sound.training
    assert torch.equal(drawn, torch.random.get_rng_state())
    for name, changes, problem in broken_memories():
        memory = type("Broken", (Sums,), {key: value for key, value in changes.items() if callable(value)})()
        for key, value in changes.items():
            if not callable(value):
                setattr(memory, key, value)
        with pytest.raises(PluginError, match=f"memory plugin '{name}': .*{problem}.*\nNext: maze plugins check"):
            check_memory(memory, name, 3)
    torch.random.set_rng_state(before)


class Sound(Family):
    """A sound family."""

    spaces = (spaces.Discrete,)
    gives = Categorical

    def size(self, space):
        return int(space.n)

    def noise(self, space):
        return {"gumbel": (int(space.n),)}

    def distribution(self, parameters, mask, head):
        return self.gives(parameters)


def test_a_head_is_tried_before_the_first_step():
    space, config = spaces.Discrete(2), PluginConfig(name="odd")
    check_head(Sound(config).head(space, 3), "odd", space, 3)
    broken = {
        "`sample` returned None": {"sample": lambda self, noise: None},
        "the action of `sample` is": {"sample": lambda self, noise: Categorical.sample(self, noise) + 7},
        "the action of `mode` is .*whole numbers": {"mode": lambda self: Categorical.mode(self) * 1.0},
        r"`log_prob` returned a tensor \(\)": {"log_prob": lambda self, x: Categorical.log_prob(self, x).sum()},
        "`log_prob` returned .*nan": {"log_prob": lambda self, x: Categorical.log_prob(self, x) * torch.nan},
        "`entropy` returned a float": {"entropy": lambda self: 0.0},
        r"`env_action` returned a tensor \(3, 1\)": {"env_action": lambda self, sample: sample[:, None]},
    }
    for problem, changes in broken.items():
        family = type("Broken", (Sound,), {"gives": type("Odd", (Categorical,), changes)})(config)
        with pytest.raises(PluginError, match=f"distribution plugin 'odd': {problem}"):
            check_head(family.head(space, 3), "odd", space, 3)
    with pytest.raises(PluginError, match="`head` returned a Linear"):
        check_head(nn.Linear(3, 2), "odd", space, 3)


@pytest.mark.parametrize(
    ("kind", "base", "changes", "problem"),
    [
        ("distribution", Sound, {"spaces": "Discrete"}, "its `spaces` is 'Discrete', not a tuple of classes"),
        ("distribution", Sound, {"spaces": (spaces.Discrete(2),)}, "not a tuple of classes"),
        ("distribution", Sound, {"gives": None}, "its `gives` is None"),
        ("runner", DevRunner, {"has_collectors": "yes"}, "neither True nor False"),
    ],
)
def test_attributes_of_no_use_are_refused_when_a_class_is_loaded(kind, base, changes, problem):
    assert discovery.misfit(kind, base) == ""
    assert problem in discovery.misfit(kind, type("Broken", (base,), changes))


def use(plugin, builder):
    runner = CheckedRunner(DevConfig(name="odd").bound_to(plugin))
    runner.vector_env(builder, 2)
    runner.workers(None, None)


def test_a_runner_returns_what_it_promises():
    builder = EnvBuilder(env_config("CartPole-v1", (), ())[0], seed=1)
    inner = DevRunner.vector_env
    broken = {
        "`vector_env` returned None, which is not a VectorEnv": {"vector_env": lambda self, builder, count: None},
        "`vector_env` returned 1 environments, not 2": {
            "vector_env": lambda self, builder, count: inner(self, builder, 1)
        },
        "`workers` returned None, which is not a WorkerPool": {"workers": lambda self, task, count: None},
        "`default_workers` is 0": {"default_workers": 0},
        " cannot be built: TypeError": {"__init__": lambda self: None},
        "SystemExit: 4": {"vector_env": lambda self, builder, count: exit(4)},
    }
    for problem, changes in broken.items():
        with pytest.raises(PluginError, match=f"runner plugin 'odd'.*{problem}"):
            use(type("Broken", (DevRunner,), changes), builder)


def test_an_exception_of_a_plugins_own_lines_names_it():
    with pytest.raises(ZeroDivisionError) as caught, named("memory", "odd"):
        1 / 0  # noqa: B018
    assert caught.value.__notes__ == ["in memory plugin 'odd'"]
