"""Steps that were compiled are those of the code, whatever the algorithm, and however the compiler fares."""

import os
import re
import shutil
import signal
import time

import numpy as np
import pytest
import torch
from maze_devkit.challenges import Masked, Privileged
from maze_devkit.envs import SeededWalk

from maze_core import Plugin, hookimpl
from maze_core.base.errors import RunError
from maze_core.learn.repeated import compiled, machine_code
from maze_core.learn.repeated.compiler import graph_of
from maze_core.learn.repeated.steps import CannotRepeatError
from maze_core.learn.repeated.tape import Tape
from tests.forked import Forked
from tests.interpreted import interpreted as interpreted
from tests.sockets import alive

SMALL = {
    "algorithm.initial_buffer_size": 40,
    "algorithm.batch_size": 16,
    "algorithm.n_epochs": 2,
    "algorithm.epoch_length": 4,
}
RAINBOW = {"double": True, "dueling": True, "prioritized": True, "noisy": True}
RUNS = {
    "sac": ("Pendulum-v1", "sac", {}),
    "sac of discrete actions, clipped": ("CartPole-v1", "sac", {"max_grad_norm": 0.1}),
    "sac of masks": (Masked, "sac", {}),
    "sac with what critics alone see": (lambda: Privileged(1.0, continuous=True), "sac", {}),
    "redq": ("Pendulum-v1", "sac", {"n_critics": 4, "target_subset": 2, "policy_delay": 2}),
    "droq": ("Pendulum-v1", "sac", {"dropout": 0.1, "critic_norm": "layer"}),
    "crossq": ("Pendulum-v1", "sac", {"critic_norm": "batch"}),
    "tqc": ("Pendulum-v1", "sac", {"quantiles": 5, "drop_top": 1}),
    "td3": ("Pendulum-v1", "td3", {"n_step": 3}),
    "dqn": ("CartPole-v1", "dqn", {}),
    "rainbow": ("CartPole-v1", "dqn", RAINBOW),
    "distributional dqn": ("CartPole-v1", "dqn", {"head": "categorical", "value_min": 0.0, "value_max": 20.0}),
    "ppo": ("CartPole-v1", "ppo", {"lr_schedule": "linear", "batch_size": 24}),
    "ppo of two kinds of steps": (Masked, "ppo", {"critic_burn_in_epochs": 1, "batch_size": 10}),
}


@pytest.fixture
def started(quick):
    """Builds a run of `RUNS`; `compile`: the setting."""

    def start(name, setting="on", **parts):
        env, algorithm, values = RUNS[name]
        own = {f"algorithm.{key}": value for key, value in values.items()}
        small = {} if algorithm == "ppo" else SMALL
        return quick(env, algorithm, {**small, **own, "compile": setting, "closed_form": False}, **parts)

    return start


def losses(lines):
    return [{name: value for name, value in line.items() if name.startswith("loss/")} for line in lines]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_that_of_the_code(interpreted, started, metrics, name, capfd):
    plain, ours = started(name, "off"), started(name)
    for context in (plain, ours):
        context.train()
    assert "the run goes on" not in capfd.readouterr().err
    assert plain.run.repeated is None
    assert ours.run.repeated._recorded
    assert not ours.run.repeated.given_up
    for wanted, found in zip(*(losses(metrics(context.run_dir)) for context in (plain, ours)), strict=True):
        assert len(wanted) > 2
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    for mine, theirs in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "step"), [("redq", 3), ("crossq", 4), ("td3", 7), ("rainbow", 5)])
def test_a_resumed_run_goes_on_alike(interpreted, started, monkeypatch, whole_state, assert_same, name, step):
    """Where it compiles from some step on, too: before the first epoch ends, at its end, and after it."""
    monkeypatch.setattr(compiled, "REPAYS", step)
    whole, half, rest = (started(name, "auto") for _ in range(3))
    whole.train()
    assert whole.run.repeated._recorded
    half.train(1)
    half.close()
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_it_waits_until_compiling_repays(interpreted, started, monkeypatch):
    monkeypatch.setattr(compiled, "REPAYS", 7)
    context = started("sac", "auto")
    learner, seen = context.run.learner, []
    record = compiled.CompileRecorder.record
    monkeypatch.setattr(
        compiled.CompileRecorder, "record", lambda self, batch: (seen.append(learner.steps), record(self, batch))[1]
    )
    context.train()
    assert seen == [7]


