"""The Python API: actions for single observations."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_devkit.probes import Workshop

from maze_core.base.errors import ConfigError
from tests.context.parts import Doubled

SPACES = {
    "discrete from 5": spaces.Discrete(3, start=5),
    "asymmetric box": spaces.Box(np.array([-3.0, 0.0]), np.array([-1.0, 10.0]), dtype=np.float64),
    "scalar box": spaces.Box(0, 1, ()),
    "integers": spaces.Box(-3, 7, (2,), np.int32),
    "choices": spaces.MultiDiscrete([2, 5]),
    "bits": spaces.MultiBinary(3),
    "dict": spaces.Dict({"a": spaces.Discrete(2, start=-1), "b": spaces.Dict({"c": spaces.Box(-1, 1, (2,))})}),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(5, 6, (1,), np.float32))),
}


@pytest.mark.parametrize("name", SPACES)
def test_actions_are_in_the_action_space(quick, name):
    """The environment accepts the result of compute_action, for every space."""
    space = SPACES[name]
    observation_space = spaces.Dict({"x": spaces.Box(-1, 1, (2,), np.float64), "n": spaces.Discrete(4, start=2)})

    def env():
        return SpacesEnv(observation_space, space)

    context = quick(env, "a2c", {"model.log_std_init": 1.5})
    context.train(1)
    observation_space.seed(0)
    for deterministic in (True, False):
        for _ in range(20):
            action = context.compute_action(observation_space.sample(), deterministic=deterministic)
            assert space.contains(action), action
    observation = observation_space.sample()
    first, second = context.compute_action(observation), context.compute_action(observation)
    assert str(first) == str(second)


def test_a_wrong_observation_is_refused(quick):
    context = quick(Workshop, model="template")
    observation, _ = Workshop().reset(seed=1)
    with pytest.raises(ConfigError, match="observation"):
        context.compute_action({"gauge": observation["gauge"]})
    with pytest.raises(ConfigError, match="mode"):
        context.compute_action({**observation, "mode": 7})


def test_make_env_gives_what_compute_action_takes(quick):
    def stacked(env):
        return gymnasium.wrappers.FrameStackObservation(env, 3)

    context = quick(SeededWalk, wrappers=[stacked, Doubled])
    env = context.make_env()
    observation, _ = env.reset(seed=1)
    assert observation.shape == (3, 2)
    action = context.compute_action(observation)
    inner = SeededWalk()
    inner.reset(seed=1)
    assert env.step(action)[1] == 2 * inner.step(action)[1]
