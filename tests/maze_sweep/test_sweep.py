"""What a sweep runs, in which order, and what it makes of how runs end: on a pool that trains nothing."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import maze_sweep.sweep
import pytest
import yaml
from maze_sweep.api import read_sweep
from maze_sweep.plan import PLAN, make_plan
from maze_sweep.ranking import facts, failures, ranked, table
from maze_sweep.searchers.base import Search, Searcher
from maze_sweep.sweep import Sweep

from maze_core.base.errors import ConfigError
from maze_core.base.plain_json import checksummed
from maze_core.plugins import discovery
from tests.maze_sweep.fake_pool import FakePool

RAW = {"algorithm": "ppo", "env": "CartPole-v1", "over": {"algorithm.lr": [1.0, 2.0, 3.0]}, "seeds": 2}


@pytest.fixture(autouse=True)
def quick(known_plugins):
    """Plugins are looked up once."""


def sweep(folder, **changes):
    made = Sweep(make_plan({**RAW, **changes}), folder)
    made.check()
    made.begin()
    return made


def run(made, pool, watch=lambda sweep, end: None):
    try:
        made.carry_out(pool, watch)
    finally:
        made.close()
    return made


def test_every_point_is_run_with_every_seed(tmp_path):
    pool = FakePool(size=3)
    made = run(sweep(tmp_path / "s"), pool)
    assert pool.started == [f"t{trial:03}-s{seed}" for trial in range(3) for seed in range(2)]
    assert pool.most == 3
    assert {each.state for each in made.runs} == {"finished"}
    config = yaml.safe_load((tmp_path / "s" / "runs" / "t002-s1" / "config.yaml").read_text())
    assert (config["algorithm"]["lr"], config["seed"]) == (3.0, 1)
    assert (tmp_path / "s" / PLAN).exists()


def test_trials_are_ranked_by_the_mean_over_their_seeds(tmp_path):
    made = run(sweep(tmp_path / "s"), FakePool())
    headers, rows = table(made, ranked(made))
    assert headers == ["rank", "trial", "lr", "best return", "runs"]
    assert rows == [
        ["1", "t002", "3", "30.5 ± 0.707", "2/2"],
        ["2", "t001", "2", "20.5 ± 0.707", "2/2"],
        ["3", "t000", "1", "10.5 ± 0.707", "2/2"],
    ]
    assert [each["trial"] for each in facts(made)["trials"]] == [2, 1, 0]
    least = run(sweep(tmp_path / "least", minimize=True), FakePool())
    assert [each.number for each in ranked(least)] == [0, 1, 2]
    assert ranked(least)[0].spread(least.plan).mean == pytest.approx(10.5 / 3)  # the least epoch is the first


def test_failures_are_told_and_do_not_end_the_sweep(tmp_path):
    pool = FakePool(outcomes={"t000-s1": "failed", "t002-s0": "killed"})
    made = run(sweep(tmp_path / "s"), pool)
    assert len(pool.started) == 6
    assert [(each.name, each.reason) for each in failures(made)] == [
        ("t000-s1", "because failed"), ("t002-s0", "because killed")
    ]  # fmt: skip
    _, rows = table(made, ranked(made))
    assert rows[1] == ["-", "t002", "3", "31 (1 of 2 seeds)", "1/2 killed"]


def test_a_second_call_runs_only_what_is_missing(tmp_path):
    first = FakePool(outcomes={"t000-s1": "failed", "t002-s0": "killed"})
    run(sweep(tmp_path / "s"), first)
    again = FakePool()
    made = run(sweep(tmp_path / "s"), again)
    assert again.started == ["t000-s1", "t002-s0"]
    assert failures(made) == []
    none = FakePool()
    run(sweep(tmp_path / "s"), none)
    assert none.started == []


def test_runs_of_other_settings_are_not_joined(tmp_path, monkeypatch):
    """A preset may be another one by now; new runs would be ranked with the old ones."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "presets").mkdir()
    preset = tmp_path / "presets" / "mine.yaml"
    preset.write_text("algorithm: {name: ppo, gamma: 0.9}\nwrappers: [monitor]\n")
    run(sweep(tmp_path / "s", preset="mine"), FakePool(outcomes={"t002-s0": "killed"}))
    for text, problem in (
        ("algorithm: {name: ppo, gamma: 0.5}\nwrappers: [monitor]\n", "algorithm.gamma=0.9, and now would have 0.5"),
        ("algorithm: {name: ppo, gamma: 0.9}\nwrappers: [monitor, clip_reward]\n", "wrappers=[{"),
    ):
        preset.write_text(text)
        with pytest.raises(ConfigError, match=re.escape(f"--dir: t000-s0 has {problem}")):
            sweep(tmp_path / "s", preset="mine")
    preset.write_text("algorithm: {name: ppo, gamma: 0.9}\nwrappers: [monitor]\n")
    run(sweep(tmp_path / "s", preset="mine"), again := FakePool())
    assert again.started == ["t002-s0"]
    preset.write_text("algorithm: {name: ppo, gamma: 0.5}\n")
    run(sweep(tmp_path / "s", preset="mine"), none := FakePool())  # all are done: they are ranked
    assert none.started == []