def test_formulas_are_faster_unless_it_is_asked_for(interpreted, quick, monkeypatch, capfd):
    monkeypatch.setattr(compiled, "REPAYS", 3)
    auto, on = (quick("CartPole-v1", "ppo", {"compile": setting}) for setting in ("auto", "on"))
    auto.train()
    assert auto.run.repeated.given_up
    assert capfd.readouterr().err == ""
    on.train()
    assert on.run.repeated._recorded
    assert on.run.algorithm._closed_form is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no-such-compiler", "there is no C++ compiler 'no-such-compiler'"),
        ("false", "the compiler failed: ValueError: no such operation"),
    ],
)
def test_without_a_compiler_the_run_goes_on(quick, tmp_path, monkeypatch, metrics, value, reason, capfd):
    monkeypatch.setenv("CXX", value)
    if value == "false":  # there is one, and it fails
        (tmp_path / "compiler.py").write_text("print()\nraise ValueError('no such operation')")
        monkeypatch.setattr(machine_code.compiler, "__file__", str(tmp_path / "compiler.py"))
    ours, plain = (quick("Pendulum-v1", "sac", {**SMALL, "compile": setting}) for setting in ("on", "off"))
    for context in (ours, plain):
        context.train()
    said = capfd.readouterr().err.splitlines()
    assert [line.startswith("note: the updates of sac are not compiled: " + reason) for line in said] == [True]
    assert losses(metrics(ours.run_dir)) == losses(metrics(plain.run_dir))
    for mine, theirs in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_formulas_return_where_nothing_can_be_compiled(quick, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    context = quick("CartPole-v1", "ppo", {"compile": "on"})
    context.train(1)
    assert context.run.algorithm._closed_form is None
    context.train(1)
    assert context.run.algorithm._closed_form is not None


class Noisy(Plugin):
    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        return (yield).plus("nothing", batch.obs["observation"].sum() * 0)


def test_it_says_why_a_run_is_not_compiled(interpreted, quick, capfd):
    assert not quick("Pendulum-v1", "sac", {**SMALL, "compile": "on"}, callbacks={"noisy": Noisy}).run.repeated
    assert "sac are not compiled: a plugin takes part in the loss; the run goes on" in capfd.readouterr().err
    assert not quick(SeededWalk, "impala", {"compile": "on"}).run.repeated
    assert "impala are not compiled: the algorithm does not say" in capfd.readouterr().err
    assert not quick(SeededWalk, "impala", {"compile": "auto"}).run.repeated
    assert capfd.readouterr().err == ""


class Reading:
    """What a loss may not do, as a change of an algorithm's loss."""

    def value(self, batch, total):
        return total * total.detach().item()

    def shape(self, batch, total):
        return total + batch.extra["reward"][batch.extra["reward"] > 0].sum() * 0

    def drawn(self, batch, total):
        return total + torch.bernoulli(batch.extra["discount"].clamp(0, 1)).sum() * 0

    def outside(self, batch, total):
        """Numpy: the operations of torch do not show it."""
        return total * torch.from_numpy(1 + np.abs(batch.extra["reward"].numpy())).mean()

    def kept(self, batch, total):
        self.last = total.detach()
        return total


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("value", "reads the value of a tensor|depends on the values of a tensor"),
        ("shape", "depends on the values of a tensor"),
        ("drawn", "draws random numbers that depend on a tensor"),
        ("outside", "the compiled ones give other results"),
        ("kept", "compute_loss sets 'last' of the algorithm; what it keeps belongs in `row_results`"),
    ],
)
def test_what_depends_on_more_than_tensors_is_not_compiled(interpreted, also_installed, quick, what, reason, capfd):
    from maze_sac.sac import SAC

    class Own(SAC):
        @hookimpl
        def compute_loss(self, policy, batch):
            loss = super().compute_loss(policy, batch)
            return type(loss)(getattr(Reading, what)(self, batch, loss.total), loss.metrics)

        def loss_constants(self):
            return ()

    runs = []
    also_installed("algorithm", "sac", Own)
    for setting in ("on", "off"):
        context = quick("Pendulum-v1", "sac", {**SMALL, "compile": setting})
        context.train()
        runs.append(context)
    pattern = f"note: the updates of sac are not compiled: .*({reason}).*; the run goes on"
    assert re.search(pattern, capfd.readouterr().err)
    for mine, theirs in zip(*(context.policy.parameters() for context in runs), strict=True):
        assert torch.equal(mine, theirs)


def test_one_wrong_gradient_of_a_compiler_is_noticed(interpreted, started, monkeypatch, capfd):
    right = compiled.compiled

    def wrong(description):
        library = right(description)
        return lambda inputs: [each * (1 + 0.05 * (place == 3)) for place, each in enumerate(library(inputs))]

    monkeypatch.setattr(compiled, "compiled", wrong)
    context = started("sac")
    context.train()
    assert "sac are not compiled: the compiled ones give other results; the run goes on" in capfd.readouterr().err
    assert context.run.repeated.given_up


