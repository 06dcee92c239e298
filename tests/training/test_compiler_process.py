"""The process that compiles: it may hang, and the current folder is none of its business."""

import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from maze_core.learn.repeated import machine_code
from tests.interpreted import interpreted as interpreted

SMALL = {"compile": "on", "closed_form": False}


@pytest.fixture
def hanging(tmp_path, monkeypatch):
    """A compiler that never ends."""
    program = tmp_path / "compiler"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
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


def test_one_interrupt_ends_the_wait(quick, hanging, interpreted, monkeypatch, whole_state, assert_same):
    """The update that waits is given up; a resumed run takes it, as one that was never interrupted does."""
    whole, cut, rest = (quick("CartPole-v1", "a2c", SMALL) for _ in range(3))
    whole.train()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut.run.repeated._recorder, "_make", machine_code.Compilation)
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        assert cut.train().outcome == "interrupted"
    cut.close()
    rest.resume(cut.run_dir)
    assert_same(whole_state(cut.run_dir), whole_state(whole.run_dir))


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
    context = quick("CartPole-v1", "a2c")
    with pytest.raises(ValueError, match="compiled_kinds"):
        context.run.state.load({**context.run.state.saved(), "compiled_kinds": value})
