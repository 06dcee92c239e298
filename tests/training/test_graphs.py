"""Steps that a GPU repeats from a recording are those that it takes one by one."""

import pytest
import torch
from maze_compile.cuda import GraphRecorder
from maze_compile.repeatable import unrepeatable
from maze_compile.steps import RepeatedSteps
from maze_devkit.envs import SeededWalk

from maze_core import Plugin, hookimpl
from maze_core.run import building

OVERRIDES = {"evaluation.n_episodes": 0}

SMALL = {"algorithm.initial_buffer_size": 20, "algorithm.batch_size": 8, "algorithm.n_epochs": 3}
RUNS = {
    "sac": ("Pendulum-v1", SMALL),
    "prioritised dqn": ("CartPole-v1", {**SMALL, "algorithm.priority_exponent": 0.6, "algorithm.noisy_std": 0.5}),
    "ppo": ("CartPole-v1", {"algorithm.batch_size": 8, "algorithm.lr_schedule": "linear", "algorithm.n_epochs": 3}),
    "crossq": ("Pendulum-v1", {**SMALL, "algorithm.critic_norm": "batch", "algorithm.max_grad_norm": 0.1}),
}
OF_SAC = {
    "redq": {"algorithm.n_critics": 4, "algorithm.target_subset": 2},
    "droq": {"algorithm.dropout": 0.1, "algorithm.critic_norm": "layer"},
    "tqc": {"algorithm.quantiles": 5, "algorithm.drop_top": 1},
}


class Rerun:
    """A recording that calls the code again: for a machine without a GPU."""

    def __init__(self, batch, take, generators):
        self.batch, self._take = batch.map(torch.clone), take

    def repeat(self, batch):
        for kept, given in zip(self.batch.leaves, batch.leaves, strict=True):
            kept.copy_(given)
        return self._take(self.batch)


class Forgetful(Rerun):
    """A recording that does not see the batch."""

    def repeat(self, batch):
        for kept in self.batch.leaves:
            kept.zero_()
        return self._take(self.batch)


class Refused:
    """A step that cannot be recorded."""

    def __init__(self, batch, take, generators):
        raise RuntimeError("not while recording")


@pytest.fixture
def started(quick, monkeypatch):
    """Builds runs whose steps are repeated from recordings of a class."""

    def start(name, record=Rerun):
        monkeypatch.setattr(building, "repeated_steps", lambda run: RepeatedSteps(run, GraphRecorder(run, record)))
        env, overrides = RUNS[name]
        context = quick(env, name.split()[-1].replace("crossq", "sac"), {**overrides, "closed_form": False})
        assert context.run.repeated
        return context

    return start


def learned(state):
    """Return a state without what is kept about recordings."""
    return {name: value for name, value in state.items() if name not in ("gave_up_on", "recorded_anew")}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_that_without_recordings(started, metrics, whole_state, assert_same, name, capfd):
    plain, ours = started(name, Refused), started(name)
    for context in (plain, ours):
        context.train()
    assert "are not repeated from a recording: not while recording" in capfd.readouterr().err
    assert ours.run.repeated._recorded
    assert not plain.run.repeated._recorded
    assert_same(*(learned(whole_state(context.run_dir)) for context in (plain, ours)))
    for plain_line, our_line in zip(*(metrics(context.run_dir) for context in (plain, ours)), strict=True):
        losses = {name: value for name, value in plain_line.items() if name.startswith("loss/")}
        assert len(losses) > 2
        assert {name: our_line[name] for name in losses} == losses


