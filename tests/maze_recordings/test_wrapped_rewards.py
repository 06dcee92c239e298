"""Recordings say which rewards they hold, and demonstrations are paid as the run that learns from them."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SeededWalk
from maze_recordings.demonstrations import as_trained
from maze_recordings.loader import load_trajectories
from maze_recordings.recording_files import DESCRIPTION, TrajectoryError
from maze_recordings.writer import TrajectoryWriter

from maze_core.base.errors import ConfigError
from maze_core.base.plain_json import checksummed, unsealed
from maze_core.data.rollout import Trajectory
from maze_core.plugins.config.base import PluginConfig


def steps_of(rewards, wrapped=None):
    count = len(rewards)
    obs = {"observation": np.zeros((count + 1, 2), np.float32)}
    values = None if wrapped is None else np.array(wrapped, np.float32)
    actions = {"action": np.zeros(count, np.int64)}
    return Trajectory(obs, actions, np.array(rewards, np.float32), True, False, float(sum(rewards)), 1, values)


SPACES = (spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2))


def recorded(folder, *episodes, wrappers=(), wrapped=False):
    source = {"wrappers": [each.model_dump(mode="json") for each in wrappers]}
    with TrajectoryWriter(folder, *SPACES, source, wrapped_rewards=wrapped) as writer:
        for each in episodes:
            writer.add(each)
    return folder


NORMALISED = PluginConfig(name="normalize_reward")


def test_joined_recordings_have_the_rewards_that_all_of_them_have(tmp_path):
    recorded(tmp_path / "x" / "a", steps_of([1, 2], [3, 4]), wrapped=True)
    recorded(tmp_path / "x" / "b", steps_of([5]))
    both = load_trajectories(tmp_path / "x")
    assert both.rewards.tolist() == [1, 2, 5]
    assert both.wrapped_rewards is None
    assert both.description.rewards == "of the environment"


@pytest.mark.parametrize("value", [1, "yes", None])
def test_a_description_that_lies_about_its_rewards_is_refused(value, tmp_path):
    folder = recorded(tmp_path / "a", steps_of([1, 2]))
    head = unsealed(json.loads((folder / DESCRIPTION).read_text()))
    (folder / DESCRIPTION).write_text(json.dumps(checksummed({**head, "wrapped_rewards": value})))
    with pytest.raises(TrajectoryError, match="it does not say which rewards are recorded"):
        load_trajectories(folder)


def test_wrapped_rewards_that_were_asked_for_must_be_there(tmp_path):
    with pytest.raises(TrajectoryError, match="wrapped_rewards"):
        recorded(tmp_path / "a", steps_of([1, 2]), wrapped=True)


def scaled(env):
    return gymnasium.wrappers.TransformReward(env, lambda reward: reward * 10 + 1)


def clipped(env):
    return gymnasium.wrappers.ClipReward(env, -1, 15)


def counted(env):
    return gymnasium.wrappers.TimeLimit(env, 5)


def normalised(env):
    return gymnasium.wrappers.NormalizeReward(env)


@pytest.mark.parametrize(
    ("wrappers", "expected"),
    [
        ([], [1, 2]),
        ([counted], [1, 2]),
        ([scaled], [11, 21]),
        ([scaled, clipped], [11, 15]),
        ([clipped, scaled], [11, 21]),
    ],
)
def test_demonstrations_are_paid_as_the_run_is(wrappers, expected, tmp_path):
    data, env = load_trajectories(recorded(tmp_path / "a", steps_of([1, 2]))), SeededWalk()
    for wrap in wrappers:
        env = wrap(env)
    assert as_trained(data, env, (), "here").rewards.tolist() == expected


def test_normalised_rewards_of_demonstrations_must_be_recorded(tmp_path):
    env = normalised(SeededWalk())
    raw = load_trajectories(recorded(tmp_path / "raw", steps_of([1, 2])))
    with pytest.raises(ConfigError, match="here: this run normalises its rewards"):
        as_trained(raw, env, [NORMALISED], "here")
    both = recorded(tmp_path / "both", steps_of([1, 2], [3, 4]), wrappers=[NORMALISED], wrapped=True)
    assert as_trained(load_trajectories(both), env, [NORMALISED], "here").rewards.tolist() == [3, 4]
    with pytest.raises(ConfigError, match="--wrapped-rewards"):
        as_trained(load_trajectories(both), env, [PluginConfig(name="other")], "here")
