"""What a run directory tells, also a damaged one."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from datetime import date
from pathlib import Path

import pytest
from maze_compare.groups import differing, flatten, group, labels, number, spread
from maze_compare.records import DamagedRun, find_records, read_or_damaged, read_run

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.checksummed_yaml import checksummed
from maze_core.run.saved.manifest import Extent
from maze_core.run.saved.metrics_file import Metrics, damage
from maze_core.run.saved.run_dir import is_locked, lock


def test_facts_of_a_finished_run(make_run):
    run = read_run(make_run("a", [1.0, 5.0, None, 3.0], final=4.0, seed=3))
    assert (run.env, run.algorithm, run.seed, run.state, run.reason) == (
        "CartPole-v1",
        "ppo",
        3,
        "finished",
        "because a",
    )
    assert (run.count("env_steps"), run.count("epoch"), run.count("seconds")) == (400, 4, 2.0)
    assert (run.value(), run.value(take="last"), run.value(minimize=True)) == (5.0, 4.0, 1.0)
    assert run.started.isoformat() == "2026-01-04T00:00:00+00:00"
    assert run.value("no/such") is None


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("finished", "finished"), ("stopped", "finished"), ("interrupted", "interrupted"), ("failed", "failed"),
     (None, "killed")],
)  # fmt: skip
def test_states(make_run, outcome, state):
    assert read_run(make_run("a", [1.0], outcome=outcome)).state == state


def test_a_run_that_somebody_trains_is_running(make_run):
    folder = make_run("a", [1.0, 2.0], outcome=None)
    with lock(folder):
        run = read_run(folder)
        assert run.state == "running"
        assert run.count("env_steps") == 200  # from the epochs, as nothing has ended
    assert read_run(folder).state == "killed"
    assert not is_locked(folder.parent)


def test_looking_does_not_keep_a_run_from_starting(make_run, monkeypatch):
    """`lock` tries again where somebody was just looking."""
    folder = make_run("a", [1.0], outcome=None)
    (folder / ".lock").touch()
    import fcntl
    import time

    held = (folder / ".lock").open("rb")
    fcntl.flock(held, fcntl.LOCK_SH)
    monkeypatch.setattr(time, "sleep", lambda _: held.close())
    lock(folder).close()


def test_torn_lines_are_left_out(make_run):
    folder = make_run("a", [1.0, 2.0], outcome=None)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 3, "env_st')
    assert len(read_run(folder).epochs) == 2


DAMAGE = {
    "config.yaml": ["a: [", "just words", "env: 3\nalgorithm: {name: ppo}", "\x00\xff"],
    "run.json": ["{", "[]", '{"summary": 3}', '{"summary": {"outcome": "odd"}}', None],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in DAMAGE.items() for text in texts])
def test_damaged_folders_are_skipped_with_one_line(make_run, name, text):
    whole, damaged = make_run("a", [1.0]), make_run("b", [2.0])
    if text is None:
        (damaged / name).unlink()
    else:
        (damaged / name).write_bytes(text.encode("latin1"))
    said: list[str] = []
    assert [run.path for run in find_records([whole.parent], said.append)] == [whole]
    (line,) = said
    assert line.startswith(f"skipped {damaged}: ")
    assert "\n" not in line


@pytest.mark.parametrize("what", ["a link to itself", "a link to nothing", "a time that no calendar has"])
def test_a_folder_whose_configuration_tells_no_time(make_run, what):
    folder = make_run("a", [1.0])
    path = folder / "config.yaml"
    if "link" in what:
        path.unlink()
        path.symlink_to(path if "itself" in what else "nowhere")
    else:
        (folder / "run.json").unlink()
        os.utime(path, (1e18, 1e18))
    found = read_or_damaged(folder)
    assert isinstance(found, DamagedRun)
    assert found.changed.year <= date.today().year


def test_what_to_do_about_a_damaged_folder_is_a_sentence_of_its_own(make_run):
    folder = make_run("a", [1.0])
    (folder / "config.yaml").write_text(checksummed((folder / "config.yaml").read_text()) + "seed: 3\n")
    said: list[str] = []
    assert find_records([folder], said.append) == []
    assert "its checksum does not match. To change a run: maze resume" in said[0]


def test_metrics_that_are_missing_are_not_called_changed(make_run):
    folder = make_run("a", [1.0])
    epochs = read_run(folder).epochs
    there = (folder / "metrics.jsonl").read_bytes()
    extents = {"metrics.jsonl": Extent(len(there), hashlib.sha256(there).hexdigest())}
    assert damage(folder, Metrics(epochs), extents) == ""
    (folder / "metrics.jsonl").unlink()
    assert damage(folder, Metrics(), extents) == f"{folder / 'metrics.jsonl'} is missing"


def test_foreign_folders_are_nothing_to_speak_of(make_run, tmp_path):
    whole = make_run("deep/down/a", [1.0])
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / "notes" / "todo.txt").write_text("x")
    said: list[str] = []
    found = find_records([tmp_path, whole], said.append)
    assert [run.path for run in found] == [whole]  # once, though named twice
    assert said == []


def test_places_without_runs(tmp_path):
    with pytest.raises(ConfigError, match="there is no"):
        find_records([tmp_path / "none"], print)
    with pytest.raises(ConfigError, match="contains no run"):
        find_records([tmp_path], print)


def test_groups_are_runs_that_differ_in_the_seed_alone(make_run):
    for seed in range(3):
        make_run(f"slow{seed}", [1.0], seed=seed, lr=1e-4)
        make_run(f"fast{seed}", [1.0], seed=seed, lr=1e-2)
    folder = make_run("tuned", [1.0], lr=1e-2, init_from="/elsewhere")
    groups = group(find_records([folder.parent], print))
    assert [(each.settings["algorithm.lr"], sorted(each.seeds)) for each in groups] == [
        (1e-2, [0, 1, 2]), (1e-4, [0, 1, 2]), (1e-2, [0])
    ]  # fmt: skip
    assert differing(groups) == ["algorithm.lr", "init_from"]
    assert labels(groups) == ["lr=0.01", "lr=0.0001", "lr=0.01, init_from=/elsewhere"]
    assert labels(groups[:2]) == ["lr=0.01", "lr=0.0001"]
    assert labels(groups[:1]) == ["ppo on CartPole-v1"]


def test_parameters_that_only_one_algorithm_has_are_no_difference(make_run):
    make_run("a", [1.0], algorithm="a2c")
    make_run("b", [1.0], clip_range=0.1)
    last = make_run("c", [1.0], clip_range=0.2)
    groups = group(find_records([last.parent], print))
    assert differing(groups) == ["algorithm.name", "algorithm.clip_range"]
    assert labels(groups) == ["a2c", "ppo, clip_range=0.1", "ppo, clip_range=0.2"]
    assert differing(groups[:2]) == ["algorithm.name"]


def test_a_label_says_no_more_than_it_must(make_run):
    make_run("a", [1.0], algorithm="a2c", lr=0.1)
    last = make_run("b", [1.0], gamma=0.5)
    groups = group(find_records([last.parent], print))
    assert differing(groups) == ["algorithm.name", "algorithm.gamma", "algorithm.lr"]
    assert labels(groups) == ["a2c", "ppo"]
    make_run("c", [1.0], gamma=0.5, lr=0.2)
    groups = group(find_records([last.parent], print))
    assert labels(groups) == ["a2c, lr=0.1", "ppo, lr=0.001", "ppo, lr=0.2"]


def test_spread_is_that_of_a_sample():
    found = spread([1.0, None, 2.0, 6.0])
    assert found is not None
    assert (found.mean, found.count) == (3.0, 3)
    assert found.std == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert str(found) == "3 ± 2.65"
    assert str(spread([2.0])) == "2"
    assert spread([None]) is None


def test_flatten():
    tree = {"a": {"b": [1, 2], "c": {}}, "w": [{"name": "x", "n": 1}], "e": None}
    assert flatten(tree) == {"a.b": [1, 2], "a.c": {}, "w.0.name": "x", "w.0.n": 1, "e": None}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (500.0, "500"),
        (1234567.8, "1,234,568"),
        (0.000123456, "0.00012346"),
        (999_999_999_999_999, "999,999,999,999,999"),
        (-1e307, "-1e+307"),
    ],
)
def test_numbers(value, shown):
    assert number(value) == shown


def test_reading_imports_no_torch():
    import subprocess

    code = "import sys, maze_compare.groups, maze_compare.command; sys.exit('torch' in sys.modules)"
    root = Path(__file__).resolve().parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0
