"""`maze runs list`, `compare` and `plot`, on runs that were never trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maze_core.cli.main import app
from maze_core.plugins.config.record import read_record, write_record
from tests.maze_compare import made_runs

make_run = made_runs.make_run


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, ["runs", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def runs(make_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        make_run(f"slow{seed}", [10.0 + seed, 20.0], seed=seed, lr=1e-4, final=19.0 + seed)
    make_run("quick", [90.0], seed=2, lr=1e-2, outcome="failed")
    make_run("other", [-5.0], seed=3, env="Pendulum-v1", algorithm="sac", outcome=None)


def listed(*arguments):
    return [Path(each["run"]).name for each in json.loads(maze("list", *arguments, "--json").stdout)]


def test_list_shows_every_run():
    lines = maze("list").stdout.splitlines()
    assert lines[0].split() == ["env", "algorithm", "seed", "steps", "state", "best", "final", "when", "run"]
    assert lines[1].split()[:7] == ["CartPole-v1", "ppo", "0", "200", "finished", "20", "19"]
    assert lines[4].split()[:7] == ["Pendulum-v1", "sac", "3", "100", "killed", "-5", "-5"]


def test_filters_and_order():
    assert listed() == ["slow0", "slow1", "quick", "other"]
    assert listed("--sort", "best", "--reverse") == ["quick", "slow0", "slow1", "other"]
    assert listed("--state", "killed") == ["other"]
    assert listed("--where", "algorithm.lr=1e-4", "--where", "seed=1") == ["slow1"]
    assert listed("--env", "CartPole-v1", "--algorithm", "sac") == []
    assert "no run matches these filters" in maze("list", "--env", "None-v0").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--sort", "stat"], "--sort: unknown 'stat'; did you mean state"),
        (["list", "--state", "dead"], "--state: unknown 'dead'"),
        (["list", "nowhere"], "nowhere is not a run directory: there is no such folder"),
        (["list", "--where", "lr"], "path=value"),
        (["compare", "runs", "--env", "None-v0"], "no run matches these filters"),
        (["plot", "runs", "--out", "a.png", "--x", "steps"], "--x: unknown 'steps'; did you mean env_steps"),
        (["plot", "runs", "--out", "a.png", "--metric", "eval/x"], "no run has eval/x"),
        (["plot", "runs"], "--out"),
    ],
)
def test_wrong_input_is_one_line(arguments, message):
    result = maze(*arguments, code=2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_compare_ranks_groups_and_shows_where_they_differ():
    lines = maze("compare", "runs", "--env", "CartPole-v1").stdout.splitlines()
    assert lines[0].split() == ["lr", "runs", "best", "final", "final", "IQM", "env_steps", "seconds"]
    assert lines[1].split()[:6] == ["A", "0.01", "1", "90", "90", "90"]
    assert lines[2].split()[:9] == ["B", "0.0001", "2", "20", "±", "0", "19.5", "±", "0.707"]
    assert "19.5 (19 to 20)" in lines[2]
    assert lines[3:5] == ["A: runs/quick", "B: runs/slow0, runs/slow1"]
    assert "A and B: too few runs to tell them apart; take at least 3 seeds of each" in lines


@pytest.mark.parametrize("minimize", [False, True])
def test_compare_says_whether_a_difference_means_anything(make_run, minimize):
    for seed, value in enumerate([10.0, 11.0, 12.0, 13.0]):
        make_run(f"low{seed}", [value], seed=seed, env="Judged-v0", lr=1.0)
        make_run(f"same{seed}", [value + 0.5], seed=seed, env="Judged-v0", lr=2.0)
        make_run(f"high{seed}", [value + 50], seed=seed, env="Judged-v0", lr=3.0)
    flag = ["--minimize"] if minimize else []
    text = maze("compare", "runs", "--env", "Judged-v0", *flag).stdout
    beaten = "C" if minimize else "B"
    assert f"A is better than {beaten}: it wins 100% of the pairs" in text
    assert text.count("differ no more than chance allows") == minimize
    judged = json.loads(maze("compare", "runs", "--env", "Judged-v0", "--json", *flag).stdout)["groups"]
    assert judged[0]["beaten_by_best"] is None
    assert judged[-1]["beaten_by_best"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert judged[0]["final_iqm"]["value"] == (11.5 if minimize else 61.5)


def test_compare_says_which_packages_were_others(make_run):
    folders = [make_run(f"v{seed}", [1.0], seed=seed, final=1.0) for seed in (0, 1)]
    assert "the runs differ only in their seeds" in maze("compare", *folders).output
    for number, folder in enumerate(folders, 1):
        versions = {"maze-walk": f"{number}.0", "maze-ppo": "1.0", "maze-\x1b": ["odd"]}
        write_record(folder, {**read_record(folder), "versions": versions})
    said = maze("compare", *folders).output
    assert "the runs were written with different versions of maze-walk 1.0, 2.0\n" in said
    assert "differ only in their seeds" not in said


def test_compare_turns_the_table_where_settings_outnumber_groups():
    lines = maze("compare", "runs/quick", "runs/other").stdout.splitlines()
    assert lines[0].split() == ["A", "B"]
    assert ["env", "CartPole-v1", "Pendulum-v1"] in [line.split() for line in lines]
    assert {"A: runs/quick", "B: runs/other"} <= set(lines) or {"A: runs/other", "B: runs/quick"} <= set(lines)


def test_compare_as_json():
    found = json.loads(maze("compare", "runs", "--env", "CartPole-v1", "--json", "--minimize").stdout)
    assert found["differing"] == ["algorithm.lr"]
    slow, quick = found["groups"]
    assert (slow["settings"], slow["best"]) == ({"algorithm.lr": 1e-4}, {"mean": 10.5, "std": 0.5**0.5, "count": 2})
    assert [run["seed"] for run in quick["runs"]] == [2]


def test_a_damaged_run_costs_one_line():
    Path("runs/quick/run.json").write_text("{")
    result = maze("list", "--json")
    *whole, damaged = json.loads(result.stdout)
    assert [Path(each["run"]).name for each in whole] == ["slow0", "slow1", "other"]
    assert (damaged["run"], damaged["state"]) == ("runs/quick", "damaged")
    (line,) = result.stderr.splitlines()
    assert line == f"damaged: runs/quick: {damaged['reason']}"
    row = maze("list").stdout.splitlines()[-1].split()
    assert row[4] == "damaged"
    assert row[-1] == "runs/quick"
    assert "damaged" not in maze("list", "--state", "finished").stdout
    assert "skipped runs/quick" in maze("compare", "runs").stderr


def test_plot_writes_a_picture_and_says_what_is_in_it():
    pytest.importorskip("matplotlib")
    result = maze("plot", "runs", "--out", "curves.png", "--smooth", "2", "--title", "All")
    assert result.stdout == "curves.png: 4 runs in 3 curves\n"
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_is_titled_by_its_environments(monkeypatch):
    from maze_compare import picture

    titles = []
    monkeypatch.setattr(picture, "draw", lambda lines, metric, axis, out, title, scores: titles.append(title))
    maze("plot", "runs", "--out", "a.png")
    maze("plot", "runs/quick", "--out", "a.png")
    maze("plot", "runs", "--out", "a.png", "--title", "All")
    assert titles == ["CartPole-v1, Pendulum-v1", "CartPole-v1", "All"]


def test_a_metric_that_no_run_has_is_refused_and_the_usual_one_is_not():
    for command in (["compare", "."], ["plot", ".", "--out", "p.png"]):
        told = maze(*command, "--metric", "eval/retrun_mean", code=2).stderr
        assert "--metric: no run has eval/retrun_mean; did you mean eval/return_mean" in told
    for file in Path().rglob("metrics.jsonl"):
        file.write_text('{"epoch": 1, "loss/policy": 1.0}\n')
    assert "loss/policy" in maze("compare", ".", "--metric", "loss/policy").stdout
    assert "differ" in maze("compare", ".", "--json").stdout  # without evaluations their configurations are compared
