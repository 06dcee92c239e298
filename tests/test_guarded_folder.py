"""Folders that do not outlive their process."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from maze_core.base.files import GuardedFolder

OWNER = """
import os, signal, sys
from pathlib import Path
from maze_core.base.files import GuardedFolder
folder = GuardedFolder("it-", Path(sys.argv[1]), patience=0.1)
(folder.path / "file").write_text("x")
print(folder.path, flush=True)
if sys.argv[2] == "close":
    folder.close()
elif sys.argv[2] != "end":
    os.kill(os.getpid(), int(sys.argv[2]))
"""


def test_it_is_removed_when_it_is_closed(tmp_path):
    folder = GuardedFolder("it-", tmp_path)
    (folder.path / "inner").mkdir()
    assert folder.path.parent == tmp_path
    folder.close()
    folder.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["close", "end", int(signal.SIGKILL), int(signal.SIGTERM)])
def test_it_is_removed_however_its_process_ends(tmp_path, ending):
    command = [sys.executable, "-c", OWNER, str(tmp_path), str(ending)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path, done.stderr
    deadline = time.monotonic() + 20
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not folder.exists()
