"""Steps that were compiled are those of the code, whatever the algorithm, and however the compiler fares."""

import os
import re
import signal
import time

import numpy as np
import pytest
import torch
from maze_compile import compiled, machine_code
from maze_compile.steps import RepeatedSteps
from maze_compile.traced_adam import TracedAdam
from maze_devkit.challenges import Masked
from maze_devkit.envs import SeededWalk

from maze_core import Plugin, hookimpl
from maze_core.base.errors import ConfigError, RunError
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install
from maze_core.run import building
from tests.forked import Forked
from tests.interpreted import interpreted as interpreted
from tests.interpreted import losses
from tests.sockets import alive

OVERRIDES = {"evaluation.n_episodes": 0}
LATE = ("torch._dynamo",)
"""What whoever compiles imports first, for seconds."""

SMALL = {
    "algorithm.initial_buffer_size": 40,
    "algorithm.batch_size": 16,
    "algorithm.n_epochs": 2,
    "algorithm.epoch_length": 4,
    "model.hidden": [16, 16],
}
CRITICS = {"algorithm.critic_hidden": [16, 16]}
FLASH = {"policy_width": 8, "policy_blocks": 1, "critic_width": 8, "critic_blocks": 1}
RAINBOW = {"double": True, "dueling": True, "prioritized": True, "noisy": True}
RUNS = {
    "sac": ("Pendulum-v1", "sac", {}),
    "sac of masks, clipped": (Masked, "sac", {"max_grad_norm": 0.1}),
    "redq": ("Pendulum-v1", "sac", {"n_critics": 4, "target_subset": 2, "policy_delay": 2}),
    "droq": ("Pendulum-v1", "sac", {"dropout": 0.1, "critic_norm": "layer"}),
    "crossq": ("Pendulum-v1", "sac", {"critic_norm": "batch"}),
    "tqc": ("Pendulum-v1", "sac", {"quantiles": 5, "drop_top": 1}),
    "td3": ("Pendulum-v1", "td3", {"n_step": 3}),
    "fast_td3": ("Pendulum-v1", "fast_td3", {"num_envs": 2, "utd": 0.5, "atoms": 5, "weight_decay": 0.0}),
    "flash_sac": ("Pendulum-v1", "flash_sac", {"num_envs": 2, "utd": 0.5, "atoms": 5} | FLASH),
    "dqn": ("CartPole-v1", "dqn", {}),
    "rainbow": ("CartPole-v1", "dqn", RAINBOW),
    "distributional dqn": ("CartPole-v1", "dqn", {"head": "categorical", "value_min": 0.0, "value_max": 20.0}),
    "ppo": ("CartPole-v1", "ppo", {"lr_schedule": "linear", "batch_size": 14}),
    "ppo of two kinds of steps": (Masked, "ppo", {"critic_burn_in_epochs": 1, "batch_size": 10}),
}


@pytest.fixture
def started(quick):
    """Builds a run of `RUNS`; `compile`: the setting."""

    def start(name, setting="on", settings=None):
        env, algorithm, values = RUNS[name]
        own = {f"algorithm.{key}": value for key, value in values.items()}
        small = {} if algorithm == "ppo" else SMALL | (CRITICS if algorithm in ("sac", "td3", "fast_td3") else {})
        return quick(env, algorithm, {**small, **own, "compile": setting, "closed_form": False, **(settings or {})})

    return start


SPECIAL = ("redq", "droq", "tqc", "rainbow", "fast_td3", "flash_sac")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SPECIAL else name for name in RUNS]
)
def test_a_run_is_that_of_the_code(interpreted, started, metrics, name, capfd):
    plain, ours = started(name, "off"), started(name)
    for context in (plain, ours):
        context.train()
    assert "the run goes on" not in capfd.readouterr().err
    assert plain.run.repeated is None
    assert ours.run.repeated._recorded
    close = 1e-4 if name == "crossq" else 1e-5  # its statistics of batches enlarge what is rounded otherwise
    assert not ours.run.repeated.given_up
    for wanted, found in zip(*(losses(metrics(context.run_dir)) for context in (plain, ours)), strict=True):
        assert len(wanted) > 2
        assert found == pytest.approx(wanted, rel=10 * close, abs=close)
    for mine, theirs in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=10 * close)


def auto(monkeypatch, settled, repays=1, ahead=2):
    """The counts that decide with `auto`, small enough for a test."""
    for name, value in {"_SETTLED": settled, "REPAYS": repays, "_AHEAD": ahead}.items():
        monkeypatch.setattr(compiled, name, value)


