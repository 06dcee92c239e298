"""Trials with failed seeds do not win, metrics that no run records are refused early, and a sweep is ranked anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from maze_sweep import local_pool
from maze_sweep.api import read_sweep
from maze_sweep.metric import MetricWatch, near
from maze_sweep.plan import make_plan
from maze_sweep.ranking import facts, ranked, table
from maze_sweep.searchers.base import Searcher
from maze_sweep.searchers.space import parse_space
from maze_sweep.sweep import Sweep
from maze_sweep.trials import SweepRun
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins import discovery
from tests.maze_sweep.fake_pool import FakePool

RAW = {"algorithm": "ppo", "env": "CartPole-v1", "over": {"algorithm.lr": [1.0, 2.0, 3.0]}, "seeds": 3}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch, known_plugins):
    monkeypatch.chdir(tmp_path)


def run(pool, folder="s", load=discovery.load, **changes):
    made = Sweep(make_plan({**RAW, **changes}, load), Path(folder), load)
    made.check()
    try:
        made.begin()
        made.carry_out(pool, lambda sweep, end: None)
    finally:
        made.close()
    return made


class Reporting(FakePool):
    """Its runs record what `lines` says, a list of epochs for each run; by default as other runs."""

    def __init__(self, lines: dict[str, list[dict[str, Any]]], **others: Any) -> None:
        super().__init__(**others)
        self.lines = lines

    def start(self, job):
        super().start(job)
        self._report(job, 1)

    def ended(self, timeout):
        jobs = dict(self.running)
        ends = super().ended(timeout)
        for end in ends:
            self._report(jobs[end.name], None if end.outcome == "finished" else 1)
        return ends

    def _report(self, job, count):
        found = self.lines.get(job.name, self.lines.get("all"))
        if found is not None:
            lines = [{"epoch": number, **line} for number, line in enumerate(found, 1)][:count]
            Path(job.run_dir, "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def returns(value):
    return [{"eval/return_mean": value}]


@pytest.mark.parametrize(
    ("lines", "outcomes", "rows"),
    [
        (  # one lucky seed of three
            {"t000-s0": returns(1000), "t002-s0": returns(2000)},
            {"t000-s1": "failed", "t000-s2": "killed", "t002-s1": "failed"},
            [["1", "t001", "2", "21 ± 1", "3/3"],
             ["-", "t002", "3", "1,016 ± 1,392 (2 of 3 seeds)", "2/3 failed"],
             ["-", "t000", "1", "1,000 (1 of 3 seeds)", "1/3 failed killed"]],
        ),
        (  # a seed without a number, and with none at all
            {"t000-s0": returns(None), "t001-s1": [{"loss/policy": 1.0}], "t002-s1": [{"eval/return_mean": 1e308}]},
            {},
            [["-", "t002", "3", "31 ± 1.41 (2 of 3 seeds)", "3/3"],
             ["-", "t001", "2", "21 ± 1.41 (2 of 3 seeds)", "3/3"],
             ["-", "t000", "1", "11.5 ± 0.707 (2 of 3 seeds)", "3/3"]],
        ),
        (  # an epoch without a number is left out
            {"t000-s0": [*returns(None), *returns(40)], "t000-s1": returns(40), "t000-s2": returns(40)},
            {f"t001-s{seed}": "failed" for seed in range(3)},
            [["1", "t000", "1", "40 ± 0", "3/3"],
             ["2", "t002", "3", "31 ± 1", "3/3"],
             ["-", "t001", "2", "-", "0/3 failed"]],
        ),
    ],
)  # fmt: skip
def test_only_trials_with_all_their_seeds_have_a_rank(lines, outcomes, rows):
    made = run(Reporting(lines, outcomes=outcomes))
    assert table(made, ranked(made))[1] == rows
    found = {each["trial"]: each for each in facts(made)["trials"]}
    assert [found[int(row[1][1:])]["complete"] for row in rows] == [row[0] != "-" for row in rows]
    assert all(found[int(row[1][1:])]["seeds"] == 3 for row in rows if row[0] != "-")


def test_the_least_of_few_seeds_does_not_win_either():
    made = run(Reporting({"t000-s0": returns(-1000)}, outcomes={"t000-s1": "failed"}), minimize=True)
    assert [each.number for each in ranked(made)] == [1, 2, 0]


class Learning(Searcher):
    """Notes what it is told."""

    def setup(self, search):
        self.heard = {}
        return 3

    def ask(self, number):
        return {"algorithm.lr": [1.0, 2.0, 3.0][number]}

    def tell(self, number, point, value):
        self.heard[number] = value

    def prune(self, number, epoch, value):
        return False


@pytest.fixture
def learning():
    return discovery.overlay({("searcher", "grid"): type("Mine", (Learning,), {})})


def test_a_searcher_learns_from_complete_trials_only(learning):
    pool = Reporting({"t001-s2": returns(None)}, outcomes={"t000-s1": "failed"})
    assert run(pool, load=learning).searcher.heard == {0: None, 1: None, 2: 31.0}


EVALUATED = {"eval/return_mean": 1.0, "eval/return_std": 0.0, "eval/steps": 5.0, "loss/policy": 1.0}
LATER = {**EVALUATED, "train/return_mean": 1.0, "eval/success": 1.0, "curiosity/error": 1.0, "loss/critic_2": 1.0}


@pytest.mark.parametrize(
    ("metric", "when"),
    [
        ("eval/retrun_mean", "evaluated"),
        ("eval/return", "evaluated"),
        ("eval/mean_reward", "evaluated"),
        ("Eval/return_mean", "evaluated"),
        ("evl/return_mean", "evaluated"),
        ("return_mean", "evaluated"),
        ("train/retrun_mean", "finished"),
        ("loss/polisy", "finished"),
        ("nonsense", "finished"),
        ("eval/victories", "never"),
        ("eval/event/sale/sum_mean", "never"),
        ("train/victories", "never"),
        # These come later.
        ("train/return_mean", "right"),
        ("eval/success", "right"),
        ("curiosity/error", "right"),
        ("loss/critic_2", "right"),
        ("eval/steps", "right"),
    ],
)
def test_when_a_metric_is_known_to_be_wrong(tmp_path, metric, when):
    watch = MetricWatch(metric, parse_space({"algorithm.lr": [1.0, 2.0]}))
    one = SweepRun("t000-s0", 0, tmp_path / "run", tmp_path / "log", "running")
    assert not watch.is_wrong([], one)
    assert not watch.is_wrong([{"epoch": 1, "loss/policy": 1.0}], one)  # nothing was evaluated yet
    assert watch.is_wrong([EVALUATED], one) == (when == "evaluated")
    if when == "right":
        assert not watch.is_wrong([LATER], one)
    one.state = "failed"
    assert watch.is_wrong([EVALUATED], one) == (when == "evaluated")
    one.state = "finished"
    assert watch.is_wrong([EVALUATED], one) == (when in ("evaluated", "finished"))


@pytest.mark.parametrize("space", [{"algorithm.name": ["ppo", "a2c"]}, {"algorithm.x": [True, False]}])
def test_trials_of_different_kinds_may_record_different_losses(tmp_path, space):
    watch = MetricWatch("loss/other", parse_space(space))
    assert not watch.is_wrong([EVALUATED], SweepRun("t000-s0", 0, tmp_path / "run", tmp_path / "log", "finished"))


def test_names_that_are_near():
    known = {"eval/return_mean", "eval/return_min", "train/return_mean", "loss/policy"}
    assert near("return_mean", known)[:2] == ["eval/return_mean", "train/return_mean"]
    assert near("eval/retrun_mean", known)[0] == "eval/return_mean"
    assert near("zzz", known) == []


def test_a_sweep_ends_at_once_and_goes_on_with_another_metric():
    """What ran is saved; nothing is refused that earlier runs already show to be right."""
    pool = Reporting({"all": [EVALUATED, EVALUATED]})
    with pytest.raises(ConfigError) as caught:
        run(pool, metric="eval/retrun_mean")
    assert str(caught.value).splitlines()[0] == "metric: no run records 'eval/retrun_mean'"
    assert "Did you mean eval/return_mean" in str(caught.value)
    assert "maze sweep --dir " in str(caught.value)
    assert len(pool.started) == 2
    assert pool.interrupted
    again = Reporting({"all": [EVALUATED, EVALUATED]})
    with pytest.raises(ConfigError, match="no run records 'eval/retrun_mean'"):
        run(again, metric="eval/retrun_mean")
    assert again.started == []
    assert run(FakePool(), metric="eval/return_mean").count("finished") == 9
    with pytest.raises(ConfigError, match="no run records 'eval/retrun_mean'"):
        run(again, metric="eval/retrun_mean")
    assert read_sweep("s").plan.metric == "eval/return_mean"  # what was refused is not in the plan


@pytest.fixture
def pools(monkeypatch):
    """`pools.lines`: what runs record."""
    made = []

    def build(config, jobs):
        made.append(Reporting(build.lines, size=jobs or 2, outcomes=build.outcomes))
        return made[-1]

    build.lines, build.outcomes, build.made = {}, {}, made
    monkeypatch.setattr(local_pool, "local_pool", build)
    return build


SMALL = ["ppo", "--env", "CartPole-v1", "--over", "algorithm.lr=1,2", "--seeds", "2", "--dir", "s", "-q"]


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, ["sweep", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


def test_the_command_refuses_and_goes_on(pools):
    pools.lines = {"all": [EVALUATED]}
    told = maze(*SMALL, "--metric", "eval/return_maen", code=2)
    assert told.stdout == ""
    assert told.stderr.splitlines()[:2] == [
        "error: metric: no run records 'eval/return_maen'",
        "Did you mean eval/return_mean or eval/return_std?",
    ]
    assert maze("--dir", "s", "--metric", "eval/return_mean", "-q").stdout.splitlines()[1].split()[0] == "1"


@pytest.mark.parametrize("metric", ["return_mea", "loss/polcy"])
def test_a_metric_that_comes_late_is_waited_for_where_the_user_says_so(pools, metric):
    """A name that looks mistyped, in the second epoch only; the command that says so is the one that is suggested."""
    pools.lines = {"all": [EVALUATED]}
    if metric != "loss/polcy":
        told = maze(*SMALL, "--metric", metric, code=2).stderr.splitlines()
        assert told[-1].startswith("If it comes later in a run: maze sweep --dir ")
        assert told[-1].endswith(f" --metric {metric} --late-metric")
    pools.lines = {"all": [EVALUATED, {**EVALUATED, metric: 3.0}], "t000-s0": [EVALUATED] * 2}  # one never does
    assert "3" in maze(*SMALL, "--metric", metric, "--late-metric").stdout
    assert read_sweep("s").plan.late_metric
    maze("--dir", "s", "--seeds", "3", "-q")  # goes on as before
    pools.lines = {"all": [EVALUATED]}
    told = maze("--dir", "s", "--seeds", "4", "--metric", "eval/retrun_mean", "-q", code=2)  # another name is looked at
    assert "Did you mean eval/return_mean" in told.stderr


def test_a_metric_that_does_not_come_although_the_user_says_so_is_refused_at_the_end(pools):
    pools.lines = {"all": [EVALUATED]}
    told = maze(*SMALL, "--metric", "eval/retrun_mean", "--late-metric", code=2).stderr
    assert "no run records 'eval/retrun_mean'\nDid you mean eval/return_mean" in told
    assert "comes later" not in told
    assert len(pools.made[-1].started) == 4


@pytest.mark.parametrize(
    ("metric", "lines", "words"),
    [
        ("eval/victories", [EVALUATED], "no run records 'eval/victories'\nThey record eval/return_mean, "),
        ("eval/return_mean", [{"eval/return_mean": None}], "no run has a number for 'eval/return_mean'"),
        ("eval/return_mean", [], "no run records 'eval/return_mean'\nThey write no metrics.jsonl"),
    ],
)
def test_a_sweep_that_ranks_nothing_ends_with_2(pools, metric, lines, words):
    pools.lines = {"all": lines}
    assert words in maze(*SMALL, "--metric", metric, code=2).stderr


def test_a_sweep_is_ranked_by_another_metric(pools):
    """Finished, failed or under way: nothing is run or written, and nobody has to wait."""
    for number, loss in ((0, 5.0), (1, 4.0)):
        lines = [{"eval/return_mean": float(number), "loss/policy": loss}]
        pools.lines |= {f"t00{number}-s{seed}": lines for seed in (0, 1)}
    maze(*SMALL)
    before = {path: path.read_bytes() for path in Path("s").rglob("*") if path.is_file()}
    assert [line.split()[1] for line in maze("--dir", "s", "--rank").stdout.splitlines()[1:]] == ["t001", "t000"]
    loss = maze("--dir", "s", "--rank", "--metric", "loss/policy", "--take", "last").stdout.splitlines()
    assert (loss[0].split()[3:5], loss[1].split()[:2]) == (["last", "loss/policy"], ["1", "t000"])
    least = json.loads(maze("--dir", "s", "--rank", "--minimize", "--json").stdout)
    assert (least["minimize"], least["trials"][0]["trial"]) == (True, 0)
    assert "Did you mean loss/policy?" in maze("--dir", "s", "--rank", "--metric", "loss/polcy", code=2).stderr
    for typed in (["--seeds", "3"], ["--experiment", "quick"], ["--set", "steps=3"], ["--jobs", "2"]):
        wrong = maze("--dir", "s", "--rank", *typed, code=2).stderr
        assert wrong == f"error: {typed[0]}: cannot be changed by --rank, which runs nothing\nLeave it out.\n"
    assert "--dir" in maze("--rank", code=2).stderr
    assert "contains no sweep" in maze("--rank", "--dir", "nowhere", code=2).stderr
    assert len(pools.made) == 1
    assert {path: path.read_bytes() for path in Path("s").rglob("*") if path.is_file()} == before


def test_a_failed_sweep_is_ranked_without_an_error(pools):
    pools.outcomes = {"t000-s0": "failed"}
    maze(*SMALL, code=1)
    assert maze("--dir", "s", "--rank").stdout.splitlines()[2].split()[:2] == ["-", "t000"]


def test_what_a_searcher_learned_from_is_not_changed(learning):
    run(FakePool(), load=learning)
    with pytest.raises(ConfigError, match=r"has chosen points by eval/return_mean\n.*--rank --metric eval/steps"):
        run(FakePool(), load=learning, metric="eval/steps")
    run(FakePool(), load=learning)


def test_a_searcher_that_learned_nothing_goes_on_with_another_metric(learning):
    with pytest.raises(ConfigError, match="no run records"):
        run(FakePool(), load=learning, metric="eval/return_maen")
    done = run(FakePool(), load=learning, metric="eval/return_mean")
    assert done.searcher.heard == {0: 11.0, 1: 21.0, 2: 31.0}


def test_runs_under_way_are_looked_at_too():
    class Half(FakePool):
        def ended(self, timeout):
            super().ended(timeout)
            assert table(seen := read_sweep("s"), ranked(seen))[1][0][:4] == ["-", "t000", "1", "10 (1 of 3 seeds)"]
            assert [each.state for each in seen.runs[:2]] == ["finished", "killed"]  # nobody holds the others
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Half())
