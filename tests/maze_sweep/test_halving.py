"""Successive halving: who goes on, how far, and that nothing of it depends on which trial ends first."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random

import pytest
from maze_sweep.plan import make_plan
from maze_sweep.searchers.asha import Job, completions, last_one, promoted
from maze_sweep.searchers.base import Wait
from maze_sweep.searchers.hyperband import brackets, groups
from maze_sweep.sweep import Sweep

from maze_core.base.errors import ConfigError
from tests.maze_sweep.fake_pool import FakePool

RAW = {"algorithm": "ppo", "env": "CartPole-v1", "over": {"algorithm.lr": "0.1..4"}, "overrides": {"steps": 2700}}
ASHA = {**RAW, "searcher": {"name": "asha", "rungs": 3, "workers": 3}, "trials": 12}
HYPERBAND = {**RAW, "searcher": {"name": "hyperband", "rungs": 3}}


@pytest.fixture(autouse=True)
def quick(known_plugins):
    """Plugins are looked up once."""


class Disordered(FakePool):
    """Ends jobs in an order of chance, as machines of all speeds do."""

    def __init__(self, size, seed, **kwargs):
        super().__init__(size, **kwargs)
        self.chance, self.budgets = Random(seed), {}

    def start(self, job):
        self.budgets[job.name] = job.config["callbacks"]["budget"]["steps"]
        super().start(job)

    def ended(self, timeout):
        names = list(self.running)
        self.chance.shuffle(names)
        self.running = {name: self.running[name] for name in names}
        return super().ended(timeout)


def carried_out(folder, raw, pool, watch=lambda sweep, end: None):
    made = Sweep(make_plan(raw), folder)
    made.check()
    made.begin()
    made.carry_out(pool, watch)
    made.close()
    return made


def saved(folder):
    return json.loads((folder / "trials.json").read_text())["trials"]


@pytest.mark.parametrize("raw", [ASHA, HYPERBAND], ids=["asha", "hyperband"])
def test_trials_do_not_depend_on_what_ends_first_nor_on_interruptions(tmp_path, raw):
    carried_out(tmp_path / "a", raw, Disordered(3, 0))
    for number, size in enumerate((1, 16)):
        carried_out(tmp_path / f"{size}", raw, Disordered(size, number))
        assert saved(tmp_path / f"{size}") == saved(tmp_path / "a")
    for number in range(4):  # it goes on until a few more have ended, again and again
        left = [3 + 2 * number]

        def stop(sweep, end, left=left):
            left[0] -= end is not None
            if left[0] <= 0:
                sweep.interrupt("Ctrl-C")

        carried_out(tmp_path / "often", raw, Disordered(3, number), stop)
    carried_out(tmp_path / "often", raw, Disordered(2, 9))
    assert saved(tmp_path / "often") == saved(tmp_path / "a")


def test_the_best_of_each_rung_go_on_with_their_own_settings(tmp_path):
    pool = Disordered(4, 0)
    made = carried_out(tmp_path / "s", ASHA, pool)
    rungs = [[trial for trial in made.trials if trial.until == until] for until in (300, 900, 2700)]
    assert sum(map(len, rungs)) == len(made.trials)
    assert len(rungs[0]) == 12
    assert 4 <= len(rungs[1]) <= 7  # some were promoted early
    assert 1 <= len(rungs[2]) <= 3
    assert pool.budgets == {run.name: trial.until for trial in made.trials for run in trial.runs}
    for below, rung in pairwise(rungs):
        assert len({trial.parent for trial in rung}) == len(rung)
        for trial in rung:
            assert made.trials[trial.parent] in below
            assert trial.point == made.trials[trial.parent].point
        best = sorted(below, key=lambda trial: -trial.point["algorithm.lr"])[: len(below) // 3]  # the return is 10 lr
        assert {each.number for each in best} <= {trial.parent for trial in rung}


def test_hyperband_compares_whole_groups(tmp_path):
    made = carried_out(tmp_path / "s", HYPERBAND, Disordered(4, 0))
    for group in groups(3, 3):
        members = made.trials[group.first : group.first + group.size]
        assert {trial.until for trial in members} == {2700 / 3 ** (2 - group.rung)}
        before = next((g for g in groups(3, 3) if (g.bracket, g.rung) == (group.bracket, group.rung - 1)), None)
        if before is not None:
            rung = made.trials[before.first : before.first + before.size]
            rung.sort(key=lambda trial: -trial.point["algorithm.lr"])
            assert [made.trials[trial.parent] for trial in members] == rung[: group.size]


def test_the_brackets_are_those_of_the_paper():
    """Of R = 81 and a reduction of 3: https://jmlr.org/papers/v18/16-558.html, table 1."""
    assert brackets(5, 3) == [[81, 27, 9, 3, 1], [34, 11, 3, 1], [15, 5, 1], [8, 2], [5]]
    assert sum(group.size for group in groups(5, 3)) == sum(map(sum, brackets(5, 3)))


