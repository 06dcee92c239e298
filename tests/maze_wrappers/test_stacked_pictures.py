"""Stacked pictures are pictures in the layout they had, which the default layout reads rightly."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv

from maze_core.base.errors import ConfigError
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.sources.factory import FactoryConfig, FactorySource
from maze_core.plugins.config.assembly import part_config


class Film(gymnasium.Env):
    """Frame k of an episode is filled with k; channel c of it with k + 10 c."""

    action_space = spaces.Discrete(2)

    def __init__(self, shape, dtype=np.uint8, channel_axis=-1):
        self.observation_space = spaces.Box(0, 255, shape, dtype)
        self._axis = channel_axis

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._frame = 0
        return self._picture(), {}

    def step(self, action):
        self._frame += 1
        return self._picture(), 0.0, False, self._frame >= 7, {}

    def _picture(self):
        space = self.observation_space
        picture = np.full(space.shape, self._frame, space.dtype)
        if len(space.shape) == 3:
            channels = 10 * np.arange(space.shape[self._axis])
            picture += np.expand_dims(channels, [0, 1] if self._axis == -1 else [1, 2]).astype(space.dtype)
        return picture


def wrap(make, *wrappers):
    configs = tuple(part_config("wrapper", {"name": name, **values}) for name, values in wrappers)
    return EnvBuilder(FactoryConfig().bound_to(FactorySource.of(make)), configs)(0)


def frames(env, steps):
    observation, _ = env.reset(seed=0)
    for _ in range(steps):
        observation = env.step(0)[0]
    assert env.observation_space.contains(observation)
    return observation


def test_gray_resize_stack_and_cnn_fit(quick):
    picture = spaces.Box(0, 255, (210, 160, 3), np.uint8)
    wrappers = ["gray", "resize", "stack"]
    with quick(
        lambda: SpacesEnv(picture, spaces.Discrete(6)),
        model="cnn",
        wrappers=wrappers,
        overrides={"model.critic": "shared"},
    ) as context:
        assert context.run.observation_space == spaces.Box(0, 255, (84, 84, 4), np.uint8)
        assert context.policy.encoder.parts["observation_encoder"].channels == 4
        # That of Mnih et al. 2015; read as 4 by 84 pixels it has 11 million.
        assert sum(each.numel() for each in context.policy.parameters()) == 1_687_719


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_the_frames_of_a_colour_film_are_further_channels(dtype):
    env = wrap(lambda: Film((12, 9, 3), dtype), ("stack", {"size": 3}))
    assert env.observation_space == spaces.Box(0, 255, (12, 9, 9), dtype)
    seen = frames(env, 5)
    assert seen[2, 4].tolist() == [3, 13, 23, 4, 14, 24, 5, 15, 25]
    assert (seen == seen[:1, :1]).all()


def test_the_newest_gray_frame_is_the_last_channel():
    env = wrap(lambda: Film((12, 9)), ("stack", {}))
    assert env.observation_space == spaces.Box(0, 255, (12, 9, 4), np.uint8)
    assert frames(env, 1)[3, 3].tolist() == [0, 0, 0, 1]
    assert frames(env, 6)[3, 3].tolist() == [3, 4, 5, 6]
    assert frames(wrap(lambda: Film((12, 9)), ("stack", {"padding": "zero"})), 2)[0, 0].tolist() == [0, 0, 1, 2]


def test_channels_that_come_first_stay_first():
    env = wrap(lambda: Film((3, 84, 64), channel_axis=0), ("stack", {"size": 2}))
    assert env.observation_space == spaces.Box(0, 255, (6, 84, 64), np.uint8)
    assert frames(env, 3)[:, 5, 5].tolist() == [2, 12, 22, 3, 13, 23]


@pytest.mark.parametrize("axis", [0, 1, -1, 3])
def test_an_axis_of_its_own_where_that_is_said(axis):
    env = wrap(lambda: Film((12, 9, 3)), ("stack", {"axis": axis, "size": 5}))
    theirs = gymnasium.wrappers.FrameStackObservation(Film((12, 9, 3)), 5)
    assert env.observation_space.shape == np.moveaxis(np.zeros((5, 12, 9, 3)), 0, axis).shape
    np.testing.assert_array_equal(frames(env, 6), np.moveaxis(frames(theirs, 6), 0, axis))


def test_an_axis_that_there_is_not():
    with pytest.raises(ConfigError, match=r"'observation' has no position 4 for a new axis|has no position 4"):
        wrap(lambda: Film((12, 9, 3)), ("stack", {"axis": 4}))
