"""Runs of DQN, Ape-X and PQN that were killed or stopped end bit-equal to undisturbed ones, priorities included."""

from __future__ import annotations

import pytest
from maze_devkit.probes import Doors

from tests.bomb import bomb
from tests.interrupted import interrupted
from tests.killed import kill_after, start

# The ring is overwritten several times.
SETTINGS = {
    "dqn": {
        "algorithm.num_envs": 2,
        "algorithm.replay_buffer_size": 60,
        "algorithm.initial_buffer_size": 50,
        "algorithm.n_step": 2,
        "algorithm.prioritized": True,
        "algorithm.noisy": True,
        "algorithm.dueling": True,
        "algorithm.double": True,
        "algorithm.target_update_interval": 5,
        "algorithm.head": "categorical",
    },
    "apex": {
        "algorithm.num_actors": 3,
        "algorithm.envs_per_actor": 2,
        "algorithm.n_rollout_steps": 3,
        "algorithm.num_batches_per_iter": 1,
        "algorithm.replay_buffer_size": 60,
        "algorithm.initial_buffer_size": 50,
        "algorithm.noisy": True,
        "algorithm.target_update_interval": 5,
    },
    "pqn": {"algorithm.num_envs": 3, "algorithm.n_rollout_steps": 6},
}
TINY = {
    "algorithm.n_epochs": 8,
    "algorithm.epoch_length": 6,
    "algorithm.batch_size": 16,
    "algorithm.epsilon.end": 100,
    "model.normalize_observations": True,
    "evaluation.n_episodes": 2,
    "callbacks.tensorboard": None,
}


@pytest.mark.slow
def test_kill_9_ends_bit_equal(learn, tmp_path, whole_state, assert_same):
    """Of Ape-X, which has actors, replay and priorities."""
    algorithm = "apex"
    values = TINY | SETTINGS[algorithm] | {"algorithm.n_epochs": 16, "model.hidden": [16, 16]}
    run_dir = tmp_path / "killed"
    kill_after(start(algorithm, Doors, run_dir, values), run_dir, epochs=3)
    process = start(algorithm, Doors, run_dir, values, resume=True)
    assert process.wait(120) == 0, process.communicate()
    whole = learn(Doors, algorithm, values)
    whole.train()
    for name in ("last", "previous"):
        assert_same(whole_state(run_dir, name), whole_state(whole.run_dir, name))


@pytest.mark.parametrize("algorithm", ["dqn", "apex", "pqn"])
def test_stop_in_the_middle_of_an_epoch(learn, whole_state, assert_same, algorithm):
    values = TINY | SETTINGS[algorithm]
    stopped = learn(Doors, algorithm, values, callbacks={"bomb": bomb(at=21)})
    assert interrupted(stopped.train).outcome == "interrupted"
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    whole = learn(Doors, algorithm, values, callbacks={"bomb": bomb(at=0)})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))
    if algorithm != "pqn":
        priorities = whole.run.algorithm.kept["collector"].state()["open"]["selector"]
        assert len(set(priorities["values"].tolist())) > 10


@pytest.mark.parametrize("before", [False, True])
def test_a_run_may_go_on_with_priorities_or_without(learn, before):
    context = learn(Doors, overrides={"algorithm.prioritized": before})
    context.train()
    changed = learn(Doors, overrides={"algorithm.prioritized": not before, "algorithm.n_epochs": 4})
    assert changed.resume(context.run_dir).updates == 20
    priorities = changed.run.algorithm.kept["collector"].replay.priorities
    assert (priorities is None) == before
