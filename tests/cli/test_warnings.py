"""Warnings of Maze are lines that a user reads; those of other code keep Python's form."""

import subprocess
import sys
import warnings

import pytest

from maze_core.base.terminal_text import warn_plainly


@pytest.fixture
def show(monkeypatch):
    """The way in which the command line shows a warning."""

    def usual(message, category, filename, lineno, file=None, line=None):
        print(warnings.formatwarning(message, category, filename, lineno, line), file=sys.stderr)

    monkeypatch.setattr(warnings, "showwarning", usual)
    warn_plainly()
    return warnings.showwarning


@pytest.mark.parametrize("place", ["/x/maze_core/envs/serial.py", "/x/plugins/maze_wrappers/maze_wrappers/images.py"])
def test_a_warning_of_maze_is_one_line(show, capsys, place):
    show(RuntimeWarning("two spaces\x1b[31m"), RuntimeWarning, place, 3)
    assert capsys.readouterr().err == "warning: two spaces\\x1b[31m\n"


def test_a_warning_of_other_code_names_its_place(show, capsys):
    show(RuntimeWarning("\x1b[33mWARN: odd\x1b[0m\x1b[2J"), RuntimeWarning, "/x/my_env.py", 3)
    assert capsys.readouterr().err == "/x/my_env.py:3: RuntimeWarning: WARN: odd\\x1b[2J\n"


def test_a_worker_warns_in_the_same_way():
    code = (
        "import warnings; from maze_local.processes import begin_worker; begin_worker();"
        "warnings.warn('\\x1b[33mWARN: yellow\\x1b[0m', stacklevel=1)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert said.stderr.endswith("UserWarning: WARN: yellow\n"), said.stderr
