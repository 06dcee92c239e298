"""Replay that workers collect: bit-equal to that of one process, also where workers are lost or a run moves."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from itertools import count

import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Doors, Workshop
from maze_local import pooled_envs
from maze_local.pooled_envs import PooledVectorEnv
from maze_onpolicy.collect import remote
from maze_onpolicy.collect.assignment import CollectAssignment

from maze_core import Policy, RunContext
from maze_core.base.errors import RunError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.run.progress import LiveProgress
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.forgetful import Forgetful
from tests.interrupted import interrupted
from tests.killed import kill_after, start
from tests.training.test_worker_rollouts import Pushed, aged

SMALL = {
    "algorithm.num_envs": 5,
    "algorithm.n_epochs": 3,
    "algorithm.epoch_length": 3,
    "algorithm.batch_size": 16,
    "model.hidden": [16],
    "algorithm.initial_buffer_size": 20,
    "algorithm.replay_buffer_size": 300,
    "evaluation.num_envs": 2,
    "evaluation.n_episodes": 2,
    "callbacks.tensorboard": None,
}
SEVERAL = {"algorithm.n_rollout_steps": 12}
STEPS = {"algorithm.collect_steps": 60, "algorithm.utd": 0.05}


@pytest.fixture
def built(tmp_path, known_plugins):
    """`built(env, algorithm, options, **parts)`: a silent RunContext of three epochs of three updates, seed 1."""
    numbers = count()
    with ExitStack() as stack:

        def build(env, algorithm, options, **parts):
            parts = {"run_dir": tmp_path / f"run{next(numbers)}", "seed": 1, "preset": "none", "silent": True, **parts}
            return stack.enter_context(RunContext(env, algorithm, overrides=SMALL | options, **parts))

        yield build


def collector_of(context):
    return context.run.algorithm.kept["collector"]


REMEMBERING = {"model.memory": "gru", "model.memory_size": 8, "algorithm.sequence_length": 5, "algorithm.burn_in": 3}
CASES = {
    "sac": ("sac", Pushed, STEPS),
    "sac, masks that the first steps follow": ("sac", Doors, SEVERAL | {"algorithm.rollouts_per_iteration": 2}),
    "sac, nested spaces": ("sac", Workshop, SEVERAL | {"model.name": "template", "model.image_features": 8}),
    "sac, wrappers that remember": ("sac", aged, SEVERAL),
    "sac, memory": ("sac", SeededWalk, SEVERAL | REMEMBERING),
    "dqn": ("dqn", SeededWalk, SEVERAL | {"algorithm.epsilon.end": 300}),
    "dqn, memory": ("dqn", aged, SEVERAL | REMEMBERING | {"model.memory": "lstm"}),
    "dqn, noisy": ("dqn", SeededWalk, SEVERAL | {"algorithm.noisy": True, "algorithm.prioritized": True}),
}
QUICK = {"sac, memory", "dqn"}
TWICE = {"sac"}
"""With three workers in the first pass."""


@pytest.mark.parametrize(
    ("case", "workers"),
    [
        *(pytest.param(case, 2, marks=[pytest.mark.slow] * (case not in QUICK)) for case in CASES if case not in TWICE),
        *((case, 3) for case in TWICE),
    ],
)
def test_a_run_is_bit_equal(built, shared, whole_state, assert_same, monkeypatch, case, workers):
    """Also with workers that are lost, and with ones that tell how far they are."""
    algorithm, env, options = CASES[case]
    folders = []
    for number in (0, workers):
        shared(number, every=5 if workers == 2 else 0)
        monkeypatch.setattr(pooled_envs, "_LONG_SLICE", 0.0 if workers == 3 else 10.0)
        context = built(env, algorithm, options)
        assert collector_of(context).on_workers == bool(number)
        context.train()
        folders.append(context.run_dir)
    assert_same(*(whole_state(folder) for folder in folders))


@pytest.mark.parametrize(
    ("algorithm", "options", "workers"),
    [("sac", SEVERAL | REMEMBERING, (0, 2)), ("dqn", SEVERAL, (3, 0))],
)
def test_a_run_moves_to_other_workers(built, shared, whole_state, assert_same, algorithm, options, workers):
    shared(0)
    whole = built(aged, algorithm, options)
    whole.train()
    shared(workers[0])
    half = built(aged, algorithm, options)
    half.train(1)
    half.close()
    shared(workers[1])
    later = built(aged, algorithm, options, run_dir=None)
    assert later.resume(half.run_dir).outcome == "finished"
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_worker_processes_one_of_which_is_killed(built, whole_state, assert_same):
    folders = []
    for runner in ("dev", {"name": "local", "workers": 2}):
        context = built(Pushed, "sac", STEPS, runner=runner)
        context.train(1)
        if runner != "dev":
            pool = collector_of(context).env.workers
            os.kill(pool.pids[1], signal.SIGKILL)
            with pytest.warns(RuntimeWarning, match="worker 1 .* died with exit code -9"):
                context.train()
            assert pool.restarts == 1
        else:
            context.train()
        folders.append(context.run_dir)
    assert_same(*(whole_state(folder) for folder in folders))


@pytest.mark.slow
def test_kill_9_ends_bit_equal(built, tmp_path, whole_state, assert_same):
    """Of a run on workers, which a later one resumes on workers, too."""
    run_dir, runner = tmp_path / "killed", {"name": "local", "workers": 2}
    values = SMALL | STEPS | {"algorithm.n_epochs": 1000}
    kill_after(start("td3", Pushed, run_dir, values, runner=runner), run_dir, epochs=0)
    epochs = read_checkpoint(run_dir / "checkpoints" / "last").state["epoch"] + 2
    options = STEPS | {"algorithm.n_epochs": epochs}
    later = built(Pushed, "td3", options, run_dir=None, runner=runner)
    assert later.resume(run_dir).outcome == "finished"
    assert collector_of(later).on_workers
    whole = built(Pushed, "td3", options)
    whole.train()
    assert_same(whole_state(run_dir), whole_state(whole.run_dir))


def test_what_cannot_be_shared_is_stepped_in_lockstep(built, shared, monkeypatch):
    shared(2)

    def is_shared(env, algorithm, options, **parts):
        return collector_of(built(env, algorithm, options, **parts)).on_workers

    assert is_shared(SeededWalk, "sac", SEVERAL)
    assert not is_shared(SeededWalk, "sac", {"algorithm.n_rollout_steps": 1})
    assert not is_shared(Pushed, "td3", {"algorithm.collect_steps": 5})
    assert not is_shared(SeededWalk, "sac", SEVERAL | {"model.normalize_observations": True})
    assert not is_shared(Doors, "dqn", SEVERAL)  # masks decide what is drawn
    assert not is_shared("CartPole-v1", "sac", SEVERAL | {"env.vectorization": "native"})
    monkeypatch.setattr(remote, "_LARGEST", 12 * 5 * 2 * 4)
    assert is_shared(SeededWalk, "sac", SEVERAL)
    assert not is_shared(SeededWalk, "sac", SEVERAL | {"algorithm.num_envs": 6})


def test_masks_that_random_actions_follow(built, shared, whole_state, assert_same):
    """The run is the same nevertheless."""
    folders = []
    for number in (0, 2):
        shared(number)
        context = built(Doors, "dqn", SEVERAL)
        context.train()
        folders.append(context.run_dir)
    assert_same(*(whole_state(folder) for folder in folders))


def test_a_model_of_a_notebook_acts_in_this_process(built, monkeypatch):
    """No other process can import it."""

    class Own(torch.nn.Module):
        out_features = 2

        def forward(self, obs):
            return obs["observation"].float()

    def build(observation_space, action_space):
        return Policy(observation_space, action_space, Own())

    monkeypatch.delitem(SMALL, "model.hidden")
    context = built(SeededWalk, "sac", SEVERAL, runner={"name": "local", "workers": 1}, model=build)
    assert not collector_of(context).on_workers
    assert context.train().outcome == "finished"


class Failing(SeededWalk):
    """Raises in its tenth step."""

    steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == 10:
            raise ZeroDivisionError("the wheel came off")
        return super().step(action)


@pytest.mark.parametrize("initial", [1, 80])
def test_an_environment_that_raises_is_named(built, shared, initial):
    """In the first steps, and in those of the policy."""
    messages = []
    for number in (0, 2):
        shared(number)
        with pytest.raises(RunError, match=r"environment 0 .* raised ZeroDivisionError: the wheel came off") as caught:
            built(Failing, "sac", SEVERAL | {"algorithm.initial_buffer_size": initial}).train()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_masks_that_leave_no_choice_are_an_error(built, shared):
    for number in (0, 2):
        shared(number)
        with pytest.raises(RunError, match="the mask 'action_mask' forbids every choice of action 'action', member 1"):
            built(lambda: Doors(locked=True), "sac", SEVERAL | {"algorithm.initial_buffer_size": 1}).train()


def test_live_progress_within_a_collection(built, shared, monkeypatch):
    monkeypatch.setattr(pooled_envs, "_LONG_SLICE", 0.0)
    shared(2)
    run = built(SeededWalk, "sac", SEVERAL).run
    shown = []

    class Watched(LiveProgress):
        def __setattr__(self, name, value):
            shown.extend([value] if name == "env_steps" else [])
            super().__setattr__(name, value)

    run.progress = Watched()
    run.algorithm.kept["collector"].collect()
    counted = next(i for i in range(1, len(shown)) if shown[i] < shown[i - 1])  # from here on step by step
    assert 0 < shown[1] < shown[counted - 1] == 5 * 11  # the last step comes with the transitions
    assert run.env_steps == run.progress.env_steps == shown[-1] == 5 * 12


class StoppedError(Exception):
    pass


class Own(torch.nn.Module):
    out_features = 2

    def forward(self, obs):
        return obs["observation"].float()


@pytest.mark.parametrize("after", [1, 3])
def test_steps_go_on_after_an_interrupted_call(monkeypatch, after):
    """After Ctrl-C workers have taken steps of which the driver does not know."""
    monkeypatch.setattr(pooled_envs, "_LONG_SLICE", 0.0)
    actions = {"action": np.random.default_rng(1).integers(3, size=(6, 5))}
    seeds = EpisodeSeeds(1, Purpose.TRAIN_EPISODES)
    envs = SerialVectorEnv(lambda index: aged(), 5), PooledVectorEnv(lambda index: aged(), 5, 2, Forgetful)
    obs = [allocate(space_specs(env.observation_space, "observation"), (5,)) for env in envs]
    for env, out in zip(envs, obs, strict=True):
        env.reset(seeds, out)
    policy = Policy(envs[0].observation_space, envs[0].action_space, Own())
    assert envs[1].assign(CollectAssignment(policy, None, seeds, 6, 1))
    calls = []

    def stop(steps):
        calls.append(steps)
        if len(calls) == after:
            raise StoppedError

    with pytest.raises(StoppedError):
        envs[1].take(actions, stop)
    taken = envs[1].take(actions, lambda steps: None)
    for t, (_, result, after_) in enumerate(taken.steps()):
        expected = envs[0].step({"action": actions["action"][t]}, obs[0])
        np.testing.assert_array_equal(result.reward, expected.reward)
        np.testing.assert_array_equal(after_["observation"], obs[0]["observation"])
        assert result.episodes == expected.episodes
    one, two = (env.state() for env in envs)
    np.testing.assert_array_equal(one["length"], two["length"])
    assert one["memory"] == two["memory"]


def test_a_stop_within_the_first_steps(built, shared, whole_state, assert_same):
    class Impatient(SeededWalk):
        steps = 0

        def step(self, action):
            Impatient.steps += 1
            if Impatient.steps == 37:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().step(action)

    shared(2)
    options = SEVERAL | {"algorithm.initial_buffer_size": 200}
    stopped = built(Impatient, "sac", options)
    summary = interrupted(stopped.train)
    assert (summary.outcome, summary.updates, summary.env_steps) == ("interrupted", 0, 60)
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    shared(0)
    whole = built(SeededWalk, "sac", options)
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
