"""Searchers that need a value first, block, or seed what is not theirs: as an outsider writes them."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from maze_sweep import guard
from maze_sweep.guard import GuardedSearcher
from maze_sweep.plan import make_plan
from maze_sweep.searchers.base import Search, Wait
from maze_sweep.searchers.space import Range
from maze_sweep.sweep import Sweep
from maze_sweep.trials import read_trials

from maze_core.base import files
from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from tests.maze_sweep.fake_pool import FakePool

RAW = {
    "algorithm": "ppo",
    "env": "CartPole-v1",
    "over": {"algorithm.lr": "0.1..4"},
    "seeds": 1,
    "searcher": "random",
    "trials": 5,
}
SEARCH = Search({"algorithm.lr": Range(0.1, 4.0)}, 0, 5, True, Path())
SEARCHERS = {
    "one_by_one": "OneByOne", "forever": "Forever", "seeding": "Seeding", "blocks": "Blocks", "stuck": "Stuck",
    "breaks": "Breaks",
}  # fmt: skip


@pytest.fixture(autouse=True)
def package(outsider):
    """The package with the searchers is installed."""
    source = Path(__file__).with_name("outsider.py").read_text(encoding="utf-8")
    return outsider("maze_waiting", source, {"searcher": SEARCHERS})


def sweep(folder, searcher, load=discovery.load):
    made = Sweep(make_plan({**RAW, "searcher": searcher}, load), folder, load)
    made.check()
    made.begin()
    return made


def test_a_searcher_may_wait_for_a_value(tmp_path):
    made, pool = sweep(tmp_path / "s", "one_by_one"), FakePool(size=3)
    made.carry_out(pool, lambda sweep, end: None)
    made.close()
    assert pool.most == 1
    assert pool.started == [f"t{number:03}-s0" for number in range(5)]
    assert sorted(made.searcher.told) == list(range(5))
    assert made.trials[1].point["algorithm.lr"] == 0.5 + made.trials[0].spread(made.plan).mean / 10
    asked = made.searcher.asked
    assert asked == sorted(asked)
    assert max(map(asked.count, asked)) <= 2  # not anew in every tick


def test_it_goes_on_where_it_was_interrupted(tmp_path):
    made = sweep(tmp_path / "s", "one_by_one")
    made.carry_out(FakePool(size=3), lambda sweep, end: sweep.trials[1:] and sweep.interrupt("Ctrl-C"))
    made.close()
    before = [trial.point for trial in made.trials]
    again = sweep(tmp_path / "s", "one_by_one")
    again.carry_out(FakePool(size=3), lambda sweep, end: None)
    again.close()
    assert [trial.point for trial in again.trials][: len(before)] == before
    assert len(again.trials) == 5


def test_one_that_waits_for_nothing_is_named(tmp_path):
    made = sweep(tmp_path / "s", "forever")
    with pytest.raises(ConfigError, match="the searcher forever waits for a value, and no trial is under way"):
        made.carry_out(FakePool(), lambda sweep, end: None)
    made.close()


@pytest.mark.parametrize(
    ("answer", "foresees", "said"),
    [
        (Wait(), True, "foresees all points, but waits at trial 0"),
        (None, False, "returned NoneType for trial 0, not a point"),
        ({}, False, r"returned in trial 0 values for \[\], but the search is over algorithm.lr"),
        ({3: 0.5}, False, r"returned in trial 0 values for \[3\]"),
        ({"algorithm.lr": np.float32(0.5)}, False, "a float32, for algorithm.lr in trial 0; values are Python's"),
    ],
)
def test_a_wrong_answer_is_named(package, tmp_path, answer, foresees, said):
    class Wrong(package.OneByOne):
        def ask(self, number):
            return answer

    Wrong.foresees = foresees
    load = discovery.overlay({("searcher", "one_by_one"): Wrong})
    with pytest.raises(ConfigError, match=said):
        sweep(tmp_path / "s", "one_by_one", load).carry_out(FakePool(), lambda sweep, end: None)


def test_wrong_counts_and_judgements_are_named(package):
    searcher = package.OneByOne(None)
    guarded = GuardedSearcher(searcher, "mine")
    for count in (None, 0, -1, True, 2.0, "2", 10**12):
        searcher.setup = lambda search, count=count: count
        with pytest.raises(ConfigError, match=r"the searcher mine returned .* as the number of trials"):
            guarded.setup(SEARCH)
    searcher.setup = lambda search: np.int64(2)
    assert guarded.setup(SEARCH) == 2
    for answer in (None, "no", 1):
        searcher.prune = lambda number, epoch, value, answer=answer: answer
        with pytest.raises(ConfigError, match="for whether trial 0 ends early, neither True nor False"):
            guarded.prune(0, 1, 0.5)
    searcher.prune = lambda number, epoch, value: np.False_
    assert guarded.prune(0, 1, 0.5) is False


def test_one_that_seeds_the_global_random_state_is_named_and_does_no_harm(package):
    told = []
    searcher = GuardedSearcher(package.Seeding({}), "seeding", told.append)
    random.seed(7)
    np.random.seed(7)
    searcher.setup(SEARCH)
    expected = random.random(), np.random.random()
    random.seed(7)
    np.random.seed(7)
    assert [searcher.ask(number)["algorithm.lr"] for number in (1, 2)] == [random.Random(n).random() for n in (1, 2)]
    assert (random.random(), np.random.random()) == expected
    assert len(told) == 1
    assert "the searcher seeding uses the global random numbers of Python and numpy" in told[0]


def test_one_that_blocks_is_named_and_is_given_up_at_a_signal(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(guard, "PATIENCE", 0.2)
    made = sweep(tmp_path / "s", "blocks")
    signal.signal(signal.SIGTERM, lambda number, frame: made.interrupt("SIGTERM"))
    threading.Timer(0.6, os.kill, [os.getpid(), signal.SIGTERM]).start()
    started = time.monotonic()
    made.carry_out(FakePool(size=1), lambda sweep, end: None)
    made.close()
    assert time.monotonic() - started < 5
    assert made.interrupted_by == (
        "SIGTERM, while the searcher blocks did not answer: it was choosing the point of trial 1"
    )
    assert "the searcher blocks has been asked for the point of trial 1 0 seconds ago" in capsys.readouterr().err
    assert len(made.trials) == 1


@pytest.mark.slow
def test_a_blocked_sweep_ends_at_sigterm(tmp_path):
    command = [str(Path(sys.executable).with_name("maze")), "sweep", "ppo", "--env", "CartPole-v1"]
    command += [
        "--over",
        "algorithm.lr=1e-4..1e-2",
        "--searcher",
        "stuck",
        "--trials",
        "2",
        "--dir",
        str(tmp_path / "s"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "setting up\n"
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 143
    assert "Traceback" not in said


@pytest.mark.parametrize("at", ["point", "value", "judgement"])
def test_running_runs_save_themselves_where_a_searcher_breaks(tmp_path, at):
    made, pool = sweep(tmp_path / "s", "breaks"), FakePool(size=3)
    made.searcher.at = at
    with pytest.raises(ArithmeticError, match=f"no {at}"):
        made.carry_out(pool, lambda sweep, end: None)
    made.close()
    assert not pool.running
    assert pool.interrupted
    assert {each.state for each in made.runs if each.name in pool.interrupted} == {"interrupted"}
    again, rest = sweep(tmp_path / "s", "breaks"), FakePool(size=3)
    again.searcher.at = ""
    again.carry_out(rest, lambda sweep, end: None)
    again.close()
    assert set(pool.interrupted) <= set(rest.started)
    assert again.count("finished") == 5


def test_running_runs_save_themselves_where_the_disk_is_full(tmp_path, monkeypatch):
    made, pool = sweep(tmp_path / "s", "one_by_one"), FakePool(size=3)
    made.searcher.ask = lambda number: {"algorithm.lr": 0.5 + number / 2}
    write = files.write_bytes

    def full(path, *rest):
        if len(made.trials) == 3:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, *rest)

    monkeypatch.setattr(files, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        made.carry_out(pool, lambda sweep, end: None)
    made.close()
    assert pool.interrupted == ["t000-s0", "t001-s0"]
    monkeypatch.undo()
    assert len(read_trials(tmp_path / "s", made.plan)) == 2


@pytest.mark.parametrize("who", ["start", "watch"])
def test_running_runs_save_themselves_where_others_break(tmp_path, who):
    made, pool = sweep(tmp_path / "s", "one_by_one"), FakePool(size=3)
    made.searcher.ask = lambda number: {"algorithm.lr": 0.5 + number / 2}
    start, seen = pool.start, []

    def starting(job):
        if who == "start" and job.name == "t002-s0":
            raise BlockingIOError("too many processes")
        start(job)

    def watch(sweep, end):
        seen.append(end)
        if who == "watch":
            raise BlockingIOError("nobody sees it")

    pool.start = starting
    with pytest.raises(BlockingIOError):
        made.carry_out(pool, watch)
    made.close()
    assert not pool.running
    assert len(pool.interrupted) == 2
    assert not made.count("running")