def test_seeds_and_trials_may_be_added(tmp_path):
    over = {"algorithm.lr": "1.0..9.0"}
    made = run(sweep(tmp_path / "s", over=over, searcher="random", trials=2, seeds=1), FakePool())
    pool = FakePool()
    grown = run(sweep(tmp_path / "s", over=over, searcher="random", trials=3, seeds=2), pool)
    assert pool.started == ["t000-s1", "t001-s1", "t002-s0", "t002-s1"]
    assert [each.point for each in grown.trials[:2]] == [each.point for each in made.trials]


def test_interrupted_runs_are_gone_on_with(tmp_path):
    made = sweep(tmp_path / "s")
    pool = FakePool()
    run(made, pool, lambda sweep, end: sweep.interrupt("Ctrl-C") if end and end.name == "t000-s1" else None)
    # t000-s0 and t000-s1 ended; when the second did, the next had been started and was asked to save itself.
    assert set(pool.interrupted) == set(pool.started) - {"t000-s0", "t000-s1"}
    assert [each.state for each in made.runs[2:]] == ["interrupted"] * (len(pool.started) - 2) + ["waiting"] * (
        len(made.runs) - len(pool.started)
    )
    again = FakePool()
    done = run(sweep(tmp_path / "s"), again)
    assert not {"t000-s0", "t000-s1"} & set(again.started)
    assert done.count("finished") == 6


class Teller(Searcher):
    """Asks for growing values; notes what it is told; prunes what it is asked to."""

    heard: list[Any]
    pruned: tuple[int, ...] = ()

    def setup(self, search: Search) -> int:
        self.heard, self.epochs = [], []
        return 3

    def ask(self, number: int) -> dict[str, Any]:
        return {"algorithm.lr": [0.1, -1.0, 0.3][number]}

    def tell(self, number, point, value):
        self.heard.append((number, point["algorithm.lr"], value))

    def prune(self, number, epoch, value):
        self.epochs.append((number, epoch))
        return number in self.pruned


@pytest.fixture
def teller():
    return discovery.overlay({("searcher", "grid"): type("Mine", (Teller,), {})})


def told(folder, load, pool=None, pruned=()):
    plan = make_plan({**RAW, "over": {"algorithm.lr": [0.1, 0.3]}}, load)
    made = Sweep(plan, folder, load)
    made.searcher.pruned = pruned
    made.check()
    made.begin()
    return run(made, pool or FakePool())


