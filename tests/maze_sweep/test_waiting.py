"""Searchers that need a value first, block, or seed what is not theirs: as an outsider writes them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from maze_sweep import guard
from maze_sweep.guard import GuardedSearcher
from maze_sweep.plan import make_plan
from maze_sweep.searchers.base import Search, Searcher, Wait
from maze_sweep.sweep import Sweep

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


class OneByOne(Searcher):
    """Like NGOpt of nevergrad: a point is asked for only when all before it have a value."""

    def setup(self, search: Search) -> int:
        self.best, self.told, self.asked = 1.0, {}, []
        return search.trials or 3

    def ask(self, number: int):
        self.asked.append(number)
        if len(self.told) < number:
            return Wait()
        return {"algorithm.lr": min(4.0, 0.5 + max(self.told.values(), default=0.0) / 10)}

    def tell(self, number: int, point, value) -> None:
        self.told[number] = value or 0.0


def sweep(folder, searcher, **changes):
    load = discovery.overlay({("searcher", "random"): type("Mine", (searcher,), {})})
    made = Sweep(make_plan({**RAW, **changes}, load), folder, load)
    made.check()
    made.begin()
    return made


@pytest.fixture(autouse=True)
def quick(known_plugins):
    """Plugins are looked up once."""


def test_a_searcher_may_wait_for_a_value(tmp_path):
    made, pool = sweep(tmp_path / "s", OneByOne), FakePool(size=3)
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
    made = sweep(tmp_path / "s", OneByOne)
    made.carry_out(FakePool(size=3), lambda sweep, end: sweep.trials[1:] and sweep.interrupt("Ctrl-C"))
    made.close()
    before = [trial.point for trial in made.trials]
    again = sweep(tmp_path / "s", OneByOne)
    again.carry_out(FakePool(size=3), lambda sweep, end: None)
    again.close()
    assert [trial.point for trial in again.trials][: len(before)] == before
    assert len(again.trials) == 5


def test_one_that_waits_for_nothing_is_named(tmp_path):
    class Forever(OneByOne):
        def ask(self, number):
            return Wait() if number == 2 else super().ask(number)

    made = sweep(tmp_path / "s", Forever)
    with pytest.raises(ConfigError, match="the searcher random waits for a value, and no trial is under way"):
        made.carry_out(FakePool(), lambda sweep, end: None)
    made.close()


@pytest.mark.parametrize(
    ("answer", "foresees", "said"),
    [
        (Wait(), True, "foresees all points, but waits at trial 0"),
        (None, False, "returned NoneType for trial 0, not a point"),
    ],
)
def test_a_wrong_answer_is_named(tmp_path, answer, foresees, said):
    class Wrong(OneByOne):
        def ask(self, number):
            return answer

    Wrong.foresees = foresees
    with pytest.raises(ConfigError, match=said):
        sweep(tmp_path / "s", Wrong).carry_out(FakePool(), lambda sweep, end: None)


class Seeding(OneByOne):
    def ask(self, number):
        random.seed(number)
        np.random.seed(number)
        return {"algorithm.lr": random.random()}


def test_one_that_seeds_the_global_random_state_is_named_and_does_no_harm(tmp_path):
    told = []
    searcher = GuardedSearcher(Seeding({}), "seeding", told.append)
    random.seed(7)
    np.random.seed(7)
    expected = random.random(), np.random.random()
    random.seed(7)
    np.random.seed(7)
    assert [searcher.ask(number)["algorithm.lr"] for number in (1, 2)] == [random.Random(n).random() for n in (1, 2)]
    assert (random.random(), np.random.random()) == expected
    assert len(told) == 1
    assert "the searcher seeding uses the global random numbers of Python and numpy" in told[0]


def test_one_that_blocks_is_named_and_is_given_up_at_a_signal(tmp_path, monkeypatch, capsys):
    class Blocks(OneByOne):
        def ask(self, number):
            if number == 1:
                time.sleep(60)
            return super().ask(number)

    monkeypatch.setattr(guard, "PATIENCE", 0.2)
    made = sweep(tmp_path / "s", Blocks)
    signal.signal(signal.SIGTERM, lambda number, frame: made.interrupt("SIGTERM"))
    threading.Timer(0.6, os.kill, [os.getpid(), signal.SIGTERM]).start()
    started = time.monotonic()
    made.carry_out(FakePool(size=1), lambda sweep, end: None)
    made.close()
    assert time.monotonic() - started < 5
    assert made.interrupted_by == (
        "SIGTERM, while the searcher random did not answer: it was choosing the point of trial 1"
    )
    assert "the searcher random has been asked for the point of trial 1 0 seconds ago" in capsys.readouterr().err
    assert len(made.trials) == 1


STUCK = '''
    """A searcher that blocks."""

    import time

    from maze_sweep.searchers.base import Searcher


    class Tested(Searcher):
        """Never answers."""

        def setup(self, search):
            print("setting up", flush=True)
            time.sleep(100)
            return 1

        def ask(self, number):
            return {}
'''


@pytest.mark.slow
def test_a_blocked_sweep_ends_at_sigterm(tmp_path):
    site = tmp_path / "site"
    info = site / "stuck-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "stuck.py").write_text(textwrap.dedent(STUCK))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[maze.searchers]\nstuck = stuck:Tested\n")
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
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(site)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "setting up\n"
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 143
    assert "Traceback" not in said
