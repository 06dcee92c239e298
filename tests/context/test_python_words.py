"""Errors of the Python API name its arguments, not the options of the command line."""

import re

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv

from maze_core import RunContext
from maze_core.base.errors import ConfigError
from maze_core.run.python_words import translated


class Weighed(SeededWalk):
    """Its rewards are of two numbers."""

    def step(self, action):
        observation, _, *ends, info = super().step(action)
        return observation, np.ones(2), *ends, info


def pictures():
    return SpacesEnv(spaces.Box(0, 255, (40, 40, 3), np.uint8), spaces.Discrete(2))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda new, full: new(run_dir=full).run, r"^run_dir: .* is not empty"),
        (lambda new, full: new("Fetch-v9").run, r'env="gymnasium_robotics:Fetch-v9"'),
        (lambda new, full: new(experiment="no such"), r"^experiment: there is no experiment"),
        (lambda new, full: new(Weighed, "a2c").train(1),
         r'wrappers=\["scalarize"\] overrides=\{"wrappers\.0\.weights": \[1,1\]\}'),
        (lambda new, full: new(pictures).run, r'model="cnn", or wrappers=\["flatten"\]'),
        (lambda new, full: RunContext.open(full), r"is not a run directory"),
        (lambda new, full: new("./walks.py").run, r'env="walks:NAME"'),
    ],
)  # fmt: skip
def test_no_option_is_named(quick, tmp_path, monkeypatch, make, words):
    monkeypatch.chdir(tmp_path)
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    with pytest.raises(ConfigError, match=words) as raised:
        make(quick, full)
    own = [line for line in str(raised.value).splitlines() if "maze " not in line]
    assert not re.search(r"(?<!\w)--[a-z]", "\n".join(own))


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_device_that_is_not_there(quick):
    with pytest.raises(ConfigError, match=r'Next: overrides=\{"algorithm\.device": "cpu"\}, or auto\.$'):
        _ = quick(overrides={"algorithm.device": "cuda"}).run


@pytest.mark.parametrize(
    ("option", "argument"),
    [
        ("Set it: --set model.normalize_observations=true", 'Set it: overrides={"model.normalize_observations": True}'),
        ("Next: --no-double", 'Next: overrides={"algorithm.double": False}'),
        ("Leave out --init-from.", "Leave out init_from."),
        ("--set a.b=1 --set c=no", 'overrides={"a.b": 1, "c": "no"}'),
        ("--set a=1 --no-double", 'overrides={"a": 1, "algorithm.double": False}'),
        ("Weigh: --set a=1, or --set b=0.5. All", 'Weigh: overrides={"a": 1}, or overrides={"b": 0.5}. All'),
        ("--set 'wrappers.0.keys=[one,two/2]', beside", 'overrides={"wrappers.0.keys": ["one","two/2"]}, beside'),
        (
            """--set 'algorithm.tasks={"goal": {"low": -1, "high": 1}}'""",
            'overrides={"algorithm.tasks": {"goal": {"low": -1, "high": 1}}}',
        ),
        ("Next: --set algorithm.epsilon, of dqn", "Next: algorithm.epsilon, of dqn"),
        ("Next: --set learners=1, or maze train --lr 1", 'Next: overrides={"learners": 1}, or maze train --lr 1'),
        ("--lr 1e-3; or --steps 100", 'overrides={"algorithm.lr": 1e-3}; or steps=100'),
        ("Next: maze train ppo --env X", "Next: maze train ppo --env X"),
        ("a - b -- c", "a - b -- c"),
        ("unless --run-dir named another", "unless run_dir named another"),
        ("maze resume runs/a", 'RunContext.reopen("runs/a").train()'),
        ("Next: maze resume '/a b/c'", 'Next: RunContext.reopen("/a b/c").train()'),
        ("maze eval runs/a --episodes 20", 'RunContext.open("runs/a").evaluate(20)'),
        (
            "maze eval runs/a --stochastic --checkpoint last",
            'RunContext.open("runs/a", checkpoint="last").evaluate(deterministic=False)',
        ),
        ("maze resume a --checkpoint previous, or", 'RunContext.reopen("a", checkpoint="previous").train(), or'),
        ("maze resume runs/a --set steps=9", "maze resume runs/a --set steps=9"),
        ("maze eval RUN --policy one", "maze eval RUN --policy one"),
    ],
)
def test_words(option, argument):
    assert translated(option) == argument
