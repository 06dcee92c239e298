"""One signal ends a program that trains one run after the other, once the run is saved."""

import os
import signal
import subprocess
import sys

import pytest
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import RunError
from maze_core.base.interruption import signal_handlers_kept
from maze_core.plugins.base import Plugin
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run import api

INT, TERM = signal.SIGINT, signal.SIGTERM


def sending(number, hook="on_epoch_end"):
    """A callback that sends a signal to this process in one of its hooks."""

    class Sender(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            if hook == "on_epoch_end":
                os.kill(os.getpid(), number)

        @hookimpl
        def on_run_end(self, run, summary):
            if hook == "on_run_end":
                os.kill(os.getpid(), number)

    return {"sender": Sender}


@pytest.mark.parametrize("number", [INT, TERM])
@pytest.mark.parametrize("hook", ["on_epoch_end", "on_run_end"])
def test_a_loop_over_seeds_ends_with_the_run_that_was_interrupted(quick, number, hook):
    """Also where it comes so late that the run is finished."""
    begun = []

    def loop():
        for seed in range(5):
            begun.append(quick(seed=seed, callbacks=sending(number, hook)))
            begun[-1].train()

    with pytest.raises(KeyboardInterrupt) as caught:
        loop()
    (context,) = begun
    assert getattr(caught.value, "exit_code", 130) == 128 + number
    assert (type(caught.value) is KeyboardInterrupt) == (number == INT)  # Python ends by SIGINT only after that one
    summary = context.run.summary
    assert (summary.outcome, summary.epochs) == (("interrupted", 1) if hook == "on_epoch_end" else ("finished", 2))
    assert (context.run_dir / "checkpoints" / "last" / "manifest.json").exists()


def test_other_doors_pass_a_signal_on_too(quick):
    for number in (INT, TERM):
        context = quick(callbacks=sending(number), epochs=5)
        with pytest.raises(KeyboardInterrupt):
            context.train()
        with pytest.raises(KeyboardInterrupt):
            context.resume(context.run_dir)
        assert context.run.summary.outcome == "interrupted"
        assert context.run.epoch == 2
        with pytest.raises(KeyboardInterrupt):
            api.carry_out(quick(callbacks=sending(number)).run)

    class Sending(SeededWalk):
        def step(self, action):
            os.kill(os.getpid(), INT)
            return super().step(action)

    for episodes in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            quick(Sending).rollout(episodes)


def test_a_run_that_fails_after_a_signal_ends_the_loop_as_well(quick):
    """A program that goes on after failures would else go on after Ctrl-C."""

    class Failing(Plugin):
        @hookimpl(wrapper=True)
        def compute_loss(self, policy, batch):
            os.kill(os.getpid(), INT)
            raise RunError("the loss is lost")
            yield

    with pytest.raises(KeyboardInterrupt) as caught:
        quick(callbacks={"failing": Failing}).train()
    assert "the loss is lost" in str(caught.value.__context__)


def test_a_handler_of_the_program_is_called_once_the_run_is_saved(quick):
    """Then `train` returns, unless the handler raises."""
    seen = []
    with signal_handlers_kept():
        for number in (INT, TERM):
            signal.signal(number, lambda number, frame: seen.append(number))
            assert quick(callbacks=sending(number)).train().outcome == "interrupted"
    assert seen == [INT, TERM]


def test_a_run_within_a_run_ends_both(quick):
    inner = quick(callbacks=sending(INT))

    class Nested(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            assert inner.train().outcome == "interrupted"

    outer = quick(callbacks={"nested": Nested})
    with pytest.raises(KeyboardInterrupt):
        outer.train()
    assert (outer.run.summary.outcome, outer.run.summary.epochs) == ("interrupted", 1)


def test_what_a_program_asks_for_itself_is_no_signal(quick):
    class Asking(Plugin):
        @hookimpl
        def on_epoch_end(self, run, epoch):
            run.interrupt("the program")

    assert quick(callbacks={"asking": Asking}).train().outcome == "interrupted"


LOOP = """
import os, signal
from maze_core import Plugin, RunContext, hookimpl

class Sender(Plugin):
    @hookimpl
    def on_epoch_end(self, run, epoch):
        os.kill(os.getpid(), signal.SIGINT)

for seed in range(3):
    small = {"algorithm.n_rollout_steps": 8, "algorithm.epoch_length": 1, "evaluation.n_episodes": 1}
    with RunContext("CartPole-v1", "ppo", seed=seed, epochs=5, silent=True, preset="none", overrides=small,
                    callbacks={"sender": Sender}, run_dir=f"run{seed}") as context:
        context.train()
"""


@pytest.mark.slow
def test_a_script_ends_as_others_do_after_ctrl_c(tmp_path):
    """A loop of the shell around it ends as well."""
    ended = subprocess.run([sys.executable, "-c", LOOP], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == -INT, ended.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run0"]
