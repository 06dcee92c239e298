"""SIGTERM in the middle of what takes long: a checkpoint is written soon, and the resumed run equals the whole one."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from gymnasium import spaces
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import LostError, RunError
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run import api
from maze_core.run.run import Run
from maze_core.run.saved import checkpoint as checkpoints
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.interrupted import interrupted

PATIENCE = 0.2


class Sender:
    """Sends signals at a step of this process, counted over all environments; later steps take long."""

    def __init__(self):
        self.steps, self.at, self.signals, self.pause = 0, 0, (signal.SIGTERM,), 0.05
        self.sent = None

    def step(self):
        self.steps += 1
        if self.steps == self.at:
            self.sent = time.monotonic()
            for number in self.signals:
                os.kill(os.getpid(), number)
        if self.sent is not None:
            time.sleep(self.pause)


SENDER = Sender()


class Slow(SeededWalk):
    def step(self, action):
        SENDER.step()
        return super().step(action)


class SlowForce(Slow):
    """With a continuous action."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    def step(self, action):
        return super().step(int(action[0] > 0))


@pytest.fixture
def sender(monkeypatch):
    """The sender; states are kept after each update, and SIGTERM leaves an update little time."""
    SENDER.__init__()
    monkeypatch.setattr(api, "_TO_FINISH", PATIENCE)
    monkeypatch.setattr(checkpoints, "_SLOW", 0.0)
    monkeypatch.setattr(checkpoints, "_SHARE", 0.0)
    yield SENDER
    SENDER.__init__()


ROLLOUT = {"algorithm.n_rollout_steps": 60}
TWO_ROWS = {"algorithm.n_rollout_steps": 8, "algorithm.batch_size": 2, "algorithm.n_optimization_epochs": 1}
"""Of 24."""


@pytest.mark.parametrize(
    ("env", "algorithm", "values", "at"),
    [
        (Slow, "ppo", ROLLOUT, 30),  # the first update: the checkpoint is of the beginning
        (Slow, "a2c", {**ROLLOUT, "model.normalize_observations": True, "model.memory": "gru"}, 250),
        (Slow, "impala", ROLLOUT, 250),
        (Slow, "es", {"algorithm.n_rollouts_per_update": 40}, 500),
    ],
)
def test_an_update_that_takes_long_is_given_up(
    quick, sender, whole_state, assert_same, metrics, env, algorithm, values, at
):
    more = {"evaluation.n_episodes": 1, "evaluation.num_envs": 1}
    parts = {"env": env, "algorithm": algorithm, "overrides": more | values}
    stopped = quick(**parts)
    sender.at = stopped.run and sender.steps + at
    summary = interrupted(stopped.train)
    assert time.monotonic() - sender.sent < PATIENCE + 1.0
    assert (summary.outcome, summary.final_evaluation) == ("interrupted", {})
    assert summary.reason == "interrupted by SIGTERM; the update in progress was given up"
    state = whole_state(stopped.run_dir)
    assert (summary.updates, summary.env_steps) == (state["updates"], state["env_steps"])
    assert state["epoch_trained"] is False
    with pytest.raises(RunError, match=r"(?s)in the middle of an update.*resume"):
        stopped.train()
    stopped.close()
    sender.__init__()
    assert quick(**parts).resume(stopped.run_dir).outcome == "finished"
    whole = quick(**parts)
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
    assert metrics(stopped.run_dir) == metrics(whole.run_dir)


@pytest.mark.parametrize(("env", "algorithm"), [(SlowForce, "sac")])
def test_steps_that_fill_a_replay_buffer_are_not_lost(quick, sender, whole_state, assert_same, env, algorithm):
    """In the middle of a step that takes long, of which there were many before the first update."""
    sizes = {"algorithm.initial_buffer_size": 40, "algorithm.replay_buffer_size": 50, "algorithm.num_envs": 2}
    parts = {
        "env": env,
        "algorithm": algorithm,
        "overrides": {"evaluation.n_episodes": 1, "algorithm.n_epochs": 1} | sizes,
    }
    stopped = quick(**parts)
    sender.at, sender.pause = stopped.run and sender.steps + 30, 2.0
    summary = interrupted(stopped.train)
    assert (summary.env_steps, summary.updates) == (28, 0)
    stopped.close()
    sender.__init__()
    quick(**parts).resume(stopped.run_dir)
    whole = quick(**parts)
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))