SOME = [("td3", 5, 2), ("ppo", 1, 0)]
MORE = [(name, step, ahead) for name, step in (("redq", 3), ("crossq", 4), ("rainbow", 2)) for ahead in (0, 2)]


@pytest.mark.parametrize(
    ("name", "step", "ahead"), [*SOME, *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE)]
)
def test_a_resumed_run_goes_on_alike(interpreted, started, monkeypatch, whole_state, assert_same, name, step, ahead):
    """Where compiling begins and ends at some step, too: before the first epoch ends, at its end, and after it."""
    auto(monkeypatch, step, ahead=ahead)
    whole, half, rest = (started(name, "auto") for _ in range(3))
    whole.train()
    assert whole.run.repeated._recorded
    half.train(1)
    half.close()
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_a_long_run_is_compiled_beside_its_training(interpreted, started, monkeypatch, capfd):
    auto(monkeypatch, 2, repays=5, ahead=3)
    context = started("sac", "auto")
    begun, learner = [], context.run.learner
    record = compiled.CompileRecorder.record
    monkeypatch.setattr(
        compiled.CompileRecorder, "record", lambda self, batch: (begun.append(learner.steps), record(self, batch))[1]
    )
    context.train()
    assert (begun, context.run.state.compiled_from) == ([2], 5)
    assert capfd.readouterr().err == "note: the updates of sac are compiled from step 6 on\n"


@pytest.mark.parametrize("end", [{"algorithm.n_epochs": 2}, {"steps": 104}])
def test_a_run_that_ends_soon_is_not_compiled(interpreted, started, monkeypatch, end):
    auto(monkeypatch, 2, repays=7)
    context = started("sac", "auto", end)
    context.train()
    assert context.run.learner.steps == 8
    assert context.run.state.compiled_from is None


def test_what_fills_the_buffer_first_says_nothing_about_the_steps_to_come(interpreted, started, monkeypatch):
    """Of 120 steps 100 fill it: after twelve of 20 updates there are about eight to come, and not one or two."""
    auto(monkeypatch, 12, repays=6)
    alone = {"algorithm.num_envs": 1, "algorithm.n_rollout_steps": 1, "algorithm.n_epochs": 0}
    context = started("sac", "auto", {**alone, "steps": 120, "algorithm.initial_buffer_size": 100})
    context.train()
    assert (context.run.learner.steps, context.run.state.compiled_from) == (20, 14)


def test_a_run_without_a_known_end_is_compiled(interpreted, started, monkeypatch):
    auto(monkeypatch, 2, repays=10_000)
    context = started("sac", "auto", {"algorithm.n_epochs": 0})
    context.train(1)
    assert context.run.state.compiled_from == 4


def test_compiled_steps_take_the_place_of_formulas(interpreted, quick, monkeypatch, capfd):
    """Only from the step on from which they are compiled; a recorded run differs in rounding alone."""
    auto(monkeypatch, 6)
    finals = []
    for setting in ("off", "auto", "on", "on without formulas"):
        settings = {"compile": setting.split()[0], "closed_form": "without" not in setting}
        context = quick("CartPole-v1", "ppo", {**settings, "algorithm.batch_size": 16, "algorithm.n_rollout_steps": 8})
        context.train()
        finals.append(torch.cat([p.detach().flatten() for p in context.policy.parameters()]))
        assert context.run.repeated is None or not context.run.repeated.given_up
    assert "goes on" not in capfd.readouterr().err
    for one in range(3):
        assert not torch.equal(finals[one], finals[one + 1]), "both took the same way"
        torch.testing.assert_close(finals[one], finals[one + 1], rtol=1e-3, atol=1e-4)


def test_a_rollout_with_fewer_rows_than_a_minibatch_is_compiled(interpreted, quick, capfd):
    settings = {"algorithm.num_envs": 3, "algorithm.n_rollout_steps": 9, "algorithm.batch_size": 256}
    context = quick("CartPole-v1", "ppo", {**settings, "compile": "on"})
    context.train()
    assert context.run.state.largest_batch == 27
    assert capfd.readouterr().err == "note: the updates of ppo are compiled from step 1 on\n"
    assert not context.run.repeated.given_up


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


class Noisy(Plugin):
    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        return (yield).plus("nothing", batch.obs["observation"].sum() * 0)


def test_it_says_why_a_run_is_not_compiled(interpreted, quick, capfd):
    assert not quick("Pendulum-v1", "sac", {**SMALL, "compile": "on"}, callbacks={"noisy": Noisy}).run.repeated
    assert "sac are not compiled: a plugin takes part in the loss; the run goes on" in capfd.readouterr().err
    assert not quick(SeededWalk, "impala", {"compile": "on"}).run.repeated
    assert "impala are not compiled: the algorithm does not say" in capfd.readouterr().err
    for algorithm in ("ppo", "sac"):
        assert not quick("Pendulum-v1", algorithm, {"compile": "on", "model.memory": "gru"}).run.repeated
        assert f"{algorithm} are not compiled: the policy has a memory" in capfd.readouterr().err
    assert not quick(SeededWalk, "impala", {"compile": "auto"}).run.repeated
    assert capfd.readouterr().err == ""


