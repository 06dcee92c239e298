"""A fork begins with the whole state of another run, which stays as it is."""

import json
import os

import pytest
from maze_compare.family import families
from maze_compare.records import find_records
from maze_devkit.envs import SeededWalk
from maze_fork import directory as forks
from maze_fork.directory import fork_directory

from maze_core import ConfigError, RunContext
from maze_core.base import files
from maze_core.base.errors import CheckpointError
from maze_core.plugins.config.record import read_record, write_record

REPLAY = {"algorithm.initial_buffer_size": 20, "algorithm.batch_size": 8}
MORE = {"algorithm.n_epochs": 3}
RUNS = {
    "memory": ("CartPole-v1", "a2c", {"model.memory": "gru", "algorithm.normalize_rewards": True}),
    "workers": ("CartPole-v1", "ppo", {"runner": "local"}),
    "priorities": ("CartPole-v1", "dqn", {**REPLAY, "algorithm.priority_exponent": 0.6, "algorithm.n_step": 3}),
    "strategy": ("CartPole-v1", "es", {"algorithm.n_rollouts_per_update": 2}),
}


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", RUNS)
def test_it_ends_as_the_run_does(quick, whole_state, assert_same, tmp_path, name):
    env, algorithm, values = RUNS[name]
    whole = quick(env, algorithm, MORE | values)
    whole.train()
    before = contents(whole.run_dir)
    child = RunContext.fork(whole.run_dir, checkpoint="previous", new_dir=tmp_path / "child")
    with child:
        assert child.run.epoch == 2
        child.train()
    assert_same(whole_state(child.run_dir), whole_state(whole.run_dir))
    assert contents(whole.run_dir) == before
    lines = [(each / "metrics.jsonl").read_text().splitlines() for each in (whole.run_dir, child.run_dir)]
    steps = [[json.loads(line)["env_steps"] for line in each] for each in lines]
    assert steps[0] == steps[1]
    assert len(steps[0]) == 3


def test_rows_of_replay_are_shared_and_neither_run_changes_those_of_the_other(quick, whole_state, assert_same):
    parent = quick("Pendulum-v1", "sac", MORE | REPLAY)
    parent.train(1)
    child = fork_directory(parent.run_dir)
    (rows,) = (child / "replay").iterdir()
    assert rows.stat().st_nlink == 2
    with RunContext.reopen(child) as context:
        context.train()
        parent.train()
        assert_same(whole_state(child), whole_state(parent.run_dir))
        grandchild = fork_directory(child)
    with RunContext.reopen(grandchild, {"algorithm.n_epochs": 4}) as context:
        context.train()
    assert rows.stat().st_nlink == 3


def test_rows_are_copied_where_a_file_has_one_name(quick, monkeypatch, whole_state, assert_same):
    def refused(*_, **__):
        raise OSError(18, "Invalid cross-device link")

    parent = quick("Pendulum-v1", "sac", REPLAY)
    parent.train(1)
    monkeypatch.setattr(os, "link", refused)
    child = fork_directory(parent.run_dir)
    (rows,) = (child / "replay").iterdir()
    assert rows.stat().st_nlink == 1
    assert_same(whole_state(child), whole_state(parent.run_dir))


def test_what_was_changed_counts_and_is_in_the_record(quick, tmp_path):
    parent = quick("CartPole-v1", "a2c")
    parent.train()
    with RunContext.fork(parent.run_dir, {"algorithm.lr": 1e-5, "algorithm.n_epochs": 3}) as child:
        child.train()
        assert child.config.algorithm.lr == 1e-5
        assert child.run_dir == parent.run_dir.with_name(f"{parent.run_dir.name}-fork")
    origin = read_record(child.run_dir)["forked_from"]
    assert origin == {
        "run": str(parent.run_dir),
        "id": read_record(parent.run_dir)["id"],
        "checkpoint": "last",
        "epoch": 2,
        "env_steps": parent.run.env_steps,
    }
    with RunContext.fork(child.run_dir, {"algorithm.n_epochs": 4}) as third:
        third.train()
    members = families(find_records([parent.run_dir.parent], pytest.fail))
    assert [(len(each.branches), each.changed) for each in members] == [
        (0, ""),
        (1, "epoch 2: algorithm.lr 0.004 → 1e-05, algorithm.n_epochs 2 → 3"),
        (2, "epoch 3: algorithm.n_epochs 3 → 4"),
    ]


def test_python_objects_go_along(quick, whole_state, assert_same):
    parent = quick(SeededWalk, "ppo", MORE)
    parent.train()
    child = quick(SeededWalk, "ppo", MORE)
    child.resume(parent.run_dir, "previous", fork=True)
    assert child.run_dir != parent.run_dir
    assert_same(whole_state(child.run_dir), whole_state(parent.run_dir))


