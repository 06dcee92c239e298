"""Nine seconds of the benchmark that kills workers and drivers at random, and looks at what is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "kills.py"


@pytest.mark.slow
def test_a_run_survives_and_leaves_nothing():
    words = ["--only", "local", "--minutes", "0.15", "--every", "3", "--seed", "2", "--no-page"]
    done = subprocess.run(
        [sys.executable, PROGRAM, *words], cwd=PROGRAM.parent, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
