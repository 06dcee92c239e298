"""Rewards after nested wrappers with memory, in recordings and rollouts, against a calculation of their own."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from maze_recordings.loader import load_trajectories

pytest.importorskip("maze_ppo")
ENV = {"name": "gymnasium", "id": "Pendulum-v1", "max_episode_steps": 15}
NORMAL = {"name": "normalize_reward", "gamma": 0.9}
SCALE = {"name": "scale_reward", "factor": -2.0, "shift": 1.0}
CLIP = {"name": "clip_reward", "low": -3.0, "high": 1.0}
STACKS = {
    "alone": [NORMAL],
    "below others": [NORMAL, SCALE, CLIP],
    "above others": [CLIP, {"name": "stack", "size": 3}, NORMAL],
    "twice": [NORMAL, SCALE, {"name": "normalize_reward", "gamma": 0.0}],
}


class Statistics:
    """Mean and variance of a discounted sum, after the text of the algorithm (Welford)."""

    def __init__(self, gamma, memory):
        self.gamma, self.running = gamma, float(np.ravel(memory["running"])[0])
        self.mean, self.var, self.count = (float(memory[name]) for name in ("mean", "var", "count"))

    def normalised(self, reward):
        self.running = self.running * self.gamma + reward  # no episode of Pendulum terminates
        delta, total = self.running - self.mean, self.count + 1
        self.var = (self.var * self.count + delta**2 * self.count / total) / total
        self.mean, self.count = self.mean + delta / total, total
        return reward / np.sqrt(self.var + 1e-8)


def paid(wrappers, memory, rewards):
    """What wrappers, the first of them innermost, make of the rewards of an episode that begins with a memory."""
    inside_out = iter(memory[::-1])
    own = {id(each): Statistics(each["gamma"], next(inside_out)) for each in wrappers if "gamma" in each}
    result = []
    for reward in rewards:
        value = reward
        for each in wrappers:
            if "gamma" in each:
                value = own[id(each)].normalised(value)
            elif each["name"] == "scale_reward":
                value = value * each["factor"] + each["shift"]
            elif each["name"] == "clip_reward":
                value = float(np.clip(value, each["low"], each["high"]))
        result.append(value)
    return result


def assert_paid(episodes, wrappers, memory):
    env = gymnasium.make("Pendulum-v1")
    for number, episode in enumerate(episodes):
        env.reset(seed=episode.seed)
        raw = [float(env.step(action)[1]) for action in episode.actions["action"]]
        np.testing.assert_allclose(episode.rewards, raw, rtol=1e-4, atol=1e-5)
        assert episode.episode_return == pytest.approx(sum(raw), rel=1e-4)
        expected = paid(wrappers, memory[number % len(memory)], raw)
        np.testing.assert_allclose(episode.wrapped_rewards, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stack", ["above others", "twice"])
def test_rewards_are_paid_as_calculated(quick, tmp_path, stack):
    """By the run itself, in a recording, from each checkpoint, and after a resume."""
    wrappers = STACKS[stack]
    more = {"algorithm.n_epochs": 3, "algorithm.num_envs": 3}
    context = quick(ENV, wrappers=wrappers, overrides=more)
    context.train(2)
    assert_paid(context.rollout(5, seed=4), wrappers, context.run.wrapper_memory())
    context.rollout(5, seed=4, record=tmp_path / "demos", wrapped_rewards=True)
    assert_paid(load_trajectories(tmp_path / "demos"), wrappers, context.run.wrapper_memory())
    for name in ("best", "previous", "last"):
        opened = quick(ENV, wrappers=wrappers, overrides=more).load(context.run_dir, name)
        assert_paid(opened.rollout(3, seed=4), wrappers, opened.run.wrapper_memory())
    again = quick(ENV, wrappers=wrappers, overrides=more, run_dir=None)
    again.resume(context.run_dir)
    assert_paid(again.rollout(4, seed=4), wrappers, again.run.wrapper_memory())


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_rewards_are_paid_as_calculated_on_workers(quick, workers):
    wrappers = STACKS["twice"]
    context = quick(ENV, wrappers=wrappers, overrides={"runner.name": "local", "runner.workers": workers})
    context.train(1)
    assert_paid(context.rollout(5, seed=4, workers=workers), wrappers, context.run.wrapper_memory())