def test_the_searcher_hears_the_mean_of_each_trial_once(tmp_path, teller):
    made = told(tmp_path / "s", teller)
    # The second point is outside of the space: it fails, and the others go on.
    assert sorted(made.searcher.heard) == [(0, 0.1, 1.5), (1, -1.0, None), (2, 0.3, 3.5)]
    assert [each.state for each in made.trials[1].runs] == ["failed", "failed"]
    assert "algorithm.lr: -1.0 is outside of the search space" in made.trials[1].runs[0].reason
    again = told(tmp_path / "s", teller)
    assert sorted(again.searcher.heard) == sorted(made.searcher.heard)


def test_a_trial_with_a_failed_seed_has_failed(tmp_path, teller):
    made = told(tmp_path / "s", teller, FakePool(outcomes={"t000-s1": "failed"}))
    assert (0, 0.1, None) in made.searcher.heard


def test_pruning_ends_a_trial_for_good(tmp_path, teller):
    made = told(tmp_path / "s", teller, FakePool(size=1), pruned=(0,))
    assert [each.state for each in made.trials[0].runs] == ["finished", "finished"]  # it was over before the first look
    made = told(tmp_path / "t", teller, FakePool(size=2), pruned=(2,))
    assert {each.state for each in made.trials[2].runs} <= {"pruned", "finished"}
    assert made.trials[2].pruned
    assert "pruned" in {each.state for each in made.trials[2].runs}
    pool = FakePool()
    again = told(tmp_path / "t", teller, pool)
    assert pool.started == []
    assert again.trials[2].pruned
    assert 2 not in [number for number, *_ in again.searcher.heard]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"over": {"algorithm.lrr": [1, 2]}}, "algorithm.lrr: unknown key; did you mean lr?"),
        ({"over": {"algorithm.lr": [1, -1]}}, "algorithm.lr: must be greater than 0, got -1"),
        (
            {"over": {"algorithm.lr": "-1..1"}, "searcher": "random", "trials": 2},
            "algorithm.lr: must be greater than 0",
        ),
        ({"over": {"env.id": ["CartPole-v1", "CartPol-v1"]}}, "Did you mean CartPole-v1"),
        ({"over": {"model.name": ["mlp", "mpl"]}}, "unknown model 'mpl'"),
        ({"over": {"algorithm.lr": "1..2"}}, "a grid needs values"),
        ({"overrides": {"callbacks.mirror.to": "file:///copies"}}, "Next: end it with /{run}"),
        # Each value alone is fine; one combination is not.
        ({"over": {"algorithm.batch_size": [8, 1], "algorithm.normalize_advantages": [False, True]}}, "at least 2"),
    ],
)
def test_nothing_begins_where_a_point_does_not_fit(tmp_path, changes, message):
    made = Sweep(make_plan({**RAW, **changes}), tmp_path / "s")
    with pytest.raises(ConfigError) as caught:
        made.check()
    assert message in str(caught.value)
    assert not (tmp_path / "s").exists()


def test_another_sweep_in_the_folder_is_refused(tmp_path):
    run(sweep(tmp_path / "s"), FakePool())
    with pytest.raises(ConfigError, match="differences: over"):
        Sweep(make_plan({**RAW, "over": {"algorithm.lr": [7.0]}}), tmp_path / "s")


def test_two_processes_cannot_be_at_one_sweep(tmp_path):
    first = sweep(tmp_path / "s")
    with pytest.raises(ConfigError, match="another process"):
        Sweep(make_plan(RAW), tmp_path / "s").begin()
    assert (tmp_path / "s" / PLAN).exists()
    first.close()
    sweep(tmp_path / "s").close()


def test_a_sweep_that_begins_at_the_same_moment_is_left_alone(tmp_path, monkeypatch):
    first, second = (Sweep(make_plan(RAW), tmp_path / "s") for _ in range(2))
    lock = maze_sweep.sweep.lock

    def overtaken(folder):
        monkeypatch.setattr(maze_sweep.sweep, "lock", lock)
        first.begin()
        return lock(folder)

    monkeypatch.setattr(maze_sweep.sweep, "lock", overtaken)
    with pytest.raises(ConfigError, match="another process"):
        second.begin()
    assert (tmp_path / "s" / PLAN).exists()
    first.close()


