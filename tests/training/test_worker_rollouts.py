"""Rollouts that workers collect: bit-equal to those of one process, also where workers are lost or a run moves."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_devkit.probes import Doors, Workshop
from maze_local import pooled_envs
from maze_local.runner import LocalRunner
from maze_offpolicy import EpsilonGreedy

from maze_core.collect.agents import network
from tests.aged import Aged

SMALL = {"algorithm.num_envs": 5, "algorithm.n_rollout_steps": 12, "evaluation.num_envs": 2}


def on_workers(context):
    return context.run.algorithm.kept["collector"].on_workers


class Pushed(SeededWalk):
    """With an action of several numbers, in units of its own."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(np.array([-3.0, 0.0]), np.array([5.0, 2.0]), dtype=np.float64)

    def step(self, action):
        return super().step(float(np.sum(action)))


def aged():
    return Aged(SeededWalk())


CASES = {
    "ppo": ("ppo", SeededWalk, {}),
    "normaliser and bounded actions": ("a2c", Pushed, {"model.normalize_observations": True}),
    "lstm and another of the critic": ("a2c", SeededWalk, {"model.memory": "lstm", "model.critic": "separate"}),
    "nested spaces and masks": ("ppo", Workshop, {"model.name": "template"}),
    "exploration that follows the count": ("pqn", aged, {}),
    "wrappers that remember": ("a2c", aged, {}),
}


def following(run, config, num_envs):
    """Random actions, less often with each step that the run has counted: it counts those of a rollout at its end."""

    def later(steps):
        return max(0.0, 1.0 - (run.env_steps + steps) / 70)

    rngs = [np.random.default_rng(row) for row in range(num_envs)]
    return EpsilonGreedy(run.observation_space, run.action_space, rngs, lambda: later(0), later)


EARLY = ("ppo",)
"""With these, the first pass also tries workers that answer early."""


@pytest.mark.parametrize(
    ("case", "workers"),
    [*((case, 2) for case in CASES), *((case, 5) for case in EARLY)],
)
def test_a_run_is_bit_equal(quick, shared, whole_state, assert_same, monkeypatch, case, workers):
    """Also with workers that are lost, and with ones that answer before their rollout is complete."""
    algorithm, env, model = CASES[case]
    if case == "exploration that follows the count":
        monkeypatch.setattr("maze_dqn.pqn.epsilon_greedy", following)
    folders = []
    for count in (0, workers):
        shared(count, every=5 if workers == 2 else 0)
        monkeypatch.setattr(pooled_envs, "_LONG_SLICE", 0.0 if workers == 5 else 10.0)
        context = quick(env, algorithm, SMALL | model)
        assert on_workers(context) == bool(count)
        context.train()
        folders.append(context.run_dir)
    assert_same(*(whole_state(folder) for folder in folders))


@pytest.mark.parametrize(("env", "workers"), [(SeededWalk, (0, 2)), (aged, (3, 0))])
def test_a_run_moves_to_other_workers(quick, shared, whole_state, assert_same, env, workers):
    overrides = SMALL | {"algorithm.n_epochs": 3, "model.memory": "gru"}
    shared(0)
    whole = quick(env, "a2c", overrides)
    whole.train()
    shared(workers[0])
    half = quick(env, "a2c", overrides)
    half.train(2)
    half.close()
    shared(workers[1])
    later = quick(env, "a2c", overrides, run_dir=None)
    assert later.resume(half.run_dir).outcome == "finished"
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_truncations_and_episodes_keep_their_order(quick, shared):
    """Environments of two workers end at the same steps."""
    rollouts = []
    for count in (0, 2):
        shared(count)
        run = quick(lambda: CountingEnv(3, 0, truncate=True), "a2c", SMALL | {"algorithm.num_envs": 4}).run
        for _ in run.algorithm.batches():
            pass
        rollouts.append(run.algorithm.kept["collector"].rollout)
    one, two = rollouts
    assert one.episodes == two.episodes
    assert len(one.episodes) == 16
    assert [(t, envs.tolist()) for t, envs, _ in one.truncations] == [(t, e.tolist()) for t, e, _ in two.truncations]
    for (_, _, first), (_, _, second) in zip(one.truncations, two.truncations, strict=True):
        np.testing.assert_array_equal(first["observation"], second["observation"])


def test_worker_processes_some_of_which_are_killed(quick, whole_state, assert_same, monkeypatch):
    """One that collects rollouts, and one that plays evaluations."""
    folders, pools, start = [], [], LocalRunner.collectors
    monkeypatch.setattr(LocalRunner, "collectors", lambda *given: pools.append(start(*given)) or pools[-1])
    options = SMALL | {"algorithm.n_epochs": 4, "evaluation.num_envs": 3, "evaluation.n_episodes": 4}
    for runner in ("dev", {"name": "local", "workers": 2}):
        context = quick(SeededWalk, "a2c", options, runner=runner)
        context.train(2)
        if runner != "dev":
            assert context.run.training_env(5).workers in pools
            for pool in pools:
                os.kill(pool.pids[1], signal.SIGKILL)
            with pytest.warns(RuntimeWarning, match="worker 1 .* died with exit code -9"):
                context.train()
            assert [pool.restarts for pool in pools] == [1, 1]
        else:
            context.train()
        folders.append(context.run_dir)
    assert_same(*(whole_state(folder) for folder in folders))


class Restless(torch.nn.Module):
    """A network that draws random numbers itself."""

    out_features = 2

    def forward(self, obs):
        return obs["observation"].float() + torch.rand(2)


def test_what_cannot_be_shared_is_stepped_in_lockstep(quick, shared, monkeypatch):
    from maze_core.models.policy import Policy

    shared(2)
    walk = SeededWalk()
    restless = Policy(walk.observation_space, walk.action_space, Restless())
    assert network.draws_itself(restless)
    assert not on_workers(quick(Doors, "pqn", {"algorithm.num_envs": 3}))  # masks decide what is drawn
    native = {"env.vectorization": "native"}
    assert not on_workers(quick("CartPole-v1", "ppo", native))
    assert on_workers(quick(SeededWalk, "ppo"))


def test_a_model_of_a_notebook_acts_in_this_process(quick):
    """No other process can import it."""

    class Own(torch.nn.Module):
        out_features = 2

        def forward(self, obs):
            return obs["observation"].float()

    from maze_core.models.policy import Policy

    def build(observation_space, action_space):
        return Policy(observation_space, action_space, Own(), Own())

    context = quick(SeededWalk, "a2c", SMALL, runner={"name": "local", "workers": 1}, model=build)
    assert not on_workers(context)
    assert context.train().outcome == "finished"
