"""Rollouts against environments stepped by hand."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import CountingEnv, SeededWalk, SpacesEnv
from maze_devkit.probes import Workshop
from maze_onpolicy.collect.rollout_collector import RolloutCollector

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.plugins import discovery
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run import api

STEPS = 40


def copied(rollout):
    """A rollout's arrays as they are now."""
    trees = {"obs": rollout.obs, "actions": rollout.actions}
    arrays = {f"{name}/{key}": leaf.copy() for name, tree in trees.items() for key, leaf in tree.items()}
    arrays |= {name: getattr(rollout, name).copy() for name in ("rewards", "terminated", "truncated", "valid")}
    cuts = [(t, indices.tolist(), {k: v.copy() for k, v in obs.items()}) for t, indices, obs in rollout.truncations]
    return arrays | {"truncations": cuts}


def test_a_rollout_is_what_the_environments_gave(quick):
    """Compares every array of two consecutive rollouts with a plain loop over gymnasium's API."""

    def make():
        return gymnasium.wrappers.TimeLimit(SeededWalk(), 8)

    run = quick(make).run
    collector = RolloutCollector(run, STEPS)
    seeds = EpisodeSeeds(run.seed, Purpose.TRAIN_EPISODES)
    envs = [make() for _ in range(3)]
    episode = [0, 0, 0]
    now = [env.reset(seed=seeds(i, 0))[0] for i, env in enumerate(envs)]
    cuts, ends = 0, 0
    for _ in range(2):
        rollout = copied(collector.collect())
        final = {}
        for t, indices, obs in rollout["truncations"]:
            final |= {(t, i): row for i, row in zip(indices, obs["observation"], strict=True)}
        for t in range(STEPS):
            for i, env in enumerate(envs):
                np.testing.assert_array_equal(rollout["obs/observation"][t, i], now[i].astype(np.float32))
                now[i], reward, terminated, truncated, _ = env.step(rollout["actions/action"][t, i])
                assert rollout["rewards"][t, i] == np.float32(reward)
                assert rollout["terminated"][t, i] == terminated
                assert rollout["truncated"][t, i] == (truncated and not terminated)
                assert ((t, i) in final) == (truncated and not terminated)
                if (t, i) in final:
                    cuts += 1
                    np.testing.assert_array_equal(final[t, i], now[i].astype(np.float32))
                if terminated or truncated:
                    ends += 1
                    episode[i] += 1
                    now[i], _ = env.reset(seed=seeds(i, episode[i]))
        assert rollout["valid"].all()
    assert cuts > 0
    assert ends > cuts
    assert run.env_steps == 2 * 3 * STEPS
    assert run.statistics.epoch_metrics()["train/episodes"] == ends


def test_true_returns_and_lengths_are_reported(quick):
    run = quick(lambda: CountingEnv(4, tag=2)).run
    RolloutCollector(run, 10).collect()
    metrics = run.statistics.epoch_metrics()
    assert metrics["train/episodes"] == 3 * 2
    assert metrics["train/return_mean"] == pytest.approx(4 * 2 + 0.01 + 0.02 + 0.03 + 0.04)
    assert metrics["train/length_median"] == 4


@pytest.mark.parametrize("distribution", ["gaussian", "squashed_gaussian", "beta"])
def test_samples_are_stored_and_environment_units_are_acted_with(quick, distribution):
    """Storing never inverts a clipped or squashed action."""
    space = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 5], np.float32))
    acted = []

    class Recorder(SpacesEnv):
        def step(self, action):
            acted.append(np.array(action))
            return super().step(action)

    def env():
        return Recorder(spaces.Box(-1, 1, (3,), np.float32), space)

    run = quick(env, overrides={"model.distribution": distribution, "model.log_std_init": 1.0}).run
    rollout = RolloutCollector(run, 4).collect()
    obs = {key: torch.from_numpy(leaf[:-1].reshape(12, 3)) for key, leaf in rollout.obs.items()}
    samples = {"action": torch.from_numpy(rollout.actions["action"].reshape(12, 2))}
    with torch.inference_mode():
        expected = run.policy.distribution(obs).env_action(samples)["action"].numpy()
    np.testing.assert_allclose(np.array(acted), expected.clip(space.low, space.high), rtol=1e-5, atol=1e-6)
    if distribution == "gaussian":
        assert (samples["action"].abs() > 5).any()  # beyond what the environment was given


