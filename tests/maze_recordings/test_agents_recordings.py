"""Recordings of several agents: each trajectory has one agent's own steps, and algorithms learn from them."""

from __future__ import annotations

from collections import defaultdict

import gymnasium
import numpy as np
import pytest
from maze_recordings.demonstrations import in_units_of
from maze_recordings.loader import load_trajectories
from maze_recordings.recording_files import TrajectoryError
from maze_recordings.rollouts import PluginPolicy, RolloutTask, roll_out, statistics_of
from maze_recordings.writer import columns_of

from maze_core.envs.builder import EnvBuilder
from maze_core.plugins.config.base import PluginConfig
from maze_core.run.context import RunContext
from tests.agents import BoxesSource, Crowd, CrowdSource, MixedSource


def task(source=CrowdSource, seed=3, **options):
    builder = EnvBuilder(PluginConfig(name="crowd").bound_to(source), seed=seed, purpose="rollout")
    return RolloutTask(builder, PluginPolicy(PluginConfig(name="random")), seed, **options)


def replayed(env, seed, taken):
    """What each agent saw, was paid, and how its part ended, in an episode with these actions."""
    parts = defaultdict(list)
    outcome = env.reset(seed)
    actions = {name: iter(each) for name, each in taken.items()}
    while outcome.acting:
        for name, seen in outcome.acting.items():
            if not parts[name] or "end" in parts[name][-1]:
                parts[name].append({"seen": [], "paid": []})
            parts[name][-1]["seen"].append(seen)
            parts[name][-1]["paid"].append(0.0)
        outcome = env.step({name: next(actions[name]) for name in outcome.acting})
        for name, reward in outcome.rewards.items():
            if parts[name] and "end" not in parts[name][-1]:
                parts[name][-1]["paid"][-1] += reward
        for how in ("terminated", "truncated"):
            for name, seen in getattr(outcome, how).items():
                if parts[name] and "end" not in parts[name][-1]:
                    parts[name][-1] |= {"end": how, "last": seen}
    return parts


def test_a_trajectory_is_what_an_agent_saw_did_and_was_paid():
    played = []
    episodes = roll_out(task(num_envs=4), 11, watch=played.append)
    assert len(episodes) == 11
    assert {name.split("/")[1] for episode in episodes for name in episode.metrics} == set(Crowd.agents)
    by_seed = defaultdict(list)
    for each in played:
        by_seed[each.seed].append(each)
    assert len(by_seed) == 11
    for seed, parts in by_seed.items():
        # The first entry of an observation is the agent's number.
        names = [Crowd.agents[int(part.obs["x"][0, 0])] for part in parts]
        assert names == sorted(names, key=Crowd.agents.index)
        taken = {name: part.actions["action"].tolist() for name, part in zip(names, parts, strict=True)}
        for name, part in zip(names, parts, strict=True):
            (expected,) = replayed(Crowd(), seed, taken)[name]
            np.testing.assert_array_equal(part.obs["x"][:-1], [seen["x"] for seen in expected["seen"]])
            np.testing.assert_array_equal(part.obs["x"][-1], expected["last"]["x"])
            np.testing.assert_allclose(part.rewards, expected["paid"], rtol=1e-6)
            assert (part.terminated, part.truncated) == (
                expected["end"] == "terminated",
                expected["end"] == "truncated",
            )
            assert part.episode_return == pytest.approx(sum(expected["paid"]))


def test_episodes_do_not_depend_on_how_many_are_played():
    few, many = (roll_out(task(), count) for count in (3, 13))
    assert few == many[:3]


def test_a_recording_keeps_the_spaces_of_rows(tmp_path):
    for source in (CrowdSource, MixedSource):
        folder = tmp_path / source.__name__
        episodes = roll_out(task(source), 5, record=folder)
        data = load_trajectories(folder)
        assert data.steps > 20
        assert len(data) >= 2 * len(episodes)
        assert all(data.observation_space.contains(data.observation_space.sample()) for _ in range(3))
        assert "actor/one/return_mean" in statistics_of(episodes)


@pytest.mark.parametrize(("source", "workers"), [(CrowdSource, 1), (MixedSource, 2)])
def test_a_trained_policy_is_recorded_in_workers_as_here(quick, tmp_path, source, workers):
    context = quick(source)
    context.train()
    whole = context.rollout(6, seed=2, record=tmp_path / "one", deterministic=False)
    again = context.rollout(6, seed=2, record=tmp_path / "two", deterministic=False, workers=workers)
    assert len(whole) == len(again) > 6
    for one, two in zip(whole, again, strict=True):
        for key, leaf in columns_of(one).items():
            np.testing.assert_array_equal(leaf, columns_of(two)[key])
    for name in ("rewards.npy", "episodes.jsonl"):
        paths = [next((tmp_path / folder).rglob(name)) for folder in ("one", "two")]
        assert paths[0].read_bytes() == paths[1].read_bytes()


class Halved(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2


@pytest.mark.parametrize("both", [False, True])
def test_rewards_are_the_environments_own_and_learnt_from_as_wrapped(quick, tmp_path, both):
    plain = quick(CrowdSource).rollout(6, seed=2)
    context = quick(CrowdSource, wrappers=[Halved])
    played = context.rollout(6, seed=2, record=tmp_path / "demos", wrapped_rewards=both)
    for one, two in zip(plain, played, strict=True):
        np.testing.assert_array_equal(one.rewards, two.rewards)
        assert one.episode_return == pytest.approx(two.episode_return)
        np.testing.assert_allclose(two.wrapped_rewards, two.rewards / 2)
    data = load_trajectories(tmp_path / "demos")
    assert (data.wrapped_rewards is not None) == both
    np.testing.assert_array_equal(data.rewards, np.concatenate([each.rewards for each in plain]))
    np.testing.assert_allclose(in_units_of(context.run, data, "here").rewards, data.rewards / 2)


SMALL = {"algorithm.batch_size": 16, "algorithm.epoch_length": 3, "evaluation.n_episodes": 2, "model.critic": "none"}


def learner(folder, source, algorithm, values):
    overrides = SMALL | values
    return RunContext(
        source, algorithm, overrides=overrides, preset="none", epochs=1, seed=1, silent=True, run_dir=folder / "run"
    )


@pytest.mark.parametrize(
    ("source", "algorithm", "values"),
    [
        (MixedSource, "bc", {}),
        (CrowdSource, "bc", {"model.memory": "gru"}),
        (CrowdSource, "iql", {}),
        (BoxesSource, "cql", {}),
        (MixedSource, "sacfd", {"algorithm.replay_buffer_size": 2000}),
    ],
)
def test_algorithms_learn_from_a_recording_of_agents(tmp_path, source, algorithm, values):
    roll_out(task(source), 20, record=tmp_path / "demos")
    key = "initial_demonstrations" if algorithm == "sacfd" else "dataset"
    with learner(tmp_path, source, algorithm, values | {f"algorithm.{key}": str(tmp_path / "demos")}) as context:
        before = {name: value.clone() for name, value in context.policy.state_dict().items()}
        assert context.train().outcome == "finished"
        assert any(not value.equal(before[name]) for name, value in context.policy.state_dict().items())


def test_a_recording_of_other_agents_is_refused(tmp_path):
    roll_out(task(MixedSource), 5, record=tmp_path / "demos")
    with (
        learner(tmp_path, CrowdSource, "bc", {"algorithm.dataset": str(tmp_path / "demos")}) as context,
        pytest.raises(TrajectoryError, match="was recorded with the observation space"),
    ):
        context.train()
