"""Rollouts: what is recorded is what happened, whoever plays and however many workers there are."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_recordings.loader import load_trajectories
from maze_recordings.recording_files import TrajectoryError
from maze_recordings.rollouts import PluginPolicy, RolloutTask, roll_out, statistics_of
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError, RunError
from maze_core.cli.main import app
from maze_core.collect.policies.base import ActingPolicy
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.codecs import ActionCodec
from maze_core.envs.sources.factory import FactorySource
from maze_core.plugins import discovery
from maze_core.plugins.config.base import PluginConfig
from tests.market import Market

MAZE = str(Path(sys.executable).with_name("maze"))


def task(make, policy="random", seed=3, **options):
    """A task in an environment of a factory."""
    env = PluginConfig(name="factory").bound_to(FactorySource.of(make))
    builder = EnvBuilder(env, seed=seed, purpose="rollout")
    plugin = discovery.load("policy", "random") if policy == "random" else policy
    return RolloutTask(builder, PluginPolicy(PluginConfig(name="played").bound_to(plugin)), seed, **options)


def cart_pole():
    return gymnasium.make("CartPole-v1")


def test_a_recorded_episode_is_what_gymnasium_plays(tmp_path):
    roll_out(task(cart_pole), 11, record=tmp_path / "demos")
    data = load_trajectories(tmp_path / "demos")
    assert len(data) == 11
    env = cart_pole()
    for each in data:
        observation, _ = env.reset(seed=each.seed)
        expected, rewards = [observation], []
        for action in each.actions["action"]:
            observation, reward, terminated, truncated, _ = env.step(int(action))
            expected.append(observation)
            rewards.append(reward)
        assert terminated
        assert each.terminated
        assert not truncated
        np.testing.assert_array_equal(each.obs["observation"], np.array(expected, np.float32))
        np.testing.assert_array_equal(each.rewards, np.array(rewards, np.float32))
        assert each.episode_return == sum(rewards)
    assert len({each.seed for each in data}) == 11


def test_a_truncated_episode_says_so_and_keeps_its_last_observation(tmp_path):
    observation = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3, start=2)})
    roll_out(task(lambda: SpacesEnv(observation, spaces.Discrete(2, start=5))), 2, record=tmp_path / "demos")
    for each in load_trajectories(tmp_path / "demos"):
        assert (each.terminated, each.truncated, len(each)) == (False, True, 5)
        assert each.obs["a"].shape == (6, 2)
        assert np.isin(each.obs["b"], [0, 1, 2]).all()


def test_results_follow_the_seed_and_the_number_of_the_episode():
    first = roll_out(task(SeededWalk), 20)
    again = roll_out(task(SeededWalk), 20)
    more = roll_out(task(SeededWalk), 37)
    other = roll_out(task(SeededWalk, seed=4), 20)
    alone = roll_out(task(SeededWalk, num_envs=1), 20)
    assert first == again == more[:20] == alone
    assert [e.episode_return for e in first] != [e.episode_return for e in other]
    assert [e.episode_number for e in more] == list(range(37))
    assert len({e.episode_return for e in more}) == 37


def test_statistics_count_what_was_played():
    played = roll_out(task(SeededWalk), 9)
    statistics = statistics_of(played)
    assert statistics["episodes"] == 9
    assert statistics["steps"] == sum(e.length for e in played)
    assert statistics["return_mean"] == pytest.approx(np.mean([e.episode_return for e in played]))


class Overdone(ActingPolicy):
    """Goes beyond the bounds."""

    def act(self, obs, rngs):
        rows = len(rngs)
        filled = {"push": (2, 7.4), "count": (1, 1.6), "half": (1, 0.7)}
        return {key: np.full((rows, size), value, np.float32) for key, (size, value) in filled.items()}


def test_actions_are_recorded_as_the_environment_got_them(tmp_path):
    parts = {"push": spaces.Box(-1, np.array([0.3, 2]), dtype=np.float64), "count": spaces.Box(0, 9, (1,), int)}
    space = spaces.Dict({**parts, "half": spaces.Box(-1, 1, (1,), np.float16)})
    env = SpacesEnv(spaces.Box(-1, 1, (2,)), space)
    roll_out(task(lambda: env, Overdone, num_envs=1), 1, record=tmp_path / "demos")
    (episode,) = load_trajectories(tmp_path / "demos")
    received = ActionCodec(space).rows(episode.actions)[-1]
    for key in received:
        np.testing.assert_array_equal(received[key], env.last_action[key])
    np.testing.assert_array_equal(episode.actions["push"][0], np.float32([0.3, 2]))
    np.testing.assert_array_equal(episode.actions["count"][0], [2])
    np.testing.assert_array_equal(episode.actions["half"][0], np.float32([np.float16(0.7)]))


def test_a_policy_hears_of_every_episode():
    calls = []

    class Listener(ActingPolicy):
        def begin(self, row):
            calls.append(row)

        def act(self, obs, rngs):
            calls.append("act")
            return {"action": np.zeros(len(rngs), np.int64)}

    roll_out(task(SeededWalk, Listener, num_envs=1), 3)
    assert [call for call in calls if call != "act"].count(0) >= 3
    assert calls[0] == 0


class Fussy(ActingPolicy):
    """Plays nothing."""

    def setup(self, observation_space, action_space):
        raise ConfigError("not my space", "--policy")

    def act(self, obs, rngs):
        raise AssertionError


def test_what_fails_before_the_first_episode_leaves_nothing_behind(tmp_path):
    with pytest.raises(ConfigError, match="not my space"):
        roll_out(task(SeededWalk, Fussy), 3, record=tmp_path / "demos")
    assert not (tmp_path / "demos").exists()


def test_a_folder_in_use_is_refused_before_anything_is_played(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TrajectoryError, match="not empty"):
        roll_out(task(SeededWalk, Fussy), 3, record=tmp_path)


class Slow(SeededWalk):
    """A walk of one length that takes its time."""

    def step(self, action):
        time.sleep(0.005)
        observation, reward, *_ = super().step(action)
        return observation, reward, self._steps >= 4, False, {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_played(tmp_path, number):
    before, causes = signal.getsignal(number), []

    def watch(trajectory):
        threading.Timer(0.3, os.kill, (os.getpid(), number)).start() if not causes else None
        causes.append(None)

    stop = []
    played = roll_out(task(Slow), 100_000, record=tmp_path / "demos", watch=watch, stop=stop)
    assert 8 <= len(played) < 1000
    assert len(load_trajectories(tmp_path / "demos")) == len(played)
    assert stop == ["Ctrl-C" if number == signal.SIGINT else "SIGTERM"]
    assert signal.getsignal(number) is before


class Stuck(Slow):
    """Its 200th step, in all environments of the process together, takes for ever."""

    steps = 0

    def step(self, action):
        Stuck.steps += 1
        if Stuck.steps == 200:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(600)
        return super().step(action)


def test_sigterm_does_not_wait_for_a_step(tmp_path, monkeypatch):
    monkeypatch.setattr("maze_recordings.rollouts._TO_STOP", 0.2)
    monkeypatch.setattr(Stuck, "steps", 0)
    played = roll_out(task(Stuck), 100_000, record=tmp_path / "demos")
    assert len(load_trajectories(tmp_path / "demos")) == len(played) >= 8


def test_sigterm_before_the_first_episode_has_its_exit_code(tmp_path, monkeypatch):
    monkeypatch.setattr("maze_recordings.rollouts._TO_STOP", 0.2)
    monkeypatch.setattr(Stuck, "steps", 195)
    with pytest.raises(RunError, match="interrupted by SIGTERM before the first episode ended") as caught:
        roll_out(task(Stuck), 8, record=tmp_path / "demos")
    assert caught.value.exit_code == 143
    assert not (tmp_path / "demos").exists()


def test_kill_9_keeps_what_was_recorded(tmp_path):
    folder = tmp_path / "demos"
    command = [MAZE, "rollout", "--policy", "random", "--env", "CartPole-v1", "-n", "1000000", "--record", str(folder)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        index = folder / "episodes.jsonl"
        deadline = time.monotonic() + 60
        while not (index.exists() and index.read_bytes().count(b"\n") > 50):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait()
    assert len(load_trajectories(folder)) > 50


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A run that has hardly learnt anything: its policy is near to random, and depends on every digit."""
    folder = tmp_path_factory.mktemp("runs") / "cart"
    arguments = ["train", "ppo", "--env", "CartPole-v1", "--epochs", "1", "--seed", "1", "--quiet"]
    changes = ["--set", "algorithm.epoch_length=1", "--set", "evaluation.n_episodes=1", "--set", "algorithm.lr=0.05"]
    result = CliRunner().invoke(app, [*arguments, *changes, "--run-dir", str(folder)])
    assert result.exit_code == 0, result.output
    return folder


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, ["rollout", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize("how", ["--stochastic", "--deterministic"])
def test_results_do_not_depend_on_the_number_of_workers(run_dir, tmp_path, how):
    options = [run_dir, "--episodes", 21, "--seed", 5, how]
    for workers in (1, 2):
        maze(*options, "--workers", workers, "--record", tmp_path / str(workers))
    one, two = (load_trajectories(tmp_path / str(workers)) for workers in (1, 2))
    assert one.episodes == two.episodes
    np.testing.assert_array_equal(one.obs["observation"], two.obs["observation"])
    np.testing.assert_array_equal(one.actions["action"], two.actions["action"])


def test_a_run_is_rolled_out_as_json(run_dir, tmp_path):
    report = json.loads(maze(run_dir, "-n", 3, "--seed", 5, "--record", tmp_path / "demos", "--json").stdout)
    data = load_trajectories(tmp_path / "demos")
    assert report["episodes"] == len(data) == 3
    assert report["return_mean"] == pytest.approx(np.mean([each.episode_return for each in data]))
    source = data.description.source
    assert source["policy"]["algorithm"] == "ppo"
    assert source["env"]["id"] == "CartPole-v1"
    assert source["seed"] == 5


def test_a_deterministic_rollout_takes_the_most_likely_actions(run_dir, tmp_path):
    from maze_core.run.saved.saved_run import open_policy

    maze(run_dir, "-n", 2, "--seed", 5, "--deterministic", "--record", tmp_path / "demos")
    run = open_policy(run_dir)
    data = load_trajectories(tmp_path / "demos")
    obs = torch.from_numpy(data.obs["observation"][data.observation_rows(np.arange(data.steps))])
    with torch.inference_mode():
        expected = run.policy.distribution({"observation": obs}).mode()["action"]
    run.close()
    np.testing.assert_array_equal(data.actions["action"], expected.numpy())


def test_a_context_rolls_out_and_records(quick, tmp_path):
    context = quick()
    episodes = context.rollout(5, deterministic=False, seed=7, record=tmp_path / "demos")
    again = context.rollout(5, deterministic=False, seed=7)
    other = context.rollout(5, deterministic=False, seed=8)
    data = load_trajectories(tmp_path / "demos")
    assert data.description.source["policy"]["deterministic"] is False
    for played, same, recorded in zip(episodes, again, data, strict=True):
        np.testing.assert_array_equal(played.obs["observation"], same.obs["observation"])
        np.testing.assert_array_equal(played.obs["observation"], recorded.obs["observation"])
        assert played.rewards.sum() == pytest.approx(played.episode_return, rel=1e-5)
    assert [e.episode_return for e in episodes] != [e.episode_return for e in other]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--policy", "random"),
        ("--env", "CartPole-v1"),
        ("runs/none", "--policy", "random", "--env", "CartPole-v1"),
        ("runs/none",),
        ("--policy", "nobody", "--env", "CartPole-v1"),
        ("--policy", "random", "--env", "Nowhere-v0"),
        ("--policy", "random", "--env", "CartPole-v1", "--stochastic"),
        ("--policy", "random", "--env", "CartPole-v1", "--set", "model.name=mlp"),
    ],
)
def test_wrong_input_is_one_clear_error(arguments):
    result = maze(*arguments, code=2)
    assert result.stderr.startswith("error:")
    assert "Traceback" not in result.stderr


