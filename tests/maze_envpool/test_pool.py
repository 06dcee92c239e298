"""EnvPool's environments: the same transitions as gymnasium's, whatever resets itself when."""

from importlib.util import find_spec

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_envpool.source import EnvPoolConfig, EnvPoolSource
from maze_foreign_envs.native import NativeVectorEnv

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins.config.plain_yaml import parse_value
from maze_core.run.context import RunContext

# Asked without importing it, which takes a second in every process that collects.
pytestmark = pytest.mark.skipif(find_spec("envpool") is None, reason="EnvPool takes 740 MB: make setup-envpool")


def build(env_id="CartPole-v1", num_envs=4, seed=0, purpose="training", **parameters):
    config = EnvPoolConfig(name="envpool", id=env_id, **parameters)
    return EnvPoolSource(config).make_vector_env(config, num_envs, seed, purpose)


def native(**parameters):
    env = NativeVectorEnv(build(**parameters))
    out = allocate(space_specs(env.observation_space, "observation"), (env.num_envs,))
    env.reset(EpisodeSeeds(3, Purpose.TRAIN_EPISODES), out)
    return env, out


class Oracle:
    """gymnasium's CartPole, beginning where an episode of EnvPool begins."""

    def __init__(self, limit):
        self.env = gymnasium.make("CartPole-v1", max_episode_steps=limit)
        self.env.reset(seed=0)

    def begin(self, observation):
        self.env.reset(seed=0)
        self.env.unwrapped.state = tuple(map(float, observation))

    def step(self, action):
        observation, reward, terminated, truncated, _ = self.env.step(action)
        return observation, reward, terminated, truncated


@pytest.mark.parametrize("num_envs", [1, 4])
def test_transitions_are_those_of_gymnasium(num_envs):
    """Of random episodes some fall, and the limit cuts others; no transition leads from one episode to the next."""
    limit = 20
    env, out = native(num_envs=num_envs, max_episode_steps=limit)
    oracles = [Oracle(limit) for _ in range(num_envs)]
    rng = np.random.default_rng(0)
    for oracle, first in zip(oracles, out["observation"], strict=True):
        oracle.begin(first)
    before = np.zeros(num_envs, np.bool_)
    fell = cut = episodes = 0
    for _ in range(300):
        actions = {"action": rng.integers(2, size=num_envs)}
        result = env.step(actions, out)
        assert np.array_equal(result.valid, ~before)
        ended = result.final_indices.tolist()
        for i, oracle in enumerate(oracles):
            if before[i]:
                oracle.begin(out["observation"][i])
                assert [result.terminated[i], result.truncated[i], result.reward[i]] == [False, False, 0]
                continue
            seen, reward, terminated, truncated = oracle.step(int(actions["action"][i]))
            assert result.reward[i] == reward
            # Who falls in the very last step is cut for EnvPool.
            assert (result.terminated[i], result.truncated[i]) == (terminated and not truncated, truncated)
            last = result.final_obs["observation"][ended.index(i)] if i in ended else out["observation"][i]
            np.testing.assert_allclose(last, seen, atol=1e-4)
            fell, cut = fell + int(result.terminated[i]), cut + int(result.truncated[i])
        episodes += len(result.episodes)
        assert all(each.length <= limit and each.episode_return == each.length for each in result.episodes)
        before = result.terminated | result.truncated
    assert min(fell, cut) > 0
    assert episodes == fell + cut
    env.close()


def first_observations(seed, num_envs=8):
    env = build(num_envs=num_envs)
    observation, _ = env.reset(seed=seed)
    return observation.copy()


def test_the_seed_decides_all_episodes_and_pools_share_none():
    assert np.array_equal(first_observations(5), first_observations(5))
    seen = np.concatenate([first_observations(seed) for seed in (0, 1, 2, 2**31, 2**62)])
    assert len(np.unique(seen, axis=0)) == len(seen)
    env = build(num_envs=2)
    env.reset(seed=1)
    first, _ = env.reset()
    again = build(num_envs=2)
    again.reset(seed=1)
    assert np.array_equal(again.reset()[0], first)
    assert not np.array_equal(env.reset(seed=1)[0], first)


@pytest.mark.parametrize(
    ("env_id", "observation", "action"),
    [
        ("LunarLander-v3", spaces.Box(-np.inf, np.inf, (8,), np.float32), spaces.Discrete(4)),
        ("Pong-v5", spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6)),
        ("HalfCheetah-v5", spaces.Box(-np.inf, np.inf, (17,), np.float64), spaces.Box(-1, 1, (6,), np.float64)),
        ("FrozenLake-v1", spaces.Discrete(16), spaces.Discrete(4)),
    ],
)
def test_spaces(env_id, observation, action):
    env = build(env_id, 2)
    assert (env.single_observation_space, env.single_action_space) == (observation, action)
    seen, _ = env.reset(seed=0)
    for _ in range(20):
        assert all(row in observation for row in seen)
        seen, *_ = env.step(env.action_space.sample())


