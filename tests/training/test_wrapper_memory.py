"""What a run's wrappers remember goes with it wherever it plays, and recorded rewards are those of the environment."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from maze_devkit.envs import SeededWalk
from maze_recordings.loader import load_trajectories
from maze_recordings.rollouts import roll_out, task_of_run
from maze_recordings.writer import columns_of
from typer.testing import CliRunner

from maze_core.cli.main import app


class Growing(gymnasium.Wrapper):
    """Multiplies rewards by the number of steps since construction."""

    steps = 0

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        self.steps += 1
        return observation, reward * self.steps, *rest

    def state(self):
        return {"steps": self.steps}

    def load_state(self, state):
        self.steps = state["steps"]


class Centred(gymnasium.ObservationWrapper):
    """Subtracts the mean of all observations since construction."""

    def __init__(self, env):
        super().__init__(env)
        self.total, self.count = np.zeros(env.observation_space.shape), 0

    def observation(self, observation):
        self.total, self.count = self.total + observation, self.count + 1
        return observation - self.total / self.count

    def state(self):
        return {"total": self.total.copy(), "count": self.count}

    def load_state(self, state):
        self.total, self.count = np.array(state["total"]), state["count"]


class Numbered(gymnasium.Wrapper):
    """Pays the number of the episode, counted since construction, for every step."""

    episodes = 0

    def reset(self, **options):
        self.episodes += 1
        return super().reset(**options)

    def step(self, action):
        observation, _, *rest = self.env.step(action)
        return observation, float(self.episodes), *rest

    def state(self):
        return {"episodes": self.episodes}

    def load_state(self, state):
        self.episodes = state["episodes"]


WRAPPERS = {"normalised": "normalize_reward", "centred": Centred, "numbered": Numbered}
wrapped_runs = pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=list(WRAPPERS))


def assert_same_episodes(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for key, leaf in columns_of(one).items():
            np.testing.assert_allclose(leaf, columns_of(other)[key], rtol=1e-5, atol=1e-6, err_msg=key)


def raw_rewards(episode, env):
    env.reset(seed=episode.seed)
    return [env.step(int(action))[1] for action in episode.actions["action"]]


@wrapped_runs
def test_a_saved_run_plays_as_the_run_itself(wrapper, quick):
    run = quick(wrappers=[wrapper])
    run.train()
    played = run.rollout(11, seed=4)
    opened = quick(wrappers=[wrapper]).load(run.run_dir, "last")
    assert_same_episodes(played, opened.rollout(11, seed=4))
    assert str(run.run.wrapper_memory()) != str(quick(wrappers=[wrapper]).run.wrapper_memory())
    metrics = [each.evaluate() | {"time/evaluation_seconds": 0} for each in (opened, run, run)]
    assert metrics[0] == metrics[1] == metrics[2]


@wrapped_runs
def test_rewards_are_those_of_the_environment_and_the_wrapped_ones_stand_beside_them(wrapper, quick, tmp_path):
    run = quick(wrappers=[wrapper])
    run.train()
    run.rollout(3, seed=4, record=tmp_path / "raw")
    run.rollout(3, seed=4, record=tmp_path / "both", wrapped_rewards=True)
    raw, both = load_trajectories(tmp_path / "raw"), load_trajectories(tmp_path / "both")
    assert raw.wrapped_rewards is None
    assert not (tmp_path / "raw" / "wrapped_rewards.npy").exists()
    assert both.description.rewards == "of the environment, and those after the wrappers"
    np.testing.assert_array_equal(raw.rewards, both.rewards)
    for episode in both:
        np.testing.assert_allclose(episode.rewards, raw_rewards(episode, SeededWalk()), rtol=1e-6)
        assert episode.episode_return == pytest.approx(float(episode.rewards.sum()), rel=1e-5)
    assert np.array_equal(both.rewards, both.wrapped_rewards) == (wrapper is Centred)


def test_wrapped_rewards_go_on_from_what_the_run_remembers(quick):
    run = quick(wrappers=[Growing])
    run.train()
    before = run.run.wrapper_memory()
    for number, episode in enumerate(run.rollout(5, seed=4)):
        steps = before[number % len(before)][0]["steps"] + 1 + np.arange(len(episode))
        np.testing.assert_allclose(episode.wrapped_rewards, episode.rewards * steps, rtol=1e-5)


@wrapped_runs
def test_an_episode_does_not_depend_on_those_played_before_it(wrapper, quick):
    run = quick(wrappers=[wrapper])
    run.train()
    task = task_of_run(run.run, 4)
    kept = {}
    for envs in (1, 3, 8):
        kept[envs] = []
        roll_out(replace(task, num_envs=envs), 9, watch=kept[envs].append)
    assert_same_episodes(kept[1], kept[3])
    assert_same_episodes(kept[1], kept[8])


def test_evaluations_begin_with_what_the_training_environments_remember(quick):
    run = quick(wrappers=[Growing])
    run.train()
    memory = run.run.wrapper_memory()
    np.testing.assert_equal(memory, run.run.environments.training_memory())
    assert len(memory) == 3
    assert all(each[0]["steps"] > 8 for each in memory)
    opened = quick(wrappers=[Growing]).load(run.run_dir, "last")
    for episode in opened.rollout(3, seed=4):
        np.testing.assert_array_less(8 * abs(episode.rewards), abs(episode.wrapped_rewards) + 1e-9)


def test_an_environment_to_act_in_remembers_too(quick):
    run = quick(wrappers=[Centred])
    run.train()
    env = run.make_env()
    assert env.count == run.run.wrapper_memory()[0][0]["count"] > 10


def test_other_wrappers_than_those_of_the_run_begin_anew_and_say_so(quick, capsys):
    run = quick("CartPole-v1", wrappers=["normalize_reward"])
    run.train()
    with quick().open(run.run_dir, "last", {"wrappers": ["scale_reward"]}) as opened:
        assert "the wrappers are not those of the saved run" in capsys.readouterr().err
        assert len(opened.rollout(1, seed=4)) == 1


def test_wrapped_rewards_without_a_recording_are_refused():
    result = CliRunner().invoke(app, ["rollout", "--policy", "random", "--env", "CartPole-v1", "--wrapped-rewards"])
    assert result.exit_code == 2
    assert "--wrapped-rewards: is only for --record" in result.output
