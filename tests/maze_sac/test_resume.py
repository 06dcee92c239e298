"""A SAC run that was killed or stopped resumes exactly, replay data included."""

from __future__ import annotations

import os
import random
import signal
from contextlib import closing

import numpy as np
import pytest
from maze_devkit.envs import SeededWalk
from maze_devkit.probes import Workshop
from maze_devkit.turns import Carousel
from maze_offpolicy.replay.buffer import ReplayBuffer
from maze_offpolicy.replay.log import ReplayLog

from maze_core.base.errors import CheckpointError
from maze_core.envs.sources.factory import FactorySource
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.discovery import overlay
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.context import RunContext
from maze_core.run.episodes.saved_evaluation import evaluate_saved
from maze_core.run.run import Run
from maze_core.run.saved import saved_run
from maze_core.run.saved.checkpoint import KeptState, read_checkpoint
from tests.assemblies import assembly_of
from tests.bomb import bomb
from tests.interrupted import interrupted
from tests.killed import kill_after, start

# The ring is overwritten several times: its rows reach back three epochs.
SETTINGS = {
    "algorithm.n_epochs": 8,
    "algorithm.epoch_length": 8,
    "algorithm.num_envs": 2,
    "algorithm.replay_buffer_size": 60,
    "algorithm.initial_buffer_size": 50,
    "algorithm.n_step": 2,
    "model.name": "template",
    "model.image_features": 16,
    "model.normalize_observations": True,
}
ASSEMBLY = Assembly(overlay({("env", "factory"): FactorySource, ("callback", "bomb"): Plugin}))
REMEMBERING = {name: value for name, value in SETTINGS.items() if not name.startswith("model.")} | {
    "algorithm.replay_buffer_size": 90,
    "algorithm.sequence_length": 6,
    "algorithm.burn_in": 4,
    "model.memory": "gru",
    "model.memory_size": 8,
    "model.normalize_observations": True,
}
"""The settings of a policy with memory, for several actors and masks."""
QUICK = {
    "algorithm.batch_size": 16,
    "algorithm.critic_hidden": [8, 8],
    "evaluation.n_episodes": 2,
    "model.hidden": [16, 16],
    "callbacks.tensorboard": None,
}


def replay_of(run_dir, env, name="last"):
    """The rows of a checkpoint that can be sampled, as a new process finds them.

    In a full ring the next observations of the environments take the place of the oldest rows before anything is drawn.
    """
    state = read_checkpoint(run_dir / "checkpoints" / name).state["algorithm"]["collector"]["replay"]
    config = ASSEMBLY.load_run_config(run_dir / "config.yaml").algorithm
    buffer = ReplayBuffer(env.observation_space, env.action_space, config.replay_buffer_size)
    ReplayLog(run_dir / "replay", buffer).load(state)
    count = min(buffer.rows, buffer.capacity - config.num_envs)
    columns = buffer.read(buffer.rows - count, count)
    steps = columns["ahead"] > 0
    assert steps.sum() > 20
    return buffer.rows, steps.tobytes(), {key: column[steps].tobytes() for key, column in columns.items()}


def assert_runs_equal(one, other, env, whole_state, assert_same):
    for name in ("last", "previous", "best"):
        assert_same(whole_state(one, name), whole_state(other, name))
        assert replay_of(one, env, name) == replay_of(other, env, name)


@pytest.mark.slow
def test_kill_9_with_memory_masks_and_several_actors_ends_bit_equal(sac, tmp_path, whole_state, assert_same):
    """Kills at random moments, then the end. `tests/attack` kills runs without memory before an operation on files."""
    run_dir = killed(tmp_path / "killed", Carousel, REMEMBERING)
    whole = sac(Carousel, REMEMBERING | QUICK, run_dir=tmp_path / "whole")
    whole.train()
    for name in ("last", "previous", "best"):
        assert_same(whole_state(run_dir, name), whole_state(whole.run_dir, name))
    one, other = (sequences_of(each) for each in (run_dir, whole.run_dir))
    assert len(one["steps"]) >= 15
    for name, column in one.items():
        np.testing.assert_array_equal(column, other[name], err_msg=name)


def sequences_of(run_dir):
    """The rows of the last checkpoint and where sequences begin in them, as a new process finds them."""
    assembly = Assembly(overlay({("env", "factory"): FactorySource.of(Carousel)}))
    with closing(saved_run.reopen(run_dir, ["algorithm.n_epochs=9"], assembly=assembly)) as run:
        replay = run.algorithm.kept["collector"].replay
        index = replay.selector.index
        records = index.sequences.read(index.sequences.oldest, index.sequences.rows - index.sequences.oldest)
        remembered = {f"state/{key}": leaf for key, leaf in index.remembered(records["state"]).items()}
        return {**records, **remembered, **replay.read(replay.settled - 100, 100)}


def killed(run_dir, env, settings):
    """Train in processes that are killed at random moments, and resume to the end; return the run directory."""
    chance = random.Random()
    for number, least in enumerate((0, 3)):
        epochs, pause = least + chance.randint(0, 2), chance.random() / 20
        print("kill after epoch and seconds", epochs, pause)
        kill_after(start("sac", env, run_dir, settings | QUICK, resume=number > 0), run_dir, epochs, pause)
    process = start("sac", env, run_dir, settings | QUICK, resume=True)
    assert process.wait(120) == 0, process.communicate()
    return run_dir


