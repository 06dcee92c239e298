"""DQN from stacks of frames: each frame is stored once, from single and native environments, and resumes are exact."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_offpolicy.replay.frames import FrameStack

from tests.bomb import bomb
from tests.interrupted import interrupted

VALUES = {
    "model.name": "cnn",
    "algorithm.num_envs": 2,
    "algorithm.replay_buffer_size": 60,
    "algorithm.initial_buffer_size": 30,
    "algorithm.n_epochs": 6,
    "algorithm.epoch_length": 6,
    "algorithm.batch_size": 8,
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": None,
}


class Screen(gymnasium.Env):
    """Noise on a screen, for seven steps."""

    observation_space = spaces.Box(0, 255, (36, 36), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 7
        return self.picture(), {}

    def step(self, action):
        self.left -= 1
        return self.picture(), float(action), False, self.left == 0, {}

    def picture(self):
        return self.np_random.integers(256, size=(36, 36), dtype=np.uint8)


class Board(Screen):
    """Pictures with four planes that have nothing to do with each other."""

    observation_space = spaces.Box(0, 255, (36, 36, 4), np.uint8)

    def picture(self):
        return self.np_random.integers(256, size=(36, 36, 4), dtype=np.uint8)


class Barred(Screen):
    """Raises at an action that its mask forbids."""

    observation_space = spaces.Dict({"observation": Screen.observation_space, "action_mask": spaces.MultiBinary(3)})

    def step(self, action):
        assert action != 1
        return super().step(action)

    def picture(self):
        return {"observation": super().picture(), "action_mask": np.array([1, 0, 1], np.int8)}


def sampled(context):
    replay = context.run.algorithm.kept["collector"].replay
    return replay, replay.sample(np.random.default_rng(0), 50, 0.9, n_step=3)


RAINBOW = {"algorithm.prioritized": True, "algorithm.n_step": 3, "algorithm.noisy": True, "algorithm.dueling": True}


@pytest.mark.parametrize(("stop", "more"), [(26, RAINBOW)])
def test_an_interrupted_run_ends_with_the_same_parameters_and_replay(learn, assert_same, stop, more):
    stack, values = [{"name": "stack", "size": 3}], VALUES | more
    stopped = learn(Screen, "dqn", values, wrappers=stack, callbacks={"bomb": bomb(at=stop)})
    assert interrupted(stopped.train).outcome == "interrupted"
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    whole = learn(Screen, "dqn", values, wrappers=stack, callbacks={"bomb": bomb(at=0)})
    whole.train()
    assert_same(dict(stopped.policy.state_dict()), dict(whole.policy.state_dict()))
    (replay, one), (other, two) = sampled(stopped), sampled(whole)
    assert replay.frames["observation"].stack == FrameStack(3, -1)
    assert replay.frames["observation"].rows == other.frames["observation"].rows
    np.testing.assert_array_equal(one.obs["observation"], two.obs["observation"])
    np.testing.assert_array_equal(one.next_obs["observation"], two.next_obs["observation"])


@pytest.mark.parametrize("env", [Board, Screen])
def test_pictures_that_are_no_stacks_are_stored_whole(learn, env):
    context = learn(env, "dqn", VALUES | {"algorithm.n_epochs": 1})
    context.train()
    replay, batch = sampled(context)
    assert replay.frames == {}
    assert batch.obs["observation"].shape[1:] == env.observation_space.shape


def test_masks_are_respected_while_stacks_are_looked_for(learn):
    wrappers = [{"name": "stack", "size": 2, "keys": ["observation"]}]
    context = learn(Barred, "dqn", VALUES | {"algorithm.n_epochs": 1, "model.name": "template"}, wrappers=wrappers)
    context.train()
    assert set(sampled(context)[0].frames) == {"observation"}