def test_two_runs_of_one_seed_collect_the_same_and_other_seeds_do_not(quick):
    first, second, third = (copied(quick(Workshop, model="template", seed=s).run.algorithm.kept["collector"].collect())
                            for s in (1, 1, 2))  # fmt: skip
    for key, array in first.items():
        if key != "truncations":
            np.testing.assert_array_equal(array, second[key])
    assert not np.array_equal(first["obs/gauge"], third["obs/gauge"])
    assert not np.array_equal(first["actions/arm/force"], third["actions/arm/force"])


def test_environments_differ_and_episodes_too(quick):
    """Neither sub-environments nor successive episodes begin alike."""
    rollout = RolloutCollector(quick(lambda: gymnasium.make("CartPole-v1")).run, 200).collect()
    starts = [rollout.obs["observation"][0]]
    for t, i in np.argwhere(rollout.terminated):
        starts.append(rollout.obs["observation"][t + 1, i][None])
    starts = np.concatenate(starts)
    assert len(starts) > 10
    assert len(np.unique(starts, axis=0)) == len(starts)


@pytest.mark.parametrize("env", [SeededWalk, Workshop])
def test_a_collector_goes_on_where_its_state_was_taken(quick, env):
    """Also in the middle of episodes."""
    first = RolloutCollector(quick(env, model="template").run, 7)
    first.collect()
    state = first.state()
    expected = [copied(first.collect()) for _ in range(3)]
    second = RolloutCollector(quick(env, model="template").run, 7)
    second.load_state(state)
    for rollout in expected:
        again = copied(second.collect())
        for key, array in rollout.items():
            if key == "truncations":
                assert [each[:2] for each in array] == [each[:2] for each in again[key]]
            else:
                np.testing.assert_array_equal(array, again[key], err_msg=key)


def test_the_state_before_the_first_rollout(quick):
    run = quick().run
    state = RolloutCollector(run, 5).state()
    expected = copied(RolloutCollector(run, 5).collect())["obs/observation"]
    second = RolloutCollector(quick().run, 5)
    second.load_state(state)
    np.testing.assert_array_equal(copied(second.collect())["obs/observation"], expected)


class Native(Plugin):
    """Counting environments with filler rows."""

    Config = PluginConfig

    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        makers = [lambda tag=tag: CountingEnv(2 + tag, tag) for tag in range(num_envs)]
        return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP)

    @hookimpl
    def make_env(self, config, seed, index):
        return CountingEnv()


def test_filler_reaches_neither_normaliser_nor_counters_nor_statistics(tmp_path):
    """A filler row is no transition."""
    load = discovery.overlay({("env", "native"): Native})
    flags = {"env": {"name": "native"}, "algorithm.name": "ppo", "model.normalize_observations": True, "seed": 1}
    flags |= {"algorithm.num_envs": 3, "callbacks.console": None, "evaluation.n_episodes": 3}
    run = api.start(Assembly(load).assemble(flags=flags), tmp_path / "run")
    collector = RolloutCollector(run, 9)
    rollout = collector.collect()
    collector.update_normalizer()
    # Episodes of 2, 3 and 4 steps with one filler row behind each: 9 steps hold 6, 7 and 8 true ones.
    assert rollout.valid.sum(0).tolist() == [6, 7, 8]
    assert run.env_steps == 21
    seen = rollout.obs["observation"][:-1][rollout.valid].astype(np.float64)
    mean, std = run.policy.normalizer.statistics()["observation"]
    np.testing.assert_allclose(mean, seen.mean(0))
    np.testing.assert_allclose(std, seen.std(0))
    metrics = run.statistics.epoch_metrics()
    assert metrics["train/episodes"] == 3 + 2 + 2
    assert metrics["train/steps"] == 3 * 2 + 2 * 3 + 2 * 4
    run.close()