def test_what_another_process_did_meanwhile_is_not_done_again(tmp_path):
    run(sweep(tmp_path / "s"), FakePool(outcomes={"t000-s0": "failed"}))
    late = Sweep(make_plan(RAW), tmp_path / "s")
    late.check()
    run(sweep(tmp_path / "s"), FakePool())
    late.begin()
    pool = FakePool()
    run(late, pool)
    assert pool.started == []
    assert late.count("finished") == 6


def test_a_damaged_record_of_trials_is_named(tmp_path):
    run(sweep(tmp_path / "s"), FakePool())
    (tmp_path / "s" / "trials.json").write_text("[{")
    with pytest.raises(ConfigError, match=r"trials\.json is damaged"):
        Sweep(make_plan(RAW), tmp_path / "s")


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ({}, "values for []"),
        ({"algorithm.lr": 1.0, "callbacks.mirror.to": "file:///elsewhere/{run}"}, "but the search is over"),
        ({"algorithm.gamma": 0.5}, "but the search is over"),
        ([["algorithm.lr", 1.0]], "the point of trial 0 is"),
        ({"algorithm.lr": {"name": "adam"}}, "algorithm.lr: {'name': 'adam'} is outside of the search space"),
        ({"algorithm.lr": json.loads("[" * 900 + "]" * 900)}, "is outside of the search space"),
    ],
)
def test_a_point_that_is_not_the_plans_is_never_run(tmp_path, point, said):
    """The folder may come from anyone; its plan was looked at, and its trials are points of that."""
    run(sweep(tmp_path / "s"), FakePool())
    (tmp_path / "s" / "trials.json").write_text(json.dumps(checksummed({"trials": [{"point": point}]})))
    with pytest.raises(ConfigError, match=r"trials\.json is damaged") as caught:
        Sweep(make_plan(RAW), tmp_path / "s")
    assert said in str(caught.value)


@pytest.mark.parametrize("place", ["runs", "runs/t000-s0"])
def test_no_result_comes_from_outside_of_the_folder(tmp_path, place):
    run(sweep(tmp_path / "s"), FakePool())
    (tmp_path / "s" / place).rename(tmp_path / "elsewhere")
    (tmp_path / "s" / place).symlink_to(tmp_path / "elsewhere")
    made = Sweep(make_plan(RAW), tmp_path / "s")
    assert made.runs[0].state == "waiting"
    assert made.runs[0].follow() == []
    assert made.count("finished") == (5 if place.endswith("0") else 0)


@pytest.mark.parametrize("value", [5.0, float("nan"), "elsewhere", None])
def test_a_value_that_is_not_the_plans_is_never_run(tmp_path, value):
    run(sweep(tmp_path / "s"), FakePool())
    points = [{"point": {"algorithm.lr": each}} for each in (1.0, value, 3.0)]
    (tmp_path / "s" / "trials.json").write_text(json.dumps(checksummed({"trials": points})))
    pool = FakePool()
    made = run(sweep(tmp_path / "s"), pool)
    assert pool.started == []
    assert failures(made) == made.trials[1].runs
    assert made.runs[2].reason == f"algorithm.lr: {value!r} is outside of the search space"
    looked = read_sweep(tmp_path / "s")
    assert [trial.complete(looked.plan) for trial in looked.trials] == [True, False, True]


def test_a_record_nested_as_deep_as_can_be_read_is_refused(tmp_path):
    run(sweep(tmp_path / "s"), FakePool())
    for depth in range(900, 1000):
        text = "[" * depth + "]" * depth
        (tmp_path / "s" / "trials.json").write_text(f'{{"trials": {text}, "sha256": ""}}')
        with pytest.raises(ConfigError, match=r"trials\.json is damaged"):
            Sweep(make_plan(RAW), tmp_path / "s")