def test_one_recording_serves_rollouts_that_resets_shorten(quick, metrics, monkeypatch, capfd):
    """Each may have another size, and a recording takes as long as several steps."""
    sizes, runs = [], []

    class Sized(Rerun):
        def __init__(self, batch, take, generators):
            sizes.append(len(batch))
            super().__init__(batch, take, generators)

    settings = {"algorithm.num_envs": 3, "env.vectorization": "native", "algorithm.n_rollout_steps": 4}
    settings |= {"algorithm.optimizer": "adam"}
    for record in (Refused, Sized):
        monkeypatch.setattr(
            building, "repeated_steps", lambda run, record=record: RepeatedSteps(run, GraphRecorder(run, record))
        )
        runs.append(quick("CartPole-v1", "a2c", {**settings, "algorithm.epoch_length": 15, "closed_form": False}))
        runs[-1].train()
    assert capfd.readouterr().err.count("not repeated") == 1
    assert sizes == [12]
    for wanted, found in zip(*(metrics(context.run_dir) for context in runs), strict=True):
        assert found["loss/policy"] == pytest.approx(wanted["loss/policy"], rel=1e-3, abs=1e-5)
    for mine, theirs in zip(*(context.policy.parameters() for context in runs), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_a_resumed_run_records_anew(started, whole_state, assert_same):
    whole, half, rest = (started("sac") for _ in range(3))
    whole.train()
    half.train(1)
    half.close()
    rest.resume(half.run_dir)
    assert rest.run.repeated._recorded
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_a_recording_that_gives_something_else_is_not_used(started, whole_state, assert_same, capfd):
    plain, ours = started("sac", Refused), started("sac", Forgetful)
    for context in (plain, ours):
        context.train()
    assert "are not repeated from a recording: its recording gives other results" in capfd.readouterr().err
    assert_same(*(learned(whole_state(context.run_dir)) for context in (plain, ours)))


def test_what_changes_between_epochs_is_seen(started):
    """Parameters that move or freeze have recordings of their own; foreign layers end them."""
    context = started("sac")
    context.train(1)
    run, recordings = context.run, context.run.repeated._recorded
    assert len(recordings) == 1
    head = next(run.policy.heads.parameters())
    head.data = head.data.clone()
    context.train(1)
    assert len(recordings) == 2
    run.policy.extra = Own(2, 2)
    context.train(1)
    assert run.repeated.given_up


class Noisy(Plugin):
    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        return (yield).plus("nothing", batch.obs["observation"].sum() * 0)


class Own(torch.nn.Linear):
    """A layer that Maze does not know."""


def test_what_others_take_part_in_is_not_recorded(quick):
    assert not unrepeatable(quick("Pendulum-v1", "sac", SMALL).run)
    assert unrepeatable(quick("Pendulum-v1", "sac", SMALL, callbacks={"noisy": Noisy}).run)
    assert unrepeatable(quick(SeededWalk, "impala").run)  # its loss says nothing of itself
    run = quick("Pendulum-v1", "sac", SMALL).run
    run.policy.extra = Own(2, 2)
    assert unrepeatable(run)
    hooked = quick("Pendulum-v1", "sac", SMALL).run
    hooked.policy.encoder.register_forward_hook(lambda *_: None)
    assert unrepeatable(hooked)
    heard = quick("Pendulum-v1", "sac", SMALL).run
    next(heard.algorithm.critics.parameters()).register_hook(lambda gradient: None)
    assert unrepeatable(heard)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [*RUNS, "redq", "droq", "tqc"])
def test_recordings_on_a_gpu_give_what_single_steps_give(quick, whole_state, assert_same, name, capfd):
    env, overrides = RUNS.get(name) or ("Pendulum-v1", {**SMALL, **OF_SAC[name]})
    algorithm = name.split()[-1] if name in RUNS and name != "crossq" else "sac"
    recorded, resumed, plain = (
        quick(env, algorithm, {**overrides, "algorithm.device": "cuda", "cuda_graphs": graphs})
        for graphs in (True, True, False)
    )
    recorded.train()
    assert capfd.readouterr().err == ""
    assert recorded.run.repeated._recorded
    plain.train()
    assert plain.run.repeated is None
    for ours, theirs in zip(recorded.policy.parameters(), plain.policy.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    half = quick(env, algorithm, {**overrides, "algorithm.device": "cuda"})
    half.train(1)
    half.close()
    resumed.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(recorded.run_dir))
