"""What Tab completes, as a shell asks for it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "import sys; sys.argv[0] = 'maze'; from maze_core.cli.main import main; main()"]


def asked(typed: str, folder: Path, shell: str = "bash") -> list[str]:
    words = {"COMP_WORDS": f"maze {typed}", "COMP_CWORD": str(len(typed.split(" ")))}
    environment = {**os.environ, "_MAZE_COMPLETE": f"complete_{shell}", **words}
    return subprocess.run(PROGRAM, env=environment, cwd=folder, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("tr", {"train", "trajectories"}),
        ("runs pl", {"plot"}),
        ("train pq", {"pqn"}),
        ("eval --ep", {"--episodes"}),
        pytest.param("train ppo --gam", {"--gamma"}, marks=pytest.mark.slow),
    ],
)
def test_commands_algorithms_and_options_are_completed(typed: str, found: set[str], tmp_path: Path) -> None:
    assert set(asked(typed, tmp_path)) == found


def test_it_is_installed_for_a_shell(tmp_path: Path) -> None:
    program = shlex.join([*PROGRAM, "--install-completion"])  # it installs for the shell that it runs in
    done = subprocess.run(
        ["bash", "-c", f"{program}; exit $?"],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    script = tmp_path / ".bash_completions" / "maze.sh"
    assert str(script) in (tmp_path / ".bashrc").read_text()
    assert "_maze_completion maze" in script.read_text()