@pytest.mark.slow
def test_a_stop_in_an_epoch_and_states_kept_in_memory_change_nothing(sac, whole_state, assert_same, monkeypatch):
    """Such states store new rows of replay in the middle of an epoch, and while the buffer is filled."""
    runs = []
    for at, due in ((0, False), (33, True)):
        monkeypatch.setattr(KeptState, "is_due", due)
        runs.append(sac(Workshop, SETTINGS | QUICK, callbacks={"bomb": bomb(at=at)}))
        if not at:
            assert runs[-1].train().outcome == "finished"
        else:
            assert interrupted(runs[-1].train).outcome == "interrupted"
            assert runs[-1].resume(runs[-1].run_dir).outcome == "finished"
    assert_runs_equal(runs[1].run_dir, runs[0].run_dir, Workshop(), whole_state, assert_same)


def test_stop_while_the_buffer_is_filled(sac, whole_state, assert_same):
    """The guide's random numbers and the environments go on where they were."""

    class Impatient(SeededWalk):
        steps = 0

        def step(self, action):
            Impatient.steps += 1
            if Impatient.steps == 37:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().step(action)

    values = {"algorithm.initial_buffer_size": 60}
    stopped = sac(Impatient, values)
    summary = interrupted(stopped.train)
    assert (summary.outcome, summary.updates) == ("interrupted", 0)
    assert 37 <= summary.env_steps < 60
    stopped.resume(stopped.run_dir)
    whole = sac(SeededWalk, values)
    whole.train()
    assert_runs_equal(stopped.run_dir, whole.run_dir, SeededWalk(), whole_state, assert_same)


@pytest.mark.slow
def test_every_checkpoint_can_be_gone_on_from(sac, whole_state, assert_same):
    """Also one that is older than all rows in the ring."""
    context = sac(Workshop, SETTINGS | QUICK, callbacks={"best_checkpoint": KeepThird})
    context.train()
    expected, rows = whole_state(context.run_dir), replay_of(context.run_dir, Workshop())
    oldest = rows[0] - 60
    assert replay_of(context.run_dir, Workshop(), "best")[0] < oldest
    for name in ("previous", "best"):
        context.resume(context.run_dir, name)
        assert_same(whole_state(context.run_dir), expected)
        assert replay_of(context.run_dir, Workshop()) == rows


class KeepThird(Plugin):
    """Keeps epoch 3 as the best."""

    @hookimpl
    def on_epoch_end(self, run, epoch):
        if epoch.epoch == 3:
            run.save_checkpoint("best")


def test_rows_on_disk_are_written_once_and_pruned(sac):
    sizes = {"algorithm.n_epochs": 40, "algorithm.epoch_length": 4, "algorithm.n_rollout_steps": 4}
    small = {"algorithm.replay_buffer_size": 60, "algorithm.num_envs": 2}
    context = sac(SeededWalk, QUICK | sizes | small, callbacks={"best_checkpoint": None})
    context.train()
    algorithm = context.run.algorithm
    files = sorted((context.run_dir / "replay").iterdir())
    record = algorithm.kept["collector"].replay.nbytes / algorithm.kept["collector"].replay.capacity
    assert algorithm.kept["collector"].replay.rows > 1000
    assert sum(path.stat().st_size for path in files) <= 2 * algorithm.kept["collector"].replay.nbytes
    assert all(path.stat().st_size % record == 0 for path in files)
    assert algorithm.disk_bytes >= 2 * algorithm.kept["collector"].replay.nbytes


def test_states_kept_in_memory_take_no_more_disk(sac, monkeypatch):
    """An epoch overwrites the ring several times; its middle is stored often."""
    monkeypatch.setattr(KeptState, "is_due", True)
    sizes = {"algorithm.replay_buffer_size": 60, "algorithm.num_envs": 2, "algorithm.epoch_length": 60}
    context = sac(SeededWalk, QUICK | sizes | {"algorithm.n_rollout_steps": 4, "algorithm.n_epochs": 1})
    written = []
    monkeypatch.setattr(Run, "count_update", lambda run: (written.append(on_disk(run)), count_update(run)))
    context.train()
    assert context.run.algorithm.kept["collector"].replay.rows > 480
    assert 0 < max(written) <= context.run.algorithm.disk_bytes


count_update = Run.count_update


def on_disk(run):
    return sum(path.stat().st_size for path in (run.run_dir / "replay").iterdir())


def test_damaged_replay_data_are_one_clear_error_and_the_policy_is_still_there(sac):
    context = sac(SeededWalk)
    context.train()
    (path,) = (context.run_dir / "replay").iterdir()
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="is damaged") as caught:
        saved_run.reopen(context.run_dir, ["algorithm.n_epochs=5"], assembly=assembly_of(context.run))
    assert str(path) in str(caught.value)
    assert np.isfinite(
        evaluate_saved(context.run_dir, episodes=1, assembly=assembly_of(context.run)).metrics["eval/return_mean"]
    )


def test_a_policy_starts_from_that_of_another_run(sac):
    first = sac(SeededWalk)
    first.train()
    second = sac(SeededWalk, {"algorithm.lr": 1e-5}, init_from=first.run_dir)
    for name, value in second.policy.state_dict().items():
        assert np.array_equal(value, read_checkpoint(first.run_dir / "checkpoints" / "best").model[name])


def test_a_run_of_named_parts_is_resumed_from_its_directory_alone(tmp_path):
    values = {"algorithm.initial_buffer_size": 20, "algorithm.n_epochs": 2, "algorithm.epoch_length": 3} | QUICK
    with RunContext("CartPole-v1", "sac", overrides=values, seed=1, silent=True, run_dir=tmp_path / "r") as context:
        context.train()
    summary = saved_run.resume(tmp_path / "r", ["algorithm.n_epochs=3"])
    assert (summary.epochs, summary.updates) == (3, 9)