REFUSED = [
    ({}, "is finished"),
    ({"model.hidden": [8]}, "model.hidden cannot change here"),
    ({"model.memory": "gru", "algorithm.lr": 0.1}, "algorithm.lr, model.memory.* cannot all change here"),
    ({"env.id": "Acrobot-v1"}, "observation_space was"),
    ({"algorithm": "a2c"}, "was trained by ppo"),
    ({"seed": 5}, "was 1 when .*run0 began"),
    ({"algorithm.lr": -1}, "algorithm.lr"),
]


def test_what_cannot_be_is_refused_by_name_and_leaves_no_folder(quick):
    parent = quick("CartPole-v1")
    parent.train()
    there = sorted(parent.run_dir.parent.iterdir())
    for overrides, words in REFUSED:
        with pytest.raises((ConfigError, CheckpointError), match=words) as caught:
            RunContext.fork(parent.run_dir, overrides)
        assert "fork-" not in str(caught.value)
        assert "run0-fork" not in str(caught.value)
    assert sorted(parent.run_dir.parent.iterdir()) == there


def test_a_fork_of_what_is_damaged_is_refused(quick, tmp_path):
    parent = quick("Pendulum-v1", "sac", REPLAY)
    parent.train()
    (rows,) = (parent.run_dir / "replay").iterdir()
    kept = rows.read_bytes()
    rows.write_bytes(kept[:-8])
    with pytest.raises(CheckpointError, match="cut short"):
        RunContext.fork(parent.run_dir, MORE)
    rows.unlink()
    rows.symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="link"):
        RunContext.fork(parent.run_dir, MORE)
    rows.unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        RunContext.fork(parent.run_dir, MORE)
    rows.write_bytes(kept)
    with pytest.raises(ConfigError, match="is not empty"):
        RunContext.fork(parent.run_dir, MORE, new_dir=parent.run_dir)
    with pytest.raises(ConfigError, match="in the folder of the other run"):
        RunContext.fork(parent.run_dir, MORE, new_dir=parent.run_dir / "checkpoints" / "other")
    (parent.run_dir / "checkpoints/last/state.json").write_text("{}")
    with pytest.raises(CheckpointError, match="damaged"):
        RunContext.fork(parent.run_dir, MORE)
    with RunContext.fork(parent.run_dir, MORE, "previous", tmp_path / "other") as context:
        context.train()


def test_a_row_file_that_vanishes_meanwhile_is_told(quick, monkeypatch):
    parent = quick("Pendulum-v1", "sac", REPLAY)
    parent.train()

    def gone(*_):
        raise FileNotFoundError(2, "No such file")

    monkeypatch.setattr(files, "link", gone)
    with pytest.raises(CheckpointError, match="the same command again"):
        fork_directory(parent.run_dir)
    assert not parent.run_dir.with_name("run0-fork").exists()


def test_one_that_was_killed_before_it_was_complete_is_told(quick, monkeypatch):
    parent = quick("CartPole-v1", "a2c")
    parent.train()

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(forks, "write_checkpoint", killed)
    monkeypatch.setattr(forks, "remove_run_dir", lambda folder: None)
    child = parent.run_dir.with_name("run0-fork")
    with pytest.raises(KeyboardInterrupt):
        fork_directory(parent.run_dir)
    assert (child / "metrics.jsonl").exists()
    for call in (RunContext.reopen, RunContext.open):
        with pytest.raises((ConfigError, CheckpointError), match="without a checkpoint"):
            call(child)
    with pytest.raises(ConfigError, match="without a checkpoint"):
        RunContext.fork(parent.run_dir, MORE, new_dir=child)


def test_the_best_so_far_goes_along_and_a_later_one_does_not(quick, tmp_path):
    parent = quick("CartPole-v1", "ppo", {"algorithm.n_epochs": 4})
    parent.train()
    best = read_record(parent.run_dir)["summary"]["best_epoch"]
    for checkpoint in ("last", "previous", "best"):
        child = fork_directory(parent.run_dir, tmp_path / checkpoint, checkpoint)
        there = (child / "checkpoints" / "best").exists()
        assert there == (checkpoint != "previous" or best < 4)


def test_records_that_name_each_other_end(quick):
    first, second = quick("CartPole-v1", "a2c"), quick("CartPole-v1", "a2c")
    for each in (first, second):
        each.train()
    ids = [read_record(each.run_dir)["id"] for each in (first, second)]
    for each, other in ((first, ids[1]), (second, ids[0])):
        origin = {"run": "x", "id": other, "checkpoint": "last", "epoch": [], "env_steps": 1}
        write_record(each.run_dir, {**read_record(each.run_dir), "forked_from": origin})
    members = families(find_records([first.run_dir.parent], pytest.fail))
    assert [len(each.branches) for each in members] == [0, 1]
    assert forks.FORKED_FROM == "forked_from"