@pytest.mark.parametrize(("number", "pause"), [(1, 0.01), (3, 1.0)])
def test_an_evaluation_that_takes_long_is_repeated_by_the_resumed_run(
    quick, sender, monkeypatch, whole_state, assert_same, metrics, number, pause
):
    """That of an epoch, or the final one; between two of its steps, or in the middle of one."""
    evaluate, calls = Run.evaluate, []

    def counted(run, *arguments, **options):
        calls.append(run)
        if len(calls) == number:
            sender.at, sender.pause = sender.steps + 10, pause
        return evaluate(run, *arguments, **options)

    monkeypatch.setattr(Run, "evaluate", counted)
    parts = {"env": Slow, "overrides": {"evaluation.n_episodes": 20, "evaluation.num_envs": 2}}
    stopped = quick(**parts)
    summary = interrupted(stopped.train)
    assert time.monotonic() - sender.sent < PATIENCE + 0.5
    assert (summary.outcome, summary.final_evaluation, len(calls)) == ("interrupted", {}, number)
    stopped.close()
    sender.__init__()
    second, whole = quick(**parts), quick(**parts)
    assert second.resume(stopped.run_dir).final_evaluation["eval/episodes"] == 20
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
    assert metrics(stopped.run_dir) == metrics(whole.run_dir)


class SlowLoss(Plugin):
    """Sends SIGTERM in the middle of the passes over a rollout, which take long from then on."""

    calls, at = 0, 0

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        SlowLoss.calls += 1
        if SlowLoss.calls == SlowLoss.at:
            os.kill(os.getpid(), signal.SIGTERM)
        if 0 < SlowLoss.at <= SlowLoss.calls:
            time.sleep(0.05)
        return (yield)


def test_an_update_is_given_up_in_the_middle_of_learning(quick, sender, monkeypatch, whole_state, assert_same):
    at = 25
    parts = {"overrides": TWO_ROWS}
    monkeypatch.setattr(SlowLoss, "calls", 0)
    monkeypatch.setattr(SlowLoss, "at", at)
    stopped = quick(**parts, callbacks={"slow": SlowLoss})
    assert interrupted(stopped.train).updates == at // 12 - (at % 12 == 0) == whole_state(stopped.run_dir)["updates"]
    monkeypatch.setattr(SlowLoss, "at", 0)
    quick(**parts, callbacks={"slow": SlowLoss}).resume(stopped.run_dir)
    whole = quick(**parts, callbacks={"slow": SlowLoss})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))


class Lost(Plugin):
    """Loses something outside of the process in the middle of an update."""

    calls = 0

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        Lost.calls += 1
        if Lost.calls == 25:
            raise LostError("the cluster is gone")
        return (yield)


def test_a_run_that_loses_what_it_works_with_leaves_the_kept_state(
    quick, sender, monkeypatch, whole_state, assert_same
):
    monkeypatch.setattr(Lost, "calls", 0)
    parts = {"overrides": TWO_ROWS | {"algorithm.epoch_length": 4}}
    lost = quick(**parts, callbacks={"lost": Lost})
    with pytest.raises(LostError) as caught:
        lost.train()
    assert "reopen(" in "\n".join(caught.value.__notes__)
    assert whole_state(lost.run_dir)["updates"] == 2
    quick(**parts, callbacks={"lost": Lost}).resume(lost.run_dir)
    whole = quick(**parts, callbacks={"lost": Lost})
    whole.train()
    assert_same(whole_state(lost.run_dir), whole_state(whole.run_dir))


INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize("signals", [(TERM, TERM), (INT, TERM, INT)])
def test_a_second_signal_ends_at_once_and_leaves_the_kept_state(quick, sender, whole_state, assert_same, signals):
    sender.at, sender.signals = 250, signals
    parts = {"env": Slow, "overrides": ROLLOUT | {"evaluation.n_episodes": 1, "evaluation.num_envs": 1}}
    stopped = quick(**parts)
    with pytest.raises(KeyboardInterrupt) as caught:
        stopped.train()
    assert time.monotonic() - sender.sent < 0.5
    assert caught.value.exit_code == 128 + signals[-1] if signals[-1] == TERM else True
    assert whole_state(stopped.run_dir)["updates"] == 1
    sender.__init__()
    quick(**parts).resume(stopped.run_dir)
    whole = quick(**parts)
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))


def test_sigterm_after_ctrl_c_does_not_wait_for_the_update(quick, sender):
    sender.at, sender.signals = 250, (INT, TERM)
    stopped = quick(Slow, overrides=ROLLOUT | {"evaluation.n_episodes": 1, "evaluation.num_envs": 1})
    summary = interrupted(stopped.train)
    assert (summary.updates, summary.final_evaluation) == (1, {})
    assert time.monotonic() - sender.sent < PATIENCE + 1.0


@pytest.mark.slow
def test_workers_are_not_waited_for(quick, monkeypatch):
    monkeypatch.setattr(api, "_TO_FINISH", PATIENCE)
    context = quick(Endless, runner={"name": "local", "workers": 2}, overrides=ROLLOUT)
    context.run  # noqa: B018 — the workers are there
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), TERM)

    threading.Timer(0.5, send).start()
    summary = interrupted(context.train)
    context.close()
    assert time.monotonic() - sent[0] < PATIENCE + 2.0
    assert (summary.outcome, summary.updates, summary.env_steps) == ("interrupted", 0, 0)
    assert read_checkpoint(context.run_dir / "checkpoints" / "last").state["updates"] == 0


class Endless(SeededWalk):
    def step(self, action):
        time.sleep(1.0)
        return super().step(action)
