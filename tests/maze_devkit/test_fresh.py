"""Functions are called in processes that know nothing of this one's modules, and nothing of each other."""

import os
import sys
from contextlib import closing

import pytest
from maze_devkit import fresh
from maze_devkit.fresh import Fresh

SOURCE = """
import os, random, sys, time

CALLS = []


def remember():
    CALLS.append(1)
    return [os.getpid(), len(CALLS), random.random(), os.getcwd(), os.environ["MAZE_TEST_TOLD"]]


def speak():
    print("printed")
    print("said", file=sys.stderr)
    sys.exit(3)


def sleep():
    time.sleep(60)
"""


@pytest.fixture(params=[pytest.param(True, marks=pytest.mark.skipif(not fresh.FORKS, reason="not here")), False])
def processes(request, monkeypatch, tmp_path):
    """New processes, forked and not, that find a module `called_afresh`."""
    (tmp_path / "called_afresh.py").write_text(SOURCE)
    monkeypatch.setattr(fresh, "FORKS", request.param)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MAZE_TEST_TOLD", "yes")
    with closing(Fresh()) as processes:
        yield processes


def test_each_call_is_the_first_one(processes, tmp_path):
    __import__("called_afresh").remember()
    folder = tmp_path / "there"
    folder.mkdir()
    calls = [processes.call(["json"], "called_afresh:remember", folder=folder).result for _ in range(2)]
    assert len({os.getpid(), *(call[0] for call in calls)}) == 3
    assert [call[1] for call in calls] == [1, 1]
    assert calls[0][2] != calls[1][2]
    assert all(call[3:] == [str(folder), "yes"] for call in calls)


def test_what_came_of_a_call_is_told(processes):
    done = processes.call(["json"], "called_afresh:speak")
    assert (done.code, done.printed, done.said, done.result, done.reason) == (3, "printed\n", "said\n", None, "said")
    failed = processes.call(["json"], "called_afresh:no_such_function")
    assert failed.code == 1
    assert failed.reason.startswith("AttributeError")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no alarms")
def test_a_call_that_hangs_is_ended(processes, monkeypatch):
    monkeypatch.setattr(fresh, "SECONDS", 1)
    done = processes.call(["json"], "called_afresh:sleep")
    assert done.code < 0
    assert done.result is None


def test_a_module_that_cannot_be_imported_first_is_no_riddle(processes):
    for _ in range(2):
        if fresh.FORKS:
            with pytest.raises(RuntimeError, match="no_such_module"):
                processes.call(["no_such_module"], "called_afresh:speak")
        else:
            assert processes.call(["no_such_module"], "called_afresh:speak").code == 1