def test_the_order_of_ends_is_that_of_a_simulation():
    chance = Random(1)
    for _ in range(50):
        costs = [chance.choice([1, 2, 3, 9]) for _ in range(chance.randint(1, 25))]
        workers = chance.randint(1, 6)
        left, free, queue, ended = {}, workers, list(enumerate(costs)), []
        while queue or left:  # a clock that ticks; of two that end in one tick, each lets the next begin in turn
            while queue and free:
                left.update([queue.pop(0)])
                free -= 1
            step = min(left.values())
            left = {number: cost - step for number, cost in left.items()}
            first = min(number for number, cost in left.items() if cost == 0)
            del left[first]
            ended.append(first)
            free += 1
        assert completions(costs, workers) == ended, (costs, workers)


def test_what_is_promoted():
    jobs = [Job(0)] * 6
    values = {0: 3.0, 1: 1.0}
    assert promoted(jobs, values, 3, 3) is None  # of two known ones a third is none
    assert promoted(jobs, {**values, 2: 2.0}, 3, 3) == Job(1, 0)
    assert promoted([*jobs, Job(1, 0)], {**values, 2: 2.0}, 3, 3) is None
    assert promoted([*jobs, Job(1, 0)], {**values, 2: 2.0, 3: 9.0, 4: 0.0, 5: 0.0}, 3, 3) == Job(1, 3)
    assert promoted(jobs, dict.fromkeys(range(6), float("-inf")), 3, 3) is None
    assert last_one(jobs, dict.fromkeys(range(6), float("-inf")), 3) is None
    assert last_one([*jobs, Job(1, 2)], dict.fromkeys(range(7), 1.0), 3) == Job(2, 6)
    assert last_one([*jobs, Job(1, 2), Job(2, 6)], dict.fromkeys(range(8), 1.0), 3) is None


def test_where_all_fail_the_sweep_ends(tmp_path):
    pool = Disordered(2, 0, outcomes={f"t{number:03}-s0": "failed" for number in range(40)})
    made = carried_out(tmp_path / "s", ASHA, pool)
    assert made.count("failed") == made.total_trials == len(pool.started) == 12


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"overrides": {}, "preset": "none"}, "--steps: asha divides how far runs train, and their end is open"),
        ({"trials": None}, "--trials: the number of points to try is missing"),
        ({"over": {"steps": [100, 200]}, "overrides": {}}, "over.steps: asha divides how far runs train"),
        ({"overrides": {"steps": 2}}, "searcher.rungs: 2 steps are too few for 3 rungs: they would end at 1, 1, 2"),
        ({"searcher": {"name": "asha", "reduction": 1}}, "searcher.reduction: "),
        ({"searcher": "hyperband"}, "--trials: 4 rungs have "),
    ],
)
def test_bad_input_is_one_error_before_the_first_run(tmp_path, changes, said):
    with pytest.raises(ConfigError) as caught:
        carried_out(tmp_path / "s", {**ASHA, **changes}, FakePool())
    assert str(caught.value).startswith(said)
    assert not (tmp_path / "s").exists()


def test_it_asks_again_only_when_a_value_is_told(tmp_path):
    made = Sweep(make_plan(ASHA), tmp_path / "s")
    made.begin()
    assert [isinstance(made.searcher.ask(number), Wait) for number in range(4)] == [False, False, False, True]
    made.close()
