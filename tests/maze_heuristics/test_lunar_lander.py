"""The lander's controller lands, in both forms of the environment, and nowhere else."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_heuristics.lunar_lander import LunarLanderConfig, LunarLanderHeuristics
from maze_recordings.rollouts import roll_out, task_of_plugin

from maze_core.base.errors import ConfigError
from maze_core.collect.policies.base import build_policy_plugin
from maze_core.plugins.config.assembly import part_config

SEEN = spaces.Box(-10, 10, (8,), np.float32)


def policy(action_space):
    config = LunarLanderConfig(name="lunar_lander_heuristics").bound_to(LunarLanderHeuristics)
    return build_policy_plugin(config, SEEN, action_space)


@pytest.mark.parametrize("env", ["LunarLander-v3", "LunarLanderContinuous-v3"])
def test_it_lands(env):
    pytest.importorskip("Box2D")
    config = part_config("policy", {"name": "lunar_lander_heuristics"})
    played = roll_out(task_of_plugin(config, part_config("env", {"name": "gymnasium", "id": env}), (), 11), 16)
    returns = [each.episode_return for each in played]
    assert np.mean(returns) > 260
    assert min(returns) > 200


def state(**values):
    names = ["x", "y", "drift", "climb", "angle", "spin", "left", "right"]
    return {"observation": np.array([[values.get(name, 0.0) for name in names]], np.float32)}


@pytest.mark.parametrize(
    ("values", "engine"),
    [
        ({"y": 1, "climb": -1}, 2),
        ({"y": 1, "climb": 0}, 0),
        ({"y": 1, "angle": 0.5}, 3),
        ({"y": 1, "angle": -0.5}, 1),
        ({"y": 1, "spin": 0.5}, 3),
        ({"y": 1, "x": 0.5}, 1),
        ({"y": 1, "drift": -0.8}, 3),
        ({"angle": 0.5, "left": 1}, 0),
        ({"climb": -0.2, "right": 1}, 2),
    ],
)
def test_it_fires_the_engine_that_helps(values, engine):
    assert policy(spaces.Discrete(4)).act(state(**values), [None])["action"].tolist() == [engine]
    main, side = policy(spaces.Box(-1, 1, (2,))).act(state(**values), [None])["action"][0]
    fired = 2 if main > 0 else 1 if side < -0.5 else 3 if side > 0.5 else 0
    assert fired == engine


def test_its_sides_are_alike():
    rng = np.random.default_rng(0)
    here = rng.normal(size=(200, 8)).astype(np.float32) * 0.4
    here[:, 6:] = rng.integers(0, 2, (200, 2))
    there = here * np.array([-1, 1, -1, 1, -1, -1, 1, 1], np.float32)
    actions = policy(spaces.Discrete(4)).act({"observation": here}, [None] * 200)["action"]
    mirrored = policy(spaces.Discrete(4)).act({"observation": there}, [None] * 200)["action"]
    np.testing.assert_array_equal(np.array([0, 3, 2, 1])[actions], mirrored)


def test_it_refuses_other_environments():
    with pytest.raises(ConfigError, match="LunarLander-v3"):
        policy(gymnasium.make("CartPole-v1").action_space)
