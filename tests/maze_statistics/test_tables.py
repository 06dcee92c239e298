"""Runs of others as CSV, and reference scores: what is read, and what is refused with its place."""

import os

import pytest
from maze_statistics import (
    BUNDLED,
    ScoresError,
    bundled,
    final_scores,
    normalise,
    normalise_runs,
    parse_references,
    read_csv,
    spans,
)
from maze_statistics.reference_scores import bundled_table

HEAD = "task,algorithm,seed,step,score\n"


def test_lines_become_runs_by_rising_steps(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(
        b"\xef\xbb\xbfScore, extra,step,seed,algorithm,task\r\n"
        b'1.5,?,20,0,ppo,"Pong, hard"\r\n-1e-2,?,10,0,ppo,"Pong, hard"\r\n\r\n.5,?,0,a,a2c,Pong\r\n'
    )
    one, two = read_csv(file)
    assert (one.task, one.algorithm, one.seed) == ("Pong, hard", "ppo", "0")
    assert (one.steps.tolist(), one.scores.tolist()) == ([10.0, 20.0], [-0.01, 1.5])
    assert (two.seed, two.scores.tolist()) == ("a", [0.5])
    assert final_scores([one], "best")["ppo"]["Pong, hard"].tolist() == [1.5]


def test_without_steps_each_run_has_one_line(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("algorithm,task,seed,score\na,x,0,1\na,x,1,2\n")
    assert final_scores(read_csv(file))["a"]["x"].tolist() == [1.0, 2.0]
    file.write_text("algorithm,task,seed,score\na,x,0,1\na,x,0,2\n")
    with pytest.raises(ScoresError, match=r"line 3: a on x with seed 0 has a second score$"):
        read_csv(file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "line 1: must name the columns"),
        (b"task,algo,seed,score\nx,a,0,1\n", "missing: algorithm; there is: task, algo"),
        (b"task,task,algorithm,seed,score\n", "names task twice"),
        (HEAD.encode(), "no score below"),
        (HEAD.encode() + b"x,a,0,1\n", "line 2: has 4 columns"),
        (HEAD.encode() + b"x,a,0,1,2\nx,a,0,1,3\n", "line 3: a on x with seed 0 has a second score at step 1"),
        (HEAD.encode() + b"x,,0,1,2\n", "line 2: algorithm is empty"),
        (HEAD.encode() + b"x,a,0,-1,2\n", "line 2: step must not be negative"),
        (HEAD.encode() + b"x,a\x1b[2J,0,1,2\n", r"line 2: algorithm must have at most 200 printable characters: a\?"),
        (HEAD.encode() + b"x," + b"a" * 201 + b",0,1,2\n", "line 2: algorithm must have at most 200"),
        (HEAD.encode() + b'"x,a,0,1,2\n', "is not CSV in UTF-8"),
        (HEAD.encode() + b"x,a,0,1,2\n\xff\xfe,a,0,1,2\n", "is not CSV in UTF-8"),
        (HEAD.encode() + b"x," + b"a" * 200_000 + b",0,1,2\n", "is not CSV in UTF-8"),
        (b"," * 5000, "has 5,001 columns"),
        *(
            (HEAD.encode() + f"x,a,0,1,{number}\n".encode(), "line 2: score must be a finite number")
            for number in ("nan", "inf", "-inf", "1e999", "1_000", "", "=1+1", "0x10", "١٢", "1" * 5000, "1e101")
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line(tmp_path, content, said):
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    with pytest.raises(ScoresError, match=said) as caught:
        read_csv(file)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none", "/dev/zero", "a\0b"):
        with pytest.raises(ScoresError):
            read_csv(path)


def test_names_that_look_like_formulas_or_markup_stay_text(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(HEAD + "<script>,=cmd|' /C calc'!A0,0,1,2\n")
    assert [(run.task, run.algorithm) for run in read_csv(file)] == [("<script>", "=cmd|' /C calc'!A0")]


@pytest.mark.parametrize("name", BUNDLED)
def test_each_bundled_score_names_its_source(name):
    table = bundled_table(name)
    assert len(table) >= {"atari": 57, "minigrid": 100, "popgym": 12}.get(name, 4)
    assert all(each.low < each.high and len(each.source) > 20 for each in table.values())


@pytest.mark.parametrize(
    ("name", "task", "low", "high"),
    [
        ("atari", "ALE/BattleZone-v5", 2360.0, 37187.5),
        ("atari", "MsPacmanNoFrameskip-v4", 307.3, 6951.6),
        ("atari", "Pong-ramDeterministic-v0", -20.7, 14.6),
        ("atari", "video_pinball", 16256.9, 17667.9),
        ("mujoco", "Hopper-v5", 16.7, 4098.17),
        ("minigrid", "MiniGrid-DoorKey-5x5-v0", 0, 1),
        ("bsuite", "catch/12", -0.6, 1),
        ("popgym", "popgym-RepeatFirstEasy-v0", -1, 1),
    ],
)
def test_tasks_are_found_by_the_names_that_they_have_elsewhere(name, task, low, high):
    found = bundled(name, [task, "Nowhere-v0"])
    assert found.keys() == {task}
    assert (found[task].low, found[task].high) == (low, high)


def test_another_version_of_an_environment_has_other_scores():
    assert not bundled("mujoco", ["Hopper-v4", "Hopper"])
    with pytest.raises(ScoresError, match="there are atari, bsuite"):
        bundled("nes", [])


def test_scores_are_normalised_by_low_and_high(tmp_path):
    by = parse_references({"x": {"low": 10, "high": 20, "source": "mine"}, "cost": {"low": 5.0, "high": 1}})
    found = normalise({"a": {"x": [10, 25], "cost": [3]}}, by)
    assert found["a"]["x"].tolist() == [0.0, 1.5]
    assert found["a"]["cost"].tolist() == [0.5]
    with pytest.raises(ScoresError, match="no reference scores for y"):
        normalise({"a": {"y": [1]}}, by)
    file = tmp_path / "a.csv"
    file.write_text(HEAD + "x,a,0,1,2\nx,a,0,2,4\nx,b,0,1,8\nx,b,1,1,6\n")
    runs = read_csv(file)
    assert [each.scores.tolist() for each in normalise_runs(runs, spans(runs))] == [[-0.5, 0.0], [1.0], [0.5]]
    assert (spans(runs, lower=True)["x"].low, spans(runs[:1])["x"].high) == (8.0, 4.0)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "must have an entry"),
        ({}, "must have an entry"),
        ({"x": 3}, "scores: x: must have low and high"),
        ({"x": {"low": 0}}, "must have low and high"),
        ({"x": {"low": 0, "high": 1, "hihg": 2}}, "must have low and high"),
        ({"x": {"low": 1, "high": 1}}, "must differ"),
        ({"x": {"low": 0, "high": True}}, "finite numbers"),
        ({"x": {"low": float("nan"), "high": 1}}, "finite numbers"),
        ({"x": {"low": "0", "high": 1}}, "finite numbers"),
        ({"x": {"low": 0, "high": 10**400}}, "finite numbers"),
    ],
)
def test_reference_scores_of_another_form_are_refused(raw, said):
    with pytest.raises(ScoresError, match=said):
        parse_references(raw)
