"""Environments without a time limit: CliffWalking, where a policy that only bumps into the wall never arrives."""

import json
import os
import signal
import threading
import time
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_foreign_envs.native import NativeVectorEnv
from maze_recordings.rollouts import roll_out, task_of_plugin
from typer.testing import CliRunner

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.cli.main import app
from maze_core.envs.time_limits import missing_time_limit
from maze_core.envs.vector import Episode
from maze_core.plugins.config.assembly import part_config
from maze_core.run.episodes.evaluation import evaluate_policy
from maze_core.run.episodes.run_evaluation import EndlessEpisodes
from tests.interrupted import interrupted

ENDLESS = "CliffWalking-v1"
CUT = {"evaluation.max_episode_steps": 30}


class Endless(SeededWalk):
    """Pays 2 for each step, for ever."""

    end = -1

    def step(self, action):
        observation, *_, info = super().step(action)
        return observation, 2.0, self._steps == self.end, False, info


class Ending(Endless):
    """The same, and over after five steps."""

    end = 5


def maze(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})


def test_training_evaluates_and_says_what_was_cut(known_plugins, tmp_path):
    result = maze("train", "ppo", "--env", ENDLESS, "--epochs", "2", "--epoch-length", "1", "--n-rollout-steps", "4",
                  "--set", "evaluation.max_episode_steps=30", "--seed", "1", "--run-dir", tmp_path / "run")  # fmt: skip
    assert result.exit_code == 0, result.output
    header = result.stdout.partition("epoch ")[0]
    assert f"note    {ENDLESS} has no registered time limit" in header
    assert "--set env.max_episode_steps=" in header
    assert result.stderr.count("note: 8 of 8 episodes cut at step 30 (evaluation.max_episode_steps)") == 1
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(line["eval/episodes_cut"] == 8 for line in lines if "eval/steps" in line)
    assert all(line["eval/steps"] == 240 for line in lines if "eval/steps" in line)
    evaluated = maze("eval", tmp_path / "run", "--episodes", "3", "--json")
    assert json.loads(evaluated.stdout)["eval/episodes_cut"] == 3
    assert "3 of 3 episodes" in evaluated.stderr
    played = maze("rollout", tmp_path / "run", "--episodes", "3", "--deterministic", "--json")
    assert json.loads(played.stdout)["episodes_cut"] == 3
    assert "3 of 3 episodes" in played.stderr


def test_a_policy_plugin_is_cut_too(known_plugins):
    env = part_config("env", {"name": "gymnasium", "id": ENDLESS})
    task = task_of_plugin(part_config("policy", {"name": "random"}), env, (), 1)
    assert task.builder.max_episode_steps == 108_000, "that of Atari without frame skip: no known benchmark is longer"
    task.builder = replace(task.builder, max_episode_steps=20)
    assert [each.length for each in roll_out(task, 3)] == [20, 20, 20]


@pytest.mark.parametrize("runner", ["dev", "local"])
def test_episodes_are_cut_and_count_as_far_as_they_came(quick, capsys, runner):
    """With their raw returns, whatever wrappers make of the rewards."""
    parts = {"runner": {"name": runner}, "wrappers": ["clip_reward"]}
    context = quick(Endless, overrides={**CUT, "evaluation.n_episodes": 5, "algorithm.num_envs": 2}, **parts)
    found = context.evaluate()
    assert (found["eval/return_min"], found["eval/return_max"]) == (60.0, 60.0)
    assert (found["eval/episodes_cut"], found["eval/episodes"]) == (5, 5)
    assert capsys.readouterr().err.count("5 of 5 episodes") == 1
    if runner == "dev":
        played = context.rollout(3, seed=1)
        assert [(len(each), each.truncated) for each in played] == [(30, True)] * 3
        found = quick(Ending, overrides=CUT).evaluate()
        assert found["eval/return_mean"] == 10.0
        assert "eval/episodes_cut" not in found


