"""Wrappers that change nothing are named or refused, and so are numbers that no info has."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_core.base.errors import ConfigError

IDLE = {
    "scale_reward": {"factor": 1, "shift": 0},
    "step_skip": {"steps": 1},
    "sticky_actions": {"probability": 0},
    "shift_observations": {"offset": [0.0]},
    "monitor": {"rewards": False, "observations": False, "actions": False},
}


@pytest.mark.parametrize("name", IDLE)
def test_settings_that_change_nothing_are_named(quick, name):
    notes = quick("Pendulum-v1", wrappers=[{"name": name, **IDLE[name]}]).run.notes
    assert any(note.startswith(f"wrappers.0: {name} changes nothing with ") for note in notes)
    others = quick("Pendulum-v1", wrappers=[{"name": "clip_reward"}]).run.notes
    assert not any("changes nothing" in note for note in others)


class Unit(gymnasium.Env):
    """Everything is from -1 to 1 already."""

    observation_space = spaces.Dict(
        {"a": spaces.Box(-1, 1, (2,), np.float32), "b": spaces.Box(-1, 1, (1,), np.float64)}
    )
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {"speed": 1.0}

    def step(self, action):
        return self.observation_space.sample(), 1.0, bool(self.np_random.random() < 0.2), False, {"speed": 1.0}


@pytest.mark.parametrize(("name", "values", "why"), [
    ("rescale_actions", {}, "would change nothing: 'action' is from -1 to 1 already"),
    ("rescale_observations", {}, "would change nothing: 'a' is from -1 to 1 already, 'b' is from"),
    ("rescale_observations", {"keys": ["b"]}, "'b' .* is from -1 to 1 already"),
    ("select", {"keys": ["a", "b"]}, "would change nothing: every part stays"),
    ("scalarize", {}, "would change nothing: the reward is a single number"),
])  # fmt: skip
def test_a_wrapper_for_which_there_is_nothing_to_do_is_refused(quick, name, values, why):
    with pytest.raises(ConfigError, match=why):
        quick(Unit, wrappers=[{"name": name, **values}]).train()
    if name.startswith("rescale"):
        quick(Unit, wrappers=[{"name": name, "low": 0}]).train()


def test_a_number_that_no_info_has_is_named(quick):
    with pytest.warns(RuntimeWarning, match="no info of the first episode had sped; its last one has speed"):
        quick(Unit, wrappers=[{"name": "info_events", "events": {"sped": ["mean"], "speed": ["mean"]}}]).train()