@pytest.mark.parametrize("changes", [{"over": {"algorithm.lr": [1.0, 4.0]}}, {"over": {"algorithm.gamma": [0.9, 0.8]}}])
def test_a_run_of_another_point_is_no_result(tmp_path, changes):
    """The plan was edited by hand, and the record of trials deleted, as its message says."""
    run(sweep(tmp_path / "s"), FakePool())
    (tmp_path / "s" / PLAN).unlink()
    (tmp_path / "s" / "trials.json").unlink()
    pool = FakePool()
    made = run(sweep(tmp_path / "s", **changes), pool)
    same = "algorithm.lr" in changes["over"]
    wrong = [each for each in made.runs if each.name.startswith("t001") or not same]
    assert failures(made) == wrong
    assert "holds a run with algorithm." in wrong[0].reason
    assert pool.started == []
    assert [trial.complete(made.plan) for trial in made.trials] == [same, False]


@pytest.mark.parametrize("name", [PLAN, "trials.json"])
def test_every_change_of_a_sweeps_files_is_noticed(tmp_path, name):
    run(sweep(tmp_path / "s"), FakePool())
    file = tmp_path / "s" / name
    data = file.read_bytes()
    begin = data.index(b"\n") + 1 if name == PLAN else 0
    changes = [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in range(begin, len(data), 7)]
    for changed in [*changes, *(data[:end] for end in range(begin + 1, len(data), 50))]:
        file.write_bytes(changed)
        with pytest.raises(ConfigError, match=rf"{re.escape(name)}(:| is) .*damaged|\.json is damaged"):
            Sweep(make_plan(RAW), tmp_path / "s")
    file.write_bytes(data)
    assert len(Sweep(make_plan(RAW), tmp_path / "s").trials) > 1


def test_a_plan_is_used_without_its_checksum_but_not_the_record_of_trials(tmp_path):
    run(sweep(tmp_path / "s"), FakePool())
    plan, trials = tmp_path / "s" / PLAN, tmp_path / "s" / "trials.json"
    plan.write_text(plan.read_text().partition("\n")[2])  # as its user is told to do
    assert len(Sweep(make_plan(RAW), tmp_path / "s").trials) > 1
    saved = json.loads(trials.read_text())
    for value in (saved["trials"], {"trials": saved["trials"]}):
        trials.write_text(json.dumps(value))
        with pytest.raises(ConfigError, match=r"trials\.json is damaged"):
            Sweep(make_plan(RAW), tmp_path / "s")


def test_without_a_folder_one_is_made_below_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = sweep(None)
    made.close()
    assert made.folder.parent == tmp_path / "runs" / "CartPole-v1" / "ppo"
    assert made.folder.name.endswith("-sweep")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot create"):
        sweep(tmp_path / "file" / "s")


def test_a_run_is_followed_over_torn_lines_and_a_resume(tmp_path):
    from maze_sweep.trials import SweepRun

    each = SweepRun("a", 0, tmp_path, tmp_path / "log")
    assert each.follow() == []
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"epoch": 1}\n{"epoch": 2}\n{"epo')
    assert [line["epoch"] for line in each.follow()] == [1, 2]
    assert each.follow() == []
    with file.open("a") as more:
        more.write('ch": 3}\n')
    assert [line["epoch"] for line in each.follow()] == [3]
    os.truncate(file, len('{"epoch": 1}\n'))  # resumed from its first epoch
    assert each.follow() == []
    with file.open("a") as more:
        more.write('{"epoch": 2}\n{"epoch": 3}\n{"epoch": 4}\n')
    assert [line["epoch"] for line in each.follow()] == [4]
    with file.open("a") as more:
        for odd in ('{"epoch": 5, "env_steps": "x"}', '{"epoch": true}', f'{{"epoch": {10**400}}}', '{"epoch": 5.5}'):
            more.write(f"{odd}\n")
        more.write('{"epoch": 6, "env_steps": null}\n')
    assert [line["epoch"] for line in each.follow()] == [6]
    assert each.count("env_steps") == 0