def test_trajectories_info_prints_facts(tmp_path):
    roll_out(task(cart_pole), 3, record=tmp_path / "demos")
    result = CliRunner().invoke(app, ["trajectories", "info", str(tmp_path / "demos"), "--json"])
    facts = json.loads(result.stdout)
    assert facts["episodes"] == 3
    assert facts["terminated"] == 3
    assert facts["action_space"] == {"type": "Discrete", "n": 2, "start": 0}
    text = CliRunner().invoke(app, ["trajectories", "info", str(tmp_path / "demos")])
    assert "Discrete(2)" in text.stdout
    assert "source.policy  " in text.stdout  # what a recording says of itself is not taken for what was found in it
    missing = CliRunner().invoke(app, ["trajectories", "info", str(tmp_path / "nothing")])
    assert missing.exit_code == 2
    assert "nothing" in missing.stderr


def test_every_episode_is_filmed(tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    pytest.importorskip("pygame")
    job = replace(task(lambda: gymnasium.make("CartPole-v1")), video=tmp_path / "films")
    with pytest.raises(ConfigError, match="render"):
        roll_out(job, 1)
    maze("--policy", "random", "--env", "CartPole-v1", "-n", 2, "--seed", 1, "--video", tmp_path / "films",
         "--record", tmp_path / "demos")  # fmt: skip
    for number, each in enumerate(load_trajectories(tmp_path / "demos")):
        with imageio.get_reader(tmp_path / "films" / f"episode-{number}.mp4") as film:
            assert film.count_frames() == len(each) + 1


@pytest.mark.parametrize("workers", [1, 2])
def test_events_and_kpis_are_those_of_the_episodes(workers):
    found = statistics_of(roll_out(task(Market), 10, workers=workers))
    assert found["event/price/sum_mean"] == pytest.approx(found["return_mean"])
    assert found["event/price/sum_mean"] == pytest.approx(
        sum(found[f"actor/{name}/event/price/sum_mean"] for name in ("north", "south"))
    )
    assert 0 < found["kpi/mean_price"] < 1