def test_a_resumed_run_goes_on_exactly(quick, whole_state, assert_same):
    overrides = {**CUT, "algorithm.n_epochs": 4}
    half, whole = (quick(ENDLESS, overrides=overrides) for _ in range(2))
    half.train(2)
    half.close()
    again = quick(ENDLESS, overrides=overrides)
    again.resume(half.run_dir)
    whole.train()
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_an_interrupt_ends_an_endless_evaluation(quick):
    context = quick(Endless, overrides={"evaluation.max_episode_steps": None})
    context.run.training_env(3)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    summary = interrupted(context.train)
    timer.join()
    assert summary.outcome == "interrupted"
    assert "Ctrl-C" in summary.reason


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_native_environment_that_never_ends_is_given_up(quick, mode):
    """Its episodes cannot be cut one by one: the one under way counts as far as it came, later ones are left out."""
    policy = quick(SeededWalk).policy
    makers = [Ending, Endless]
    env = NativeVectorEnv(SyncVectorEnv(makers, autoreset_mode=mode))
    seeds = EpisodeSeeds(1, Purpose.EVAL_EPISODES, (0,), stride=2)
    seen = []
    episodes = evaluate_policy(
        policy, env, seeds, 6, deterministic=True, noise=torch.Generator(), max_episode_steps=1500, watch=seen.append
    )
    env.close()
    ended = [episode for episode in episodes if episode.env_index == 0]
    (cut,) = [episode for episode in episodes if episode.env_index == 1]
    assert [(each.length, each.episode_return) for each in ended] == [(5, 10.0)] * 3
    assert (cut.episode_number, cut.length, cut.episode_return) == (0, 2000, 4000.0)
    assert seen == [1000, 2000]


class Limited(CountingEnv):
    def __init__(self, **limit):
        super().__init__()
        vars(self).update(limit)


@pytest.fixture
def registered():
    """`registered(name, entry_point, …)` registers an environment for one test."""
    names = []

    def register(name, entry_point, **more):
        gymnasium.register(name, entry_point, **more)
        names.append(name)
        return name

    yield register
    for name in names:
        gymnasium.registry.pop(name)


def note(quick, env, **parts):
    return quick(env, **parts).run.notes


def test_who_is_told_of_a_missing_limit(quick, registered):
    """Only who can be sure not to be told in vain: many environments keep a limit that the registry does not know."""
    plain = registered("Plain-v0", CountingEnv)
    assert f"{plain} has no registered time limit" in note(quick, plain)[0]
    assert note(quick, {"id": plain, "max_episode_steps": 10}) == []
    assert note(quick, plain, wrappers=["time_limit"]) == []
    assert note(quick, registered("Timed-v0", CountingEnv, max_episode_steps=9)) == []
    for number, limit in enumerate(
        ({"max_steps": 100}, {"_max_episode_steps": np.int64(100)}, {"config": {"duration": 40}}, {"_step_limit": 9.0})
    ):
        assert note(quick, registered(f"Own-v{number}", Limited, kwargs=limit)) == [], limit
    frames = {"max_num_frames_per_episode": 108_000}
    assert note(quick, registered("Frames-v0", lambda max_num_frames_per_episode: CountingEnv(), kwargs=frames)) == []
    assert note(quick, CountingEnv) == [], "nothing is known of a function's"
    for number, none in enumerate(({"max_steps": None}, {"max_steps": 0}, {"max_speed": 3.0}, {"max_steps": True})):
        assert note(quick, registered(f"Not-v{number}", Limited, kwargs=none)) != [], none


def test_the_check_of_an_environment_says_it_too(known_plugins):
    assert "no registered time limit" in maze("envs", "check", ENDLESS).stdout
    limited = maze("envs", "check", ENDLESS, "--set", "env.max_episode_steps=5")
    assert "time limit" not in limited.stdout


def test_an_environment_is_built_for_this_only_where_no_limit_is_registered():
    class Config:
        id = "CartPole-v1"

    assert missing_time_limit(Config(), lambda: pytest.fail("built")) is None


def test_a_long_evaluation_says_once_why(monkeypatch):
    now, said = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    endless = EndlessEpisodes(108_000, said.append)
    endless.begin()
    endless.watch(50_000)
    now[0] = 60.0
    endless.watch(900)
    assert said == [], "neither many steps nor much time alone"
    for steps in (20_000, 30_000):
        endless.watch(steps)
    assert len(said) == 1
    assert said[0].startswith(
        "note: an evaluation episode is at step 20,000 and has not ended; it will be cut at step 108,000"
    )
    assert endless.cut([Episode(0, 0, 1.0, 107_999)]) == {}
    assert len(said) == 1
