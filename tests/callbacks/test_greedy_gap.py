"""A policy that is far better in training, where it samples, than where it takes its likeliest actions."""

import math

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_core.cli.console import GreedyGap


class Alternate(gymnasium.Env):
    """Pays for an action unlike the last one, which is not observed: who always acts alike earns nothing."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left, self._last = 9, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        reward, self._last = float(action != self._last), action
        self._left -= 1
        return np.zeros(1, np.float32), reward, self._left == 0, False, {}


EPOCHS = {"algorithm.n_epochs": 4, "algorithm.n_rollout_steps": 60, "algorithm.lr": 1e-5}


@pytest.mark.parametrize("newest_is_best", [True, False])
def test_the_end_of_a_run_says_so_once_and_what_to_try(quick, capsys, monkeypatch, newest_is_best):
    context = quick(Alternate, overrides=EPOCHS, silent=False)
    if not newest_is_best:
        monkeypatch.setattr(context.run.algorithm, "score", lambda metrics: -float(context.run.epoch))
    context.train()
    said = capsys.readouterr().out
    assert said.count("note") == 1
    line = next(line for line in said.splitlines() if "note" in line)
    assert "the policy returned 4." in line
    assert "in evaluations, which take its most likely actions" in line
    tries = [line.split(maxsplit=1)[1] for line in said.splitlines() if line.split()[:1] == ["try"]]
    opened = [f'"{context.run_dir}"'] + ([] if newest_is_best else [f'"{context.run_dir}", checkpoint="last"'])
    assert tries == [f"RunContext.open({each}).evaluate(deterministic=False)" for each in opened]
    assert context.evaluate(deterministic=False)["eval/return_mean"] > 2  # what was promised


def test_nothing_is_said_where_evaluations_sample_too(quick, capsys):
    quick(Alternate, overrides={**EPOCHS, "evaluation.deterministic": False}, silent=False).train()
    assert "note" not in capsys.readouterr().out


EXPLORING = {"algorithm.epsilon.from": 1.0, "algorithm.epsilon.to": 1.0, "algorithm.lr": 1e-6}
REPLAYED = {"algorithm.n_epochs": 4, "algorithm.epoch_length": 40, "algorithm.initial_buffer_size": 20}


@pytest.mark.parametrize(
    ("algorithm", "sizes"),
    [
        ("pqn", {**EPOCHS, "algorithm.num_envs": 3}),
        ("dqn", {**REPLAYED, "algorithm.batch_size": 4, "model.hidden": [8]}),
    ],
)
def test_returns_of_an_exploring_policy_say_nothing_about_its_samples(quick, capsys, algorithm, sizes):
    said = []
    for explores in (True, False):
        context = quick(Alternate, algorithm, overrides={**sizes, **EXPLORING}, silent=False)
        assert context.run.explores
        context.run.explores = explores
        context.train()
        said.append("in evaluations, which take its most likely actions" in capsys.readouterr().out)
    assert said == [False, True]


def found(train, evaluation, train_std=0.0, eval_std=0.0, episodes=(30, 8)):
    gap = GreedyGap()
    for mean, other in zip(train, evaluation, strict=True):
        gap.add({
            "train/return_mean": mean, "train/return_std": train_std, "train/episodes": episodes[0],
            "eval/return_mean": other, "eval/return_std": eval_std, "eval/episodes": episodes[1],
        })  # fmt: skip
    return gap.find()


SMALL = {
    "too few epochs": ([0.6] * 2, [0.0] * 2, 0.49),
    "evaluations are better": ([20.0] * 5, [200.0] * 5, 10.0, 10.0),
    "negative returns that are the same": ([-100.0] * 5, [-100.0] * 5),
    "one evaluation was as good": ([0.6] * 5, [0.0, 0.0, 0.7, 0.0, 0.0], 0.49, 0.0),
    "within the spread": ([-150.0] * 5, [-165.0] * 5, 90.0, 80.0),
    "a little less than an almost constant return": ([500.0] * 5, [495.0] * 5, 0.1, 0.1),
    "chance: few episodes of wide spread": ([110.0] * 3, [60.0] * 3, 60.0, 90.0, (2, 2)),
    "no evaluations": ([0.6] * 5, [math.nan] * 5, 0.49, math.nan),
    "no episode ended in training": ([math.nan] * 5, [1.0] * 5, math.nan),
}
LARGE = {
    "sparse rewards": ([0.3, 0.4, 0.6], [0.0, 0.0, 0.0], 0.49, 0.0),
    "negative returns": ([-100.0] * 5, [-500.0] * 5, 30.0, 0.0),
    "below zero and above": ([5.0] * 4, [-5.0] * 4, 8.0, 8.0),
    "constant returns": ([10.0] * 4, [8.0] * 4),
    "long ago it was none": ([0.0] * 9 + [0.6] * 5, [0.0] * 14, 0.49, 0.0),
}


@pytest.mark.parametrize("name", SMALL)
def test_what_is_no_gap(name):
    assert found(*SMALL[name]) is None


@pytest.mark.parametrize("name", LARGE)
def test_what_is_a_gap(name):
    gap = found(*LARGE[name])
    assert gap is not None
    assert gap.training > gap.evaluation


def test_metrics_of_other_kinds_are_left_out():
    gap = GreedyGap()
    for _ in range(5):
        gap.add({"validation/loss": 1.0, "eval/return_mean": 1.0})
    assert gap.find() is None
