"""The attack in small: seeded cases of every kind. `benchmarks/attack.py` is the attack in full.

`tests/cli/test_planted_files.py` sees that no process imports a module of the current folder (`traps`). A case that
does not hold is tried again, alone, by `python -m tests.attack NAME`.
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
    "kills/ppo+record=5", "kills/sac=4", "kills/es=2",
    "damaged/ppo+record=varied", "damaged/sac=4", "damaged/recording=varied",
    "planted/ppo=varied", "planted/sac=4", "named=12", "doors/sac=varied",
    "settings/ppo/train with workers, files", "settings/ppo/eval, pipes",
    "leaves/ppo=2", "leaves/a2c-memory=2", "leaves/ppo-agents=2", "leaves/dqn-memory=2",
    "configured/ppo=4", "configured/bc=2", "spaces/ppo=4", "spaces/sac=2", "shared=4",
)  # fmt: skip
"""What is attacked, and how many cases of each subject: kills and damage; a stranger's run, and wrong input. `varied`:
as few as meet each kind of file, each damage and each command."""
LEAST = 100

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork, /proc and prctl")


@pytest.mark.slow
def test_every_case_holds() -> None:
    """In a process of its own, with one thread: it forks for every case."""
    command = [sys.executable, "-m", "tests.attack", "--json", *CASES]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) > LEAST, done.stderr
    failed = [verdict for verdict in verdicts if not verdict["held"]]
    told = [f"{each['case']}: {each['what']}\n    " + "\n    ".join(each["problems"]) for each in failed]
    assert not failed, f"{len(failed)} of {len(verdicts)} cases did not hold:\n" + "\n".join(told)