class Reading:
    """What a loss may not do, as a change of an algorithm's loss."""

    def value(self, batch, total):
        return total * total.detach().item()

    def drawn(self, batch, total):
        return total + torch.bernoulli(batch.extra["discount"].clamp(0, 1)).sum() * 0

    def outside(self, batch, total):
        """Numpy: the operations of torch do not show it."""
        return total * torch.from_numpy(1 + np.abs(batch.extra["reward"].numpy())).mean()

    def kept(self, batch, total):
        self.last = total.detach()
        return total


def sac_with(what):
    """SAC whose loss is changed by a method of `Reading`."""
    from maze_sac.sac import SAC

    class Own(SAC):
        @hookimpl
        def compute_loss(self, policy, batch):
            loss = super().compute_loss(policy, batch)
            return type(loss)(getattr(Reading, what)(self, batch, loss.total), loss.metrics)

        def loss_constants(self):
            return ()

    return Own


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("value", "reads the value of a tensor|depends on the values of a tensor"),
        ("drawn", "draws random numbers that depend on a tensor"),
        ("outside", "the compiled ones give other results"),
        ("kept", "compute_loss sets 'last' of the algorithm; what it keeps belongs in `row_results`"),
    ],
)
def test_what_depends_on_more_than_tensors_is_not_compiled(interpreted, also_installed, quick, what, reason, capfd):
    runs = []
    also_installed("algorithm", "sac", sac_with(what))
    for setting in ("on", "off"):
        context = quick("Pendulum-v1", "sac", {**SMALL, "compile": setting})
        context.train()
        runs.append(context)
    pattern = f"note: the updates of sac are not compiled( from step 2 on)?: .*({reason}).*; the run goes on"
    assert re.search(pattern, capfd.readouterr().err)
    exact = 1e-6 if what == "outside" else 0  # there the first step is compiled, and right
    for mine, theirs in zip(*(context.policy.parameters() for context in runs), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=exact, atol=exact)


@pytest.mark.parametrize("asked", [True, False])
def test_who_asked_for_nothing_is_not_told_what_cannot_be_compiled(
    interpreted, also_installed, quick, monkeypatch, asked, capfd
):
    also_installed("algorithm", "sac", sac_with("value"))
    auto(monkeypatch, 1)
    context = quick("Pendulum-v1", "sac", {**SMALL, "compile": "on" if asked else "auto"})
    context.train()
    assert context.run.repeated.given_up
    assert ("the run goes on" in capfd.readouterr().err) == asked


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("result", "the metric 'policy'"),
        ("gradient", "the gradient of policy.value_head"),
        ("step of the optimizer", "the optimizer's step of policy.value_head"),
    ],
)
def test_one_wrong_number_of_a_compiler_is_noticed(interpreted, started, monkeypatch, what, named, capfd):
    class Wrong(compiled.Compilation):
        def result(self, interrupted):
            right = super().result(interrupted)
            return lambda inputs: [each * (1 + 0.05 * (place == 2)) for place, each in enumerate(right(inputs))]

    def clipped(found, limit):
        norm, gradient = right(found, limit)
        return norm, torch.cat((gradient[:-50], gradient[-50:] * 1.5))

    def step(self, gradient, takes):
        taken(self, torch.cat((gradient[:-50], gradient[-50:] * 0)), takes)

    right, taken = compiled._clipped, TracedAdam.step
    patched = {
        "result": (compiled, "Compilation", Wrong),
        "gradient": (compiled, "_clipped", clipped),
        "step of the optimizer": (TracedAdam, "step", step),
    }
    monkeypatch.setattr(*patched[what])
    context = started("ppo")
    context.train()
    pattern = (
        f"ppo are not compiled( from step 2 on)?: the compiled ones give other results for {named}.*; the run goes on"
    )
    assert re.search(pattern, capfd.readouterr().err)
    assert context.run.repeated.given_up