def test_few_kinds_are_compiled(interpreted, started, monkeypatch, capfd):
    monkeypatch.setattr(compiled, "_KINDS", 1)
    context = started("td3")
    context.train()
    assert (
        "td3 are not compiled: its batches have more than 1 kinds or sizes; the run goes on" in capfd.readouterr().err
    )
    assert context.run.repeated.given_up


def test_a_loss_that_is_not_finite_ends_the_run(interpreted, started):
    context = started("sac")
    context.train(1)
    before = [parameter.clone() for parameter in context.policy.parameters()]
    critics = context.run.algorithm.critics
    with torch.no_grad():
        critics.bias_0[0, 0, 0] = float("nan")
    with pytest.raises(RunError, match="the loss or a gradient is not finite in step"):
        context.train(1)
    assert all(map(torch.equal, before, context.policy.parameters()))


class TestTape:
    def replayed(self, function, first, second):
        """Return what a recording of `function(first)` computes for `second`, and what the function does."""
        tape = Tape([first])
        with tape:
            outputs = [function(first)]
        module, examples = graph_of(tape.description(outputs))
        assert [each.shape for each in examples] == [each.shape for each in [first, *tape.constants]]
        return module(second, *(draw() for draw in tape.draws), *tape.constants)[0], function(second)

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x.sort(0).values.chunk(2)[1] + x.max(0).values,
            lambda x: torch.stack([x, x.t().contiguous().t()]).to(torch.float64).clamp(min=-0.5),
            lambda x: x.clone().mul_(3).add_(x[:, :1]).index_select(0, torch.tensor([2, 0])),
            lambda x: x[torch.tensor([1, 1, 3])].as_strided((2, 2), (1, 2)) * float("inf"),
            lambda x: torch.where(x > 0, x, torch.zeros(())).logsumexp(-1, keepdim=True),
            lambda x: torch.nn.functional.conv2d(x[None, None], torch.ones(1, 1, 2, 2)),
        ],
    )
    def test_it_computes_the_same_for_other_numbers(self, function):
        found, wanted = self.replayed(function, torch.randn(4, 4), torch.randn(4, 4))
        assert torch.equal(found, wanted)

    def test_numbers_are_drawn_anew_in_the_same_order(self):
        own = torch.Generator().manual_seed(3)

        def function(x):
            kept = torch.empty(4).normal_(generator=own)
            return x + torch.randn(4, generator=own) * torch.rand_like(x) + kept.uniform_(-1, 1, generator=own)

        first = torch.zeros(4)
        tape = Tape([first])
        with tape:
            outputs = [function(first)]
        module, _ = graph_of(tape.description(outputs))
        x, results = torch.randn(4), []
        for compute in (lambda: module(x, *(draw() for draw in tape.draws), *tape.constants)[0], lambda: function(x)):
            own.manual_seed(5)
            torch.manual_seed(6)
            results.append(compute())
        assert torch.equal(*results)

    def test_what_it_cannot_write_down_is_refused(self):
        for function in (lambda x: x.nonzero(), lambda x: x.sum().item(), lambda x: torch.bernoulli(x)):
            with pytest.raises(CannotRepeatError), Tape([torch.ones(2)]):
                function(torch.ones(2))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "g++")), reason="needs a C++ compiler")
def test_what_a_compiler_makes_is_that_of_the_code(started, metrics, capfd):
    plain, ours = started("tqc", "off"), started("tqc")
    for context in (plain, ours):
        context.train()
    assert capfd.readouterr().err.startswith("note: the updates of sac were compiled in ")
    assert not ours.run.repeated.given_up
    for wanted, found in zip(*(losses(metrics(context.run_dir)) for context in (plain, ours)), strict=True):
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_ends_while_it_compiles_leaves_nothing(tmp_path, number):
    """Killed, and with Ctrl-C twice: no process and no folder."""
    compiler, mark, folder = tmp_path / "compiler", tmp_path / "mark", tmp_path / "t"
    compiler.write_text(f"#!/bin/sh\necho $$ > {mark}.new; mv {mark}.new {mark}\nsleep 600\n")
    compiler.chmod(0o755)
    folder.mkdir()
    sets = [part for name, value in {**SMALL, "compile": "on"}.items() for part in ("--set", f"{name}={value}")]
    words = ["train", "sac", "--env", "Pendulum-v1", "--preset", "none", "--run-dir", tmp_path / "run", *sets]
    process = Forked(words, tmp_path, {**os.environ, "CXX": str(compiler), "TMPDIR": str(folder)})
    wait_for(mark.exists, 60)
    pid = int(mark.read_text())
    assert [each.name for each in folder.iterdir() if each.name.startswith("maze-compile-")]
    for _ in range(2 if number == signal.SIGINT else 1):
        os.kill(process.pid, number)
        time.sleep(0.5)
    process.wait(30)
    wait_for(lambda: not alive(pid) and not list(folder.glob("maze-compile-*")), 20)


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
