"""An algorithm that does not take every action space refuses the others before the first step."""

import pytest
from gymnasium import spaces
from maze_a2c.a2c import A2C
from maze_a2c.config import A2CConfig
from maze_devkit.envs import SpacesEnv

from maze_core.base.errors import ConfigError

OVERRIDES = {"evaluation.n_episodes": 0}

VECTOR = spaces.Box(-1, 1, (2,))
BOTH = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(3)})


def algorithm(*kinds):
    return type("Some", (A2C,), {"action_spaces": kinds})(A2CConfig(name="some"))


@pytest.mark.parametrize(
    ("kinds", "space"),
    [((spaces.Discrete,), VECTOR), ((spaces.Discrete,), BOTH), ((spaces.Box, spaces.Dict), BOTH)],
)
def test_others_are_refused(kinds, space):
    with pytest.raises(ConfigError, match=f"some supports actions of {kinds[0].__name__}"):
        algorithm(*kinds).check_action_space(space)


@pytest.mark.parametrize(
    ("kinds", "space"),
    [((spaces.Box,), VECTOR), ((spaces.Discrete, spaces.Dict), BOTH), ((spaces.Discrete,), spaces.Discrete(2))],
)
def test_its_own_are_taken(kinds, space):
    algorithm(*kinds).check_action_space(space)


def test_what_is_refused_in_a_dict_is_named():
    space = spaces.Dict({"gear": spaces.Discrete(3), "wheel": VECTOR})
    with pytest.raises(ConfigError, match=r"some supports actions of Discrete, Dict, but the action 'wheel' is Box\("):
        algorithm(spaces.Discrete, spaces.Dict).check_action_space(space)
    with pytest.raises(ConfigError, match=r"some supports actions of Discrete, but this environment has Dict\("):
        algorithm(spaces.Discrete).check_action_space(space)


def test_a_run_is_refused_before_it_has_a_directory(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(A2C, "action_spaces", (spaces.Discrete,))
    with pytest.raises(ConfigError, match="a2c supports actions of Discrete"):
        quick(lambda: SpacesEnv(spaces.Box(-1, 1, (2,)), VECTOR), "a2c", run_dir=tmp_path / "run").train()
    assert not (tmp_path / "run").exists()