@pytest.mark.parametrize("name", ["td3", "ppo"])
def test_compiled_steps_follow_what_a_plugin_sets(interpreted, started, name):
    """Settings of the optimizer, which are no part of the loss; and they leave gradients, as those of the code do."""
    plain, ours = started(name, "off"), started(name)
    for context in (plain, ours):
        context.train(1)
        for group in context.run.learner.optimizer.param_groups:
            group.update(betas=(0.3, 0.6), eps=1e-3)
        context.train(1)
    assert not ours.run.repeated.given_up
    for mine, theirs in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
    gradients = [[p.grad for p in context.run.learner.parameters] for context in (plain, ours)]
    assert any(each is not None for each in gradients[0])
    for mine, theirs in zip(*gradients, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-4)


def test_few_kinds_are_compiled(interpreted, started, monkeypatch, capfd):
    monkeypatch.setattr(
        building,
        "repeated_steps",
        lambda run: RepeatedSteps(run, compiled.CompileRecorder(run, at_once=True, kinds=1)),
    )
    context = started("td3")
    context.train()
    assert "td3 are not compiled from step 3 on: its steps have more than 1 kinds" in capfd.readouterr().err
    assert context.run.repeated.given_up


@pytest.mark.parametrize("name", ["sac", "ppo"])
def test_a_loss_that_is_not_finite_ends_the_run(interpreted, started, name):
    context = started(name)
    context.train(1)
    run, learner = context.run, context.run.learner
    with torch.no_grad():
        (run.algorithm.critics.bias_0 if name == "sac" else run.policy.value_head.bias).view(-1)[0] = float("nan")
    before = [each.detach().clone() for each in (*learner.parameters, *learner.optimizer.tensors())]
    steps = learner.steps
    with pytest.raises(RunError, match="the loss or a gradient is not finite in step"):
        context.train(1)
    after = (*learner.parameters, *learner.optimizer.tensors())
    assert learner.steps == steps
    for mine, old in zip(after, before, strict=True):
        torch.testing.assert_close(mine, old, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("slope", ["nan", "infinite"])
@pytest.mark.parametrize("setting", ["on", "off"])
def test_an_error_names_the_only_gradient_that_is_not_finite(interpreted, also_installed, quick, setting, slope):
    """With clipping, too, which mixes all of them."""
    from maze_a2c.a2c import A2C

    class Own(A2C):
        @hookimpl
        def compute_loss(self, policy, batch):
            loss, bias = super().compute_loss(policy, batch), policy.value_head.bias
            still = bias - bias.detach()
            return type(loss)(loss.total + (still.square() if slope == "nan" else still).sum().sqrt(), loss.metrics)

        def loss_constants(self):
            return ()

    also_installed("algorithm", "a2c", Own)
    settings = {"compile": setting, "closed_form": False, "algorithm.max_grad_norm": 0.5}
    with pytest.raises(RunError) as caught:
        quick("CartPole-v1", "a2c", settings).train()
    assert str(caught.value).splitlines()[0].endswith("in step 1: loss/grad_norm, gradient of policy.value_head.bias")


@pytest.mark.parametrize("setting", ["on", "auto", "off"])
def test_without_the_distribution_only_a_run_that_asks_for_it_is_refused(started, monkeypatch, setting):
    others = tuple(each for each in discovery.declared() if each.distribution != "maze-compile")
    monkeypatch.setattr(discovery, "declared", lambda: others)
    context = started("ppo", setting)
    if setting != "on":
        assert context.run.repeated is None
        return
    with pytest.raises(ConfigError) as refusal:
        _ = context.run
    assert str(refusal.value).splitlines() == [
        "compile: compiled steps need maze-compile, which is not installed",
        f'Next: {how_to_install("maze-compile")}, or overrides={{"compile": "off"}}',
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_ends_while_it_compiles_leaves_nothing(tmp_path, number):
    """Killed, and with Ctrl-C: no process and no folder."""
    compiler, mark, folder = tmp_path / "compiler", tmp_path / "mark", tmp_path / "t"
    compiler.write_text(f"#!/bin/sh\necho $$ > {mark}.new; mv {mark}.new {mark}\nsleep 600\n")
    compiler.chmod(0o755)
    folder.mkdir()
    values = {
        "algorithm.n_rollout_steps": 8,
        "model.hidden": [4],
        "compile": "on",
    }  # a small step: the wait is the point
    sets = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    words = ["train", "pg", "--env", "CartPole-v1", "--preset", "none", "--run-dir", tmp_path / "run", *sets]
    process = Forked(words, tmp_path, {**os.environ, "CXX": str(compiler), "TMPDIR": str(folder)}, late=LATE)
    wait_for(mark.exists, 60)
    pid = int(mark.read_text())
    assert [each.name for each in folder.iterdir() if each.name.startswith("maze-compile-")]
    os.kill(process.pid, number)
    process.wait(30)
    wait_for(lambda: not alive(pid) and not [*folder.glob("maze-compile-*"), *folder.glob("torchinductor*")], 20)


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
