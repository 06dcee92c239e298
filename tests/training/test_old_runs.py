"""Runs that an earlier version saved are evaluated, trained on and built upon: see `fixtures/make_old_runs.py`."""

from __future__ import annotations

import json
import tarfile

import pytest
import torch
import yaml

from maze_core.base.errors import ConfigError
from maze_core.base.process_state import borrowed_rng
from maze_core.run.context import RunContext
from maze_core.run.saved.checkpoint import read_checkpoint
from tests.fixtures.make_old_runs import ARCHIVE, RUNS, SMALL, SPREAD
from tests.states import plain, walk

REFUSED = {
    "dqn_agents": "an earlier version saved the replay data of several agents",
    "sac_memory": "an earlier version saved the replay data of a policy with memory",
}
"""Runs whose replay data this version cannot read."""
MOVED = {"/algorithm/collector/replay/priorities/": "/algorithm/collector/open/selector/"}
"""Parts of the state that lie elsewhere now."""
GREW = {
    "/algorithm/collector/open",
    "/algorithm/collector/replay/priorities",
    "/algorithm/collector/open/selector/values",
}
"""Parts of the state that were empty, only had others in them, or lacked the rows that are open."""
SINCE = {"compiled_from", "evaluated", "largest_batch", "learning_began"}
"""Parts of the state that later versions added."""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def old(unpacked, request, known_plugins):
    """The folder of a run, which no other test changes."""
    name = request.getfixturevalue("name")
    if RUNS[name][1] == SPREAD:
        pytest.importorskip("mpe2")
    return unpacked / name


def last(run_dir):
    return read_checkpoint(run_dir / "checkpoints" / "last")


def assert_parameters(policy, saved):
    ours = policy.state_dict()
    assert ours.keys() == saved.model.keys()
    assert all(torch.equal(ours[name], tensor) for name, tensor in saved.model.items())


def lost_or_changed(before, after):
    """The entries of a saved state that are not in a later one as they were."""
    kept = before.keys() - {"seconds"}
    first, second = (dict(walk(plain({key: state[key] for key in kept}))) for state in (before, after))
    for old_place, place in MOVED.items():
        first = {path.replace(old_place, place): value for path, value in first.items()}
    return {path for path, value in first.items() if path not in second or second[path] != value} - GREW


@pytest.mark.parametrize("name", RUNS)
def test_an_old_run_is_opened_built_upon_and_trained_on(name, old, tmp_path):
    """Its evaluation is that of the old version; every number of its state is taken over."""
    saved, algorithm, overrides = last(old), RUNS[name][0], SMALL | RUNS[name][2]
    with RunContext.open(old, "last") as context:
        assert_parameters(context.policy, saved)
        score = json.loads((old / "run.json").read_text())["summary"]["final_evaluation"]["eval/return_mean"]
        assert context.evaluate()["eval/return_mean"] == pytest.approx(score, rel=1e-3)
    values = {path: yaml.safe_load(value) for path, value in overrides.items()} | {"algorithm.n_epochs": 1}
    parts = {"run_dir": tmp_path / "new", "seed": 2, "silent": True, "preset": "none"}
    with RunContext(algorithm=algorithm, init_from=old, overrides=values, **parts) as context:
        assert_parameters(context.policy, read_checkpoint(old / "checkpoints" / "best"))
        assert (context.run.epoch, context.run.env_steps) == (0, 0)
        assert context.train().outcome == "finished"
    more = {"algorithm.n_epochs": 3, "callbacks.console": None}
    if name in REFUSED:
        with pytest.raises(ConfigError, match=rf"{REFUSED[name]}.*\nNext: .*init.from"):
            RunContext.reopen(old, more)
        return
    with RunContext.reopen(old, more) as context:
        run = context.run
        assert_parameters(context.policy, saved)
        with borrowed_rng(run):
            run.store("last")
        again = last(old).state
        assert lost_or_changed(saved.state, again) == set()
        assert again.keys() - saved.state.keys() <= SINCE
        summary = context.train()
        assert (summary.outcome, summary.epochs, summary.updates) == ("finished", 3, saved.state["updates"] * 3 // 2)
        assert summary.env_steps > saved.state["env_steps"]
        assert any(not torch.equal(tensor, saved.model[key]) for key, tensor in context.policy.state_dict().items())
    lines = [json.loads(line) for line in (old / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert lines[2]["seconds"] > lines[1]["seconds"]
