"""The games: what a policy sees, what it learns from, and what is reported."""

import re
import sys

import gymnasium
import numpy as np
import pytest

ale_py = pytest.importorskip("ale_py", reason="the games need ale-py, which is under the GPL")

from maze_atari.config import AtariConfig  # noqa: E402
from maze_atari.source import AtariSource  # noqa: E402
from maze_foreign_envs.native import NativeVectorEnv  # noqa: E402
from maze_wrappers.images import area_weights  # noqa: E402

from maze_core.base.errors import ConfigError  # noqa: E402
from maze_core.base.seeding import EpisodeSeeds, Purpose  # noqa: E402
from maze_core.envs.builder import EnvBuilder  # noqa: E402
from maze_core.envs.spaces import allocate, space_specs  # noqa: E402

PLAIN = {"first_frames": 0, "sticky_actions": 0, "fire": False}
"""Without chance."""


def build(game, num_envs=1, purpose="training", **parameters):
    config = AtariConfig(name="atari", id=f"ALE/{game}-v5", **parameters)
    return AtariSource(config).make_vector_env(config, num_envs, 0, purpose)


def played(env, steps, seed=0):
    """Random actions; every step's results with its number."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        yield env.step(rng.integers(env.single_action_space.n, size=env.num_envs))


@pytest.mark.parametrize(("height", "width", "skip"), [(84, 84, 4), (60, 90, 3)])
def test_what_is_seen_is_the_gray_area_mean_of_the_brighter_of_two_frames(height, width, skip):
    env = build("Breakout", purpose="evaluation", height=height, width=width, frame_skip=skip, **PLAIN)
    game = ale_py.AtariEnv("breakout", obs_type="grayscale", frameskip=1, repeat_action_probability=0.0)
    rows, columns = area_weights(210, height), area_weights(160, width)
    game.reset(seed=0)
    before, _ = env.reset(seed=0)
    assert (before.dtype, before.shape) == (np.uint8, (1, 4, height, width))
    rng = np.random.default_rng(0)
    for _ in range(60):
        action = rng.integers(4)
        frames, rewards, *_ = zip(*(game.step(action) for _ in range(skip)), strict=True)
        seen, reward, *_ = env.step(np.array([action]))
        expected = rows @ np.maximum(frames[-1], frames[-2]).astype(np.float32) @ columns.T
        assert np.abs(seen[0, -1] - expected).max() < 1.01
        assert np.array_equal(seen[0, :-1], before[0, 1:])
        assert reward[0] == sum(rewards)
        before = seen
    env.close()


def test_a_lost_life_ends_an_episode_of_training_and_the_game_goes_on():
    env = build("Breakout", 2, clip_rewards=False, sticky_actions=0)
    _, info = env.reset(seed=1)
    lives, ends = info["lives"].copy(), []
    for seen, _, terminated, truncated, info in played(env, 300):
        assert not truncated.any()
        for i in np.flatnonzero(terminated):
            over = lives[i] == 1
            ends.append(int(lives[i]))
            assert info["lives"][i] == (5 if over else lives[i] - 1)
            assert np.array_equal(info["final_obs"][i], seen[i]) != over
        lives = info["lives"].copy()
    env.close()
    assert {5, 4, 3, 2, 1} == set(ends), "whole games were played, life by life"


@pytest.mark.parametrize(("purpose", "parameters"), [("evaluation", {}), ("training", {"life_loss": False})])
def test_otherwise_an_episode_is_a_whole_game(purpose, parameters):
    env = build("Breakout", 2, purpose, **parameters)
    _, info = env.reset(seed=1)
    lives, ended = info["lives"].copy(), 0
    for _, _, terminated, _, info in played(env, 300):
        assert (lives[terminated] == 1).all()
        ended += int(terminated.sum())
        lives = info["lives"].copy()
    env.close()
    assert ended


def test_fire_is_pressed_for_every_life():
    def left(**parameters):
        env = build("Breakout", purpose="evaluation", **parameters)
        env.reset(seed=0)
        lives = [int(env.step(np.zeros(1, np.int64))[4]["lives"][0]) for _ in range(250)]
        env.close()
        return set(lives)

    assert left() == {5, 4, 3, 2, 1}, "a policy that never fires still loses its lives"
    assert left(fire=False) == {5}


def steps_of(purpose, wrappers=(), steps=300):
    """Rewards [steps, 2] and finished episodes of a small game of Space Invaders, as a run steps it."""
    config = AtariConfig(name="atari", id="ALE/SpaceInvaders-v5", height=40, width=40, max_frames=600)
    env = NativeVectorEnv(EnvBuilder(config, wrappers, purpose=purpose).vector_env(2))
    out = allocate(space_specs(env.observation_space, "observation"), (2,))
    env.reset(EpisodeSeeds(3, Purpose.TRAIN_EPISODES), out)
    rng, rewards, episodes = np.random.default_rng(0), [], []
    for _ in range(steps):
        result = env.step({"action": rng.integers(6, size=2)}, out)
        rewards.append(result.reward.copy())
        episodes += result.episodes
    env.close()
    return np.array(rewards), episodes


def test_learning_is_from_clipped_rewards_and_returns_are_the_games_own():
    learnt, of_training = steps_of("training")
    scored, of_evaluation = steps_of("evaluation")
    assert set(np.unique(learnt)) == {0, 1}
    assert set(np.unique(scored)) > {0, 5, 10}
    for episodes in (of_training, of_evaluation):
        returns = [each.episode_return for each in episodes]
        assert max(returns) > 20
        assert all(each % 5 == 0 for each in returns)
    assert sum(each.episode_return for each in of_evaluation) <= scored.sum()


def test_returns_stay_the_games_own_under_a_wrapper():
    from maze_wrappers.rewards import ScaleRewardConfig

    rewards, episodes = steps_of("training", (ScaleRewardConfig(name="scale_reward", factor=0.5),))
    assert set(np.unique(rewards)) == {0, 0.5}
    assert all(each.episode_return % 5 == 0 for each in episodes)
    assert max(each.episode_return for each in episodes) > 20


@pytest.mark.slow
def test_a_seed_decides_everything_and_games_differ():
    def sums(seed, threads):
        env = build("Breakout", 3, threads=threads)
        first, _ = env.reset(seed=seed)
        found = [first.astype(int).sum((1, 2, 3))]
        found += [step[0].astype(int).sum((1, 2, 3)) for step in played(env, 15)]
        env.close()
        return np.array(found)

    one = sums(0, 1)
    assert np.array_equal(one, sums(0, 2))
    assert np.array_equal(sums(2**62, 1), sums(2**62, 2))
    assert not np.array_equal(one[:, 0], one[:, 1])
    assert not np.array_equal(one, sums(1, 1))


def test_a_game_is_truncated_after_its_frames():
    env = build("Pong", 1, "evaluation", max_frames=200, first_frames=0)
    env.reset(seed=0)
    flags = [(bool(end[0]), bool(cut[0])) for _, _, end, cut, _ in played(env, 60)]
    env.close()
    assert flags.index((False, True)) + 1 == 50
    assert (True, False) not in flags


def test_other_vectorised_environments_keep_their_metadata():
    before = dict(gymnasium.vector.VectorEnv.metadata)
    build("Pong").close()
    assert gymnasium.vector.VectorEnv.metadata == before


def test_a_picture_is_the_newest_frame():
    env = build("Pong", 2)
    seen, _ = env.reset(seed=0)
    pictures = env.render()
    assert [picture.shape for picture in pictures] == [(84, 84, 3)] * 2
    assert np.array_equal(pictures[1][..., 2], seen[1, -1])
    env.close()


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ("Pong", "ALE/Pong-v5"),
        ("ALE/pong-v5", "ALE/Pong-v5"),
        ("ale_py:ALE/Breakout-v5", "ALE/Breakout-v5"),
        ("PongNoFrameskip-v4", "maze envs list atari"),
        ("CartPole-v1", "maze envs list atari"),
    ],
)
def test_a_game_that_does_not_exist_is_refused_with_advice(wrong, advice):
    config = AtariConfig(name="atari", id=wrong)
    with pytest.raises(ConfigError, match=re.escape(advice)):
        AtariSource(config).make_vector_env(config, 1, 0, "training")


def test_without_ale_it_says_what_to_install_and_lists_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    config = AtariConfig(name="atari", id="ALE/Pong-v5")
    with pytest.raises(ConfigError, match=r'pip install "ale-py>='):
        AtariSource(config).make_vector_env(config, 1, 0, "training")
    assert AtariSource.environments() == []
