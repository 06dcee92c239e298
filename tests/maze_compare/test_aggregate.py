"""`maze runs aggregate`, on runs that were never trained and files of others."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from maze_statistics import aggregate, read_csv
from typer.testing import CliRunner

from maze_core.cli.main import app
from tests.maze_compare import made_runs

make_run = made_runs.make_run
SCORES = "CartPole-v1: {low: 0, high: 100}\nPendulum-v1: {low: -1000, high: 0, source: mine}\n"


def maze(*arguments, code=0):
    result = CliRunner().invoke(app, ["runs", "aggregate", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def runs(make_run, tmp_path, monkeypatch):
    """Two algorithms on two tasks, three seeds each, with presets of their own; one run did not finish."""
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        make_run(f"p{seed}", [10.0, 40.0, 80.0], seed=seed, final=90.0 + seed)
        make_run(f"a{seed}", [10.0, 50.0, 30.0], seed=seed, algorithm="a2c")
        make_run(f"pp{seed}", [-900.0, -100.0], seed=seed, env="Pendulum-v1", lr=0.5)
        make_run(f"ap{seed}", [-900.0, -400.0 - seed], seed=seed, env="Pendulum-v1", algorithm="a2c")
    make_run("killed", [99.0], seed=7, outcome=None)
    (tmp_path / "scores.yaml").write_text(SCORES)


def found(*arguments):
    return json.loads(maze(*arguments, "--resamples", 200, "--json").stdout)


def test_runs_of_several_tasks_become_one_number_each():
    given = found("--normalize", "scores.yaml")
    assert [each["algorithm"] for each in given["algorithms"]] == ["ppo", "a2c"]
    ppo, a2c = given["algorithms"]
    assert ppo["scores"]["CartPole-v1"] == pytest.approx([0.9, 0.91, 0.92])
    assert ppo["raw_scores"]["Pendulum-v1"] == [-100.0] * 3
    alone = aggregate({"ppo": ppo["scores"], "a2c": a2c["scores"]}, resamples=200)
    assert ppo["iqm"] == {name: getattr(alone["ppo"].iqm, name) for name in ("value", "low", "high")}
    assert given["improvements"][0]["value"] == 1.0
    assert given["left_out"] == ["left out 1 run that did not finish"]
    assert given["curves_count"] == "shares of each task's steps"
    assert ppo["curve"]["x"][-1] == 1.0  # of 300 steps and of 200
    assert found("--normalize", "range")["algorithms"][0]["mean"]["value"] == pytest.approx(0.99194, abs=1e-4)
    assert found("--take", "best", "--env", "CartPole-v1")["algorithms"][1]["iqm"]["value"] == 50.0


def test_the_table_says_what_its_numbers_are():
    text = maze("--normalize", "scores.yaml", "--resamples", 200).stdout
    assert text.splitlines()[0].split()[:5] == ["algorithm", "IQM", "median", "mean", "optimality"]
    assert "0 is low and 1 is high of scores.yaml" in text
    assert "ppo is better than a2c: it wins 100% of the pairs of runs" in text
    assert "CartPole-v1  91 ± 1" in text
    assert "optimality" not in maze("--env", "CartPole-v1").stdout


def test_runs_of_others_stand_beside_and_alone(tmp_path):
    lines = [f"{task},{name},{seed},{step},{step * k}" for task, k in (("CartPole-v1", 0.4), ("Pendulum-v1", -3))
             for name in ("ppo", "=sb3") for seed in range(2) for step in (100, 200)]  # fmt: skip
    (tmp_path / "sb3.csv").write_text("task,algorithm,seed,step,score\n" + "\n".join(lines))
    beside = found("runs", "--csv", "sb3.csv", "--normalize", "scores.yaml")
    assert {each["algorithm"] for each in beside["algorithms"]} == {"ppo", "a2c", "ppo (sb3)", "=sb3"}
    alone = maze("--csv", "sb3.csv", "--normalize", "scores.yaml", "--export", "out.csv").stdout
    assert "scores: the last score of each run" in alone
    assert "too few runs to tell them apart" in alone
    assert {each.algorithm for each in read_csv("out.csv")} == {"ppo", "'=sb3"}  # no formula
    rows = list(csv.reader((tmp_path / "out.csv").open()))
    assert rows[1] == ["CartPole-v1", "ppo", "0", "100", "40.0"]
    maze("--csv", "sb3.csv", "--metric", "eval/return_mean", code=2)


def test_what_differs_is_told_apart_or_refused(make_run):
    make_run("fast", [50.0], seed=0, lr=0.1)
    message = maze("--env", "CartPole-v1", code=2).stderr
    assert "ppo on CartPole-v1 stands for 2 configurations, which differ in algorithm.lr" in message
    assert "--by algorithm.name --by algorithm.lr" in message
    by = found("--env", "CartPole-v1", "--by", "algorithm.name", "--by", "algorithm.lr")
    assert [each["algorithm"] for each in by["algorithms"]] == ["ppo, lr=0.001", "ppo, lr=0.1", "a2c, lr=0.001"]
    assert found("--env", "CartPole-v1", "--where", "algorithm.lr=0.001")["algorithms"][0]["runs"] == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "scores of 2 tasks have no common scale"),
        (["--normalize", "atari"], "no reference scores for CartPole-v1, Pendulum-v1"),
        (["--normalize", "nes"], "'nes' is neither atari"),
        (["--normalize", "none", "--normalize", "range"], "none cannot stand beside others"),
        (["--normalize", "none", "--minimize"], "lower values are better"),
        (["--normalize", "bad.yaml"], "CartPole-v1: low and high must differ"),
        (["--normalize", "none", "--metric", "eval/return_maen"], "no finished run"),
        (["--normalize", "none", "--take", "first"], "--take: unknown 'first'"),
        (["--normalize", "none", "--by", "algorithm.lrr"], "no run has 'algorithm.lrr'"),
        (["--normalize", "none", "--draw", "curves"], "draws nothing without --picture"),
        (["--normalize", "none", "--draw", "all", "--picture", "a.svg"], "--draw: unknown 'all'"),
        (["--normalize", "none", "--picture", "a.xyz"], "cannot write a.xyz"),
        (["--csv", "none.csv"], "none.csv: there is no such file"),
        (["--csv", "bad.csv"], "bad.csv, line 2: score must be a finite number"),
    ],
)
def test_one_clear_error(tmp_path, arguments, said):
    (tmp_path / "bad.yaml").write_text("CartPole-v1: {low: 1, high: 1}\n")
    (tmp_path / "bad.csv").write_text("task,algorithm,seed,score\nx,a,0,nan\n")
    assert said in maze(*arguments, "--resamples", 100, code=2).stderr


def test_other_tasks_of_an_algorithm_are_an_error(make_run):
    make_run("only", [1.0], algorithm="dqn")
    assert "dqn has no run on Pendulum-v1" in maze("--normalize", "scores.yaml", code=2).stderr


def test_lower_values_are_turned_round():
    ranked = found("--normalize", "range", "--minimize", "--env", "CartPole-v1")["algorithms"]
    assert [each["algorithm"] for each in ranked] == ["a2c", "ppo"]
    assert np.array(ranked[0]["scores"]["CartPole-v1"]) == pytest.approx(1.0)


@pytest.mark.parametrize(("name", "begins"), [("a.svg", b"<?xml"), ("a.pdf", b"%PDF"), ("a.png", b"\x89PNG")])
def test_pictures_are_drawn(tmp_path, make_run, name, begins):
    for seed in range(2):
        make_run(f"x{seed}", [1.0], algorithm="$x<b>", seed=seed)
    maze("--env", "CartPole-v1", "--picture", name, "--resamples", 100)
    assert (tmp_path / name).read_bytes().startswith(begins)
