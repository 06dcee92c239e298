"""The process that compiles: it may hang, and the current folder is none of its business."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from maze_compile import machine_code

from maze_core.base.saved_state import StateError, check_state, form_of
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.conftest import QUICK
from tests.forked import Forked
from tests.interpreted import interpreted as interpreted

OVERRIDES = {"evaluation.n_episodes": 0}

SMALL = {"compile": "on", "closed_form": False}
_MAZE = "from maze_core.cli.main import main; main()"


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """A compiler that never ends."""
    program = tmp_path / "compiler"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'called'}\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    return program


def test_a_compiler_that_hangs_is_given_up(quick, hanging, monkeypatch, capfd):
    monkeypatch.setattr(machine_code, "_LONG", 0.1)
    monkeypatch.setattr(machine_code, "_LIMIT", 0.6)
    plain, ours = (quick("CartPole-v1", "a2c", {**SMALL, "compile": setting}) for setting in ("off", "on"))
    for context in (plain, ours):
        context.train()
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith(f"note: still waiting for the compiler {str(hanging)!r}; ")
    assert second.startswith(
        f"note: the updates of a2c are not compiled: the compiler {str(hanging)!r} has not ended in"
    )
    for mine, theirs in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_one_interrupt_ends_the_wait(quick, hanging, interpreted, tmp_path, whole_state, assert_same):
    """The update that waits is given up; a resumed run takes it, as one that was never interrupted does.

    What is waited for has imported nothing, which would take most of the time.
    """
    idle = tmp_path / "idle.py"
    idle.write_text(f"import subprocess\nsubprocess.run([{str(hanging)!r}])")
    program = f"from maze_compile import machine_code; machine_code.compiler.__file__ = {str(idle)!r}; {_MAZE}"
    whole, rest = (quick("CartPole-v1", "a2c", SMALL) for _ in range(2))
    whole.train()
    values = {**QUICK, **SMALL, "algorithm.num_envs": 3, "algorithm.lr_schedule": "constant"}
    sets = [part for path, value in values.items() for part in ("--set", f"{path}={json.dumps(value)}")]
    words = ["--env", "CartPole-v1", "--preset", "none", "--seed", "1", "--run-dir", tmp_path / "cut", *sets]
    cut = Forked(["train", "a2c", *words], tmp_path, os.environ, program)
    try:
        wait_for(hanging.with_name("called").exists, 60)
        os.kill(cut.pid, signal.SIGINT)
        assert cut.wait(30) == 128 + signal.SIGINT
    finally:
        cut.kill()
    cut_at = read_checkpoint(tmp_path / "cut" / "checkpoints" / "last").state
    assert (cut_at["epoch"], cut_at["updates_in_epoch"]) == (0, 0)
    rest.resume(tmp_path / "cut")
    assert_same(whole_state(tmp_path / "cut"), whole_state(whole.run_dir))


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_modules_of_the_current_folder_are_not_imported(quick, tmp_path, monkeypatch, capfd):
    """By what the compiler starts, too: torch's begins Pythons that try what a processor can do."""
    program, here, mark = tmp_path / "compiler.py", tmp_path / "here", tmp_path / "mark"
    here.mkdir()
    for name in ("ctypes", "json", "torch", "sysconfig"):
        (here / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n")
    lines = [
        "import os, subprocess, sys",
        f"place = {str(tmp_path / 'place')!r}",
        "open(place, 'w').write(os.getcwd())",
    ]
    lines += [
        "for code in ('import ctypes, json', 'import sysconfig'):",
        "    subprocess.run([sys.executable, '-c', code])",
    ]
    program.write_text("\n".join([*lines, "raise ValueError('enough')"]))
    monkeypatch.setattr(machine_code.compiler, "__file__", str(program))
    monkeypatch.chdir(here)
    quick("CartPole-v1", "a2c", SMALL).train()
    assert "the compiler failed: ValueError: enough" in capfd.readouterr().err
    assert Path((tmp_path / "place").read_text()).name.startswith("maze-compile-")
    assert not mark.exists()


@pytest.mark.parametrize(
    "value",
    [None, [], 3, {"x": 1}, {"x": {"from": [1]}}, {"x": {"from": [-1], "whole": [1, 2, 3], "filled": [0, 0, 0]}}],
)
def test_a_changed_checkpoint_is_refused(quick, value):
    state = quick("CartPole-v1", "a2c").run.state
    with pytest.raises(StateError, match="compiled_kinds"):
        check_state({**state.saved(), "compiled_kinds": value}, form_of(state.saved))
