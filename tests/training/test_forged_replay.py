"""The replay of a saved run that somebody has changed, with fitting checksums, is refused before it is learnt from."""

from __future__ import annotations

import shutil
import zlib
from dataclasses import replace

import numpy as np
import pytest
from maze_devkit.envs import SeededWalk

from maze_core import RunContext
from maze_core.base.errors import CheckpointError
from maze_core.run.saved.checkpoint import read_checkpoint, write_checkpoint
from tests.agents import CrowdSource

SMALL = {
    "algorithm.n_epochs": 1,
    "algorithm.epoch_length": 2,
    "algorithm.num_envs": 2,
    "algorithm.n_rollout_steps": 8,
    "algorithm.batch_size": 8,
    "algorithm.initial_buffer_size": 40,
    "algorithm.replay_buffer_size": 100,
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": None,
    "model.hidden": [4],
}
MEMORY = {
    "model.memory": "gru",
    "model.memory_size": 3,
    "algorithm.sequence_length": 4,
    "algorithm.burn_in": 2,
    "algorithm.prioritized": True,
}
PARTS = {"preset": "none", "seed": 1, "silent": True}


def train(env, folder, more=None):
    with RunContext(env, "dqn", run_dir=folder, overrides=SMALL | (more or {}), **PARTS) as context:
        context.train()
        return context.run.algorithm.kept["collector"].replay


@pytest.fixture(scope="module")
def remembering(tmp_path_factory):
    """The folder of a run, and how its files of rows are laid out, by what their names begin with."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    replay = train(SeededWalk, folder, MEMORY)
    layouts = {"": replay.specs, "sequences-": replay.selector.index.sequences.specs}
    return folder, {
        prefix: np.dtype([(name, spec.dtype, spec.shape) for name, spec in specs.items()])
        for prefix, specs in layouts.items()
    }


def refused(folder, env, problem, more=None):
    context = RunContext(
        env, "dqn", run_dir=None, overrides={**SMALL, **(more or {}), "algorithm.n_epochs": 2}, **PARTS
    )
    with context, pytest.raises(CheckpointError, match=problem):
        context.resume(folder)


def forge(folder, change):
    last = folder / "checkpoints" / "last"
    saved = read_checkpoint(last)
    change(saved.state["algorithm"]["collector"])
    write_checkpoint(last, replace(saved, state=saved.state))


def lanes(**changed):
    return lambda state: state["open"]["selector"]["lanes"].update(changed)


def priorities(**changed):
    return lambda state: state["open"]["selector"]["priorities"].update(changed)


def halved(state):
    leaves = state["open"]["selector"]["remembered"]
    leaves.update({key: leaf.astype(np.float16) for key, leaf in leaves.items()})


def shorter_memory(state):
    state["memory"] = {key: leaf[..., :-1] for key, leaf in state["memory"].items()}


STATES = {
    "no array": (lanes(burnt=[None] * 2), "lanes/burnt should be numbers of int64 .*is a list of 2"),
    "burn-in": (lanes(burnt=np.array([0, 3])), "lanes/burnt should be finite numbers from 0 to below 3"),
    "length": (lanes(steps=np.array([0, 4])), "lanes/steps should be finite numbers from 0 to below 4"),
    "type": (halved, "remembered/.* should be numbers of float32 .*is numbers of float16"),
    "memory": (shorter_memory, r"memory/.* should be numbers .*shape \(2, 1, 3\), but"),
    "priorities": (
        priorities(values=np.full(9, np.nan, np.float32)),
        "priorities/values should be finite numbers from 0.0",
    ),
    "no priority": (priorities(values=np.zeros(99, np.float32)), "none of its sequences has a priority"),
    "largest": (priorities(largest=0.0), "priorities/largest should be a number from 1.17549e-38"),
    "rows": (lambda state: state["replay"].update(rows=2**62), "replay/rows should be an integer from 0"),
    "steps": (lambda state: state["replay"].update(steps=-1), "replay/steps should be an integer from 0, but is -1"),
}


@pytest.mark.parametrize("case", STATES)
def test_states(remembering, tmp_path, case):
    change, problem = STATES[case]
    folder = shutil.copytree(remembering[0], tmp_path / "run")
    forge(folder, change)
    refused(folder, SeededWalk, problem, MEMORY)


ROWS = [
    ("", "action/action", 3, r"replay data \(action/action\) should be .*numbers from 0 to below 3"),
    ("", "action/action", -1, "replay data .*should be .*numbers from 0 to below 3"),
    ("", "ahead", 0, "its replay data have no step"),
    ("sequences-", "steps", 0, "sequences should be .*numbers from"),
    ("sequences-", "steps", 2**31 - 1, "sequences should be .*numbers from"),
    ("sequences-", "burnt", 3, "sequences should be .*numbers from"),
    ("sequences-", "state", 2**60, "sequences should be .*numbers from"),
]
"""With no step to draw and with sequences of none, a draw would never end."""


@pytest.mark.parametrize(("prefix", "column", "value", "problem"), ROWS)
def test_rows(remembering, tmp_path, prefix, column, value, problem):
    trained, layouts = remembering
    folder = shutil.copytree(trained, tmp_path / "run")

    def change(state):
        log = state["replay"]["selector"][prefix] if prefix else state["replay"]
        for segment in log["segments"]:
            path = folder / "replay" / segment["file"]
            records = np.fromfile(path, layouts[prefix])
            records[column] = value
            path.write_bytes(records.tobytes())
            segment["crc"] = zlib.crc32(records[: segment["count"]].tobytes())

    forge(folder, change)
    refused(folder, SeededWalk, problem, MEMORY)


def test_the_open_transitions_of_several_agents(tmp_path):
    folder = tmp_path / "run"
    train(CrowdSource, folder)

    def longer(state):
        carried = state["sink"]["carried"]
        carried.update({key: np.concatenate([leaf, leaf]) for key, leaf in carried.items() if key != "reward"})

    forge(folder, longer)
    refused(folder, CrowdSource, "sink/carried/obs/.* should be numbers")
