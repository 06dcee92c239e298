"""Environments that change settings of the whole process for themselves: training goes on as without them."""

import gymnasium
import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk

from maze_core.base.foreign_settings import settings_kept

OVERRIDES = {"evaluation.n_episodes": 0}

CHANGES = {
    "type": lambda: torch.set_default_dtype(torch.float64),
    "gradients": lambda: torch.set_grad_enabled(False),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "device": lambda: torch.set_default_device("meta"),
    "determinism": lambda: torch.use_deterministic_algorithms(True),
    "errors": lambda: np.seterr(all="raise"),
}


class Changing(gymnasium.Wrapper):
    """Makes the changes at one place."""

    def __init__(self, names, place):
        super().__init__(SeededWalk())
        self.names, self.place = names, place
        self._change("constructor")

    def _change(self, place):
        for name in self.names if place == self.place else ():
            CHANGES[name]()

    def reset(self, **options):
        self._change("reset")
        return super().reset(**options)

    def step(self, action):
        self._change("step")
        return super().step(action)


@pytest.fixture(autouse=True)
def put_back():
    with settings_kept():
        yield


@pytest.mark.parametrize(
    ("algorithm", "place", "names"),
    [
        ("dqn", "constructor", tuple(CHANGES)),
        ("a2c", "reset", ("type", "gradients")),
        ("a2c", "step", ("type", "gradients")),
    ],
)
def test_training_is_that_of_an_environment_that_changes_nothing(quick, algorithm, place, names):
    before = torch.get_num_threads(), np.geterr()
    runs = [quick(lambda its=its: Changing(its, place), algorithm) for its in ((), names)]
    for run in runs:
        run.train()
    assert (torch.get_num_threads(), np.geterr()) == before
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32
    one, other = (run.run.policy.state_dict() for run in runs)
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", list(CHANGES))
def test_each_setting_is_put_back(name):
    def all_of_them():
        found = [torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads(), np.geterr()]
        return [*found, torch.get_default_device(), torch.are_deterministic_algorithms_enabled()]

    before = all_of_them()
    with settings_kept():
        CHANGES[name]()
        assert all_of_them() != before
    assert all_of_them() == before