def test_a_dict_is_a_dict():
    env = build("MiniGrid-Empty-5x5-v0", 2)
    assert list(env.single_observation_space) == ["direction", "image", "mission"]
    seen, _ = env.reset(seed=0)
    assert seen["image"].shape == (2, 7, 7, 3)


def lives_at_the_ends(purpose):
    env = build("Breakout-v5", 4, purpose=purpose, training={"episodic_life": True})
    env.reset(seed=1)
    rng, found = np.random.default_rng(0), []
    for _ in range(250):
        _, _, terminated, _, info = env.step(rng.integers(4, size=4))
        found += info["lives"][terminated].tolist()
    return set(found)


def test_options_of_training_are_for_training_alone():
    assert lives_at_the_ends("training") >= {4, 3}
    assert lives_at_the_ends("evaluation") == {0}


def test_it_is_filmed():
    env = build(num_envs=2)
    env.reset(seed=0)
    first, second = env.render()
    assert (first.shape, first.dtype) == ((400, 600, 3), np.uint8)
    assert not np.array_equal(first, second)
    env.close()
    env.close()


@pytest.mark.parametrize(
    ("env_id", "parameters", "said"),
    [
        ("CartPole", {}, "env.id: EnvPool has no environment 'CartPole'\nDid you mean CartPole-v1"),
        ("ALE/Pong-v5", {}, "Did you mean Pong-v5"),
        ("\x1bx", {}, "maze envs list envpool"),
        ("Pong-v5", {"kwargs": {"episodic_lif": True}}, "env.kwargs.episodic_lif: Pong-v5 has no such option; did you"),
        ("Pong-v5", {"training": {"zzz": True}}, "env.training.zzz: Pong-v5 has no such option"),
        ("Pong-v5", {"kwargs": {"num_envs": 3}}, "env.kwargs.num_envs: is not an option here"),
        ("Pong-v5", {"kwargs": {"seed": 3}}, "Use --seed"),
        ("Pong-v5", {"kwargs": {"frame_skip": "many"}}, "env.kwargs: EnvPool refuses the options of Pong-v5"),
    ],
)
def test_what_cannot_be_built_is_one_clear_error(env_id, parameters, said):
    with pytest.raises(ConfigError) as error:
        build(env_id, **parameters)
    assert said in str(error.value)
    assert "\x1b" not in str(error.value)


def test_ids_are_listed():
    assert {"CartPole-v1", "Pong-v5", "HalfCheetah-v5"} <= set(EnvPoolSource.environments())


def test_a_run_trains_and_evaluates_and_says_what_a_resume_cannot_do(tmp_path, known_plugins):
    small = parse_value("{algorithm.num_envs: 4, algorithm.n_rollout_steps: 32, evaluation.n_episodes: 4}", "here")
    small |= {"algorithm.epoch_length": 1, "algorithm.lr_schedule": "constant", "callbacks.tensorboard": None}
    env = {"name": "envpool", "id": "CartPole-v1", "max_episode_steps": 50}
    with RunContext(
        env, "ppo", overrides=small, preset="none", steps=256, run_dir=tmp_path / "run", silent=True, seed=1
    ) as context:
        assert context.train().outcome == "finished"
        first = context.evaluate()["eval/return_mean"]
    with RunContext.open(tmp_path / "run") as opened:
        again = opened.evaluate()
        assert 8 <= again["eval/return_mean"] <= 50
        assert opened.evaluate()["eval/return_mean"] == again["eval/return_mean"]
    assert 8 <= first <= 50
    with (
        pytest.warns(RuntimeWarning, match="cannot return to a recorded state"),
        RunContext.reopen(tmp_path / "run", {"steps": 512, "callbacks.console": None}) as reopened,
    ):
        summary = reopened.train()
    assert summary.outcome == "finished"
    assert summary.env_steps >= 512


def test_the_advice_for_a_pool_trains(quick):
    envpool = pytest.importorskip("envpool")
    with pytest.raises(ConfigError, match=r"is a batch of EnvPool's .*\n.*env=.envpool:ID., with an ID of"):
        quick(lambda: envpool.make("CartPole-v1", env_type="gymnasium", num_envs=2)).train()
    run = quick("envpool:CartPole-v1")
    run.train()
    assert run.config.env.name == "envpool"
