"""The vector environment RLlib steps: episodes, seeds, spaces, failures."""

import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import CountingEnv, FailingEnv, SpacesEnv
from maze_rllib.vector_env import TreeVectorEnv, leaf_tree

from maze_core.base.errors import RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)


def vector(make, num_envs=2, first_index=0, plain=False):
    return TreeVectorEnv(make, num_envs, first_index, SEEDS, plain=plain)


def test_a_step_after_an_end_begins_the_next_episode_and_ignores_the_action():
    env = vector(lambda index: CountingEnv(length=2, tag=index))
    obs, _ = env.reset()
    assert obs["observation"].tolist() == [[0, 0, 0], [1, 0, 0]]
    seen = [env.step(np.zeros(2, np.int64)) for _ in range(4)]
    assert [step[0]["observation"][0, 1:].tolist() for step in seen] == [[0, 1], [0, 2], [1, 0], [1, 1]]
    assert [step[2][0] for step in seen] == [False, True, False, False]
    assert [step[1][1] for step in seen] == [1.01, 1.02, 0.0, 1.01]


def test_truncation_is_no_termination():
    env = vector(lambda index: CountingEnv(length=1, truncate=True))
    env.reset()
    _, _, terminated, truncated, _ = env.step(np.zeros(2, np.int64))
    assert not terminated.any()
    assert truncated.all()


def test_finished_episodes_are_counted_whole():
    env = vector(lambda index: CountingEnv(length=3, tag=index), first_index=4)
    env.reset()
    for _ in range(8):
        env.step(np.zeros(2, np.int64))
    assert [(e.env_index, e.episode_number, e.length) for e in env.finished] == [
        (4, 0, 3),
        (5, 0, 3),
        (4, 1, 3),
        (5, 1, 3),
    ]
    assert env.finished[1].episode_return == pytest.approx(5 * 3 + 0.06)


def test_each_episode_has_its_seed():
    seeds = []

    class Noting(CountingEnv):
        def reset(self, *, seed=None, options=None):
            seeds.append(seed)
            return super().reset(seed=seed, options=options)

    env = vector(lambda index: Noting(length=1), num_envs=1, first_index=5)
    env.reset(seed=999)
    for _ in range(4):
        env.step(np.zeros(1, np.int64))
    assert seeds == [SEEDS(5, episode) for episode in range(3)]


def test_observations_are_not_overwritten_later():
    env = vector(lambda index: CountingEnv(one_buffer=True))
    first, _ = env.reset()
    env.step(np.zeros(2, np.int64))
    assert first["observation"][0].tolist() == [0, 0, 0]


def test_spaces_are_flat_and_count_from_zero():
    space = spaces.Dict({"a": spaces.Discrete(3, start=5), "b": spaces.Dict({"c": spaces.Box(0, 1, (2,), np.float64)})})
    tree = leaf_tree(space, "observation")
    assert tree["a"] == spaces.Discrete(3)
    assert tree["b/c"].dtype == np.float32
    assert leaf_tree(spaces.Discrete(4, start=1), "action") == spaces.Discrete(4)


def test_nested_actions_reach_the_environment_in_its_own_units():
    action_space = spaces.Dict({"n": spaces.Discrete(2, start=3), "x": spaces.Box(-2, 5, (2,))})
    inner = SpacesEnv(spaces.Box(-1, 1, (2,)), action_space)
    env = vector(lambda index: inner, num_envs=1)
    env.reset()
    env.step({"n": np.array([1]), "x": np.array([[-9.0, 9.0]], np.float32)})
    assert inner.last_action["n"] == 4
    assert inner.last_action["x"].tolist() == [-2, 5]


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("raise", "environment 7 .episode 0, step 3. raised ZeroDivisionError: the wheel came off"),
        ("nan_reward", "environment 7 .* reward that is not finite"),
        ("nan_observation", "environment 7 .* not finite"),
        ("no_reward", "environment 7 .episode 0, step 3. returned a reward that is not a number: 'much'"),
    ],
)
def test_a_failure_names_the_environment(way, words):
    env = vector(lambda index: FailingEnv(way), num_envs=1, first_index=7)
    env.reset()
    env.step(np.zeros(1, np.int64))
    env.step(np.zeros(1, np.int64))
    with pytest.raises(RunError, match=words) as caught:
        env.step(np.zeros(1, np.int64))
    assert way != "raise" or isinstance(caught.value.__cause__, ZeroDivisionError)
