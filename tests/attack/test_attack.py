"""The attack in small: seeded cases of every kind. `benchmarks/attack.py` is the attack in full.

A case that does not hold is tried again, alone, by `python -m tests.attack NAME`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = (
    "kills/ppo+record=6", "kills/sac+record=5", "kills/es=4",
    "damaged/ppo+record=18", "damaged/sac=8", "damaged/es=5", "damaged/recording=18",
    "planted=14", "named=20", "doors=16", "settings=2", "leaves=2", "configured=2", "spaces=4", "shared=6",
)  # fmt: skip
"""What is attacked, and how many cases of each subject: kills and damage; a stranger's run, and wrong input."""
LEAST = 218

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork, /proc and prctl")


@pytest.mark.slow
def test_every_case_holds() -> None:
    assert_all_hold(CASES, LEAST)


@pytest.mark.slow
def test_modules_of_the_current_folder_are_not_imported() -> None:
    """By no process that a run starts: compilers, workers, environments."""
    assert_all_hold(("traps",), 2)


def assert_all_hold(cases: tuple[str, ...], least: int) -> None:
    """In a process of its own, with one thread: it forks for every case."""
    command = [sys.executable, "-m", "tests.attack", "--json", *cases]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) >= least, done.stderr
    failed = [verdict for verdict in verdicts if not verdict["held"]]
    told = [f"{each['case']}: {each['what']}\n    " + "\n    ".join(each["problems"]) for each in failed]
    assert not failed, f"{len(failed)} of {len(verdicts)} cases did not hold:\n" + "\n".join(told)
