"""How many updates are taken for how many environment steps, from how many rows, and that a resumed run goes on so."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from maze_devkit.envs import SeededWalk


def updates_by_pass(context):
    """Trains and returns environment steps and updates after each pass."""
    run, seen = context.run, []
    count = run.count_update
    run.count_update = lambda: (seen.append((run.env_steps, run.learner.steps)), count())[1]
    context.train()
    return seen


@pytest.mark.parametrize(("utd", "collect", "envs"), [(0.1, 1, 1), (0.3, 10, 3), (2.5, 4, 2), (3, None, 2), (1, 7, 8)])
def test_updates_keep_pace_with_the_steps(sac, utd, collect, envs):
    """Also where steps do not fill whole rounds of the environments, and where a float is no exact fraction."""
    values = {"algorithm.utd": utd, "algorithm.num_envs": envs, "algorithm.num_batches_per_iter": 9}
    values |= {} if collect is None else {"algorithm.collect_steps": collect, "algorithm.n_rollout_steps": 5}
    values |= {"algorithm.rollouts_per_iteration": 1 if collect is None else 2}
    context = sac(SeededWalk, values | {"algorithm.epoch_length": 10})
    passes = updates_by_pass(context)
    first = math.ceil(20 / envs) * envs
    each = envs * math.ceil((collect or 1) / envs)
    assert [steps for steps, _ in passes] == [first + each * n for n in range(1, 21)]
    assert [updates for _, updates in passes] == [int(Fraction(str(utd)) * each * n) for n in range(1, 21)]


def test_a_resumed_run_knows_the_fraction_that_was_left(sac, whole_state, assert_same):
    values = {"algorithm.utd": 0.3, "algorithm.collect_steps": 2, "algorithm.epoch_length": 3}
    whole = sac(SeededWalk, values | {"algorithm.n_epochs": 4})
    whole.train()
    part = sac(SeededWalk, values | {"algorithm.n_epochs": 1})
    part.train()
    assert part.run.learner.steps == 1  # and 0.8 of the next one
    assert Fraction(*part.run.algorithm.state()["collector"]["due"]) == Fraction(4, 5)
    further = sac(SeededWalk, values | {"algorithm.n_epochs": 4})
    assert further.resume(part.run_dir).updates == 12
    states = [whole_state(run_dir) for run_dir in (part.run_dir, whole.run_dir)]
    assert_same(*states)


def sizes_of(context, monkeypatch):
    """Trains and returns the rows of each batch."""
    sizes, collector = [], context.run.algorithm.kept["collector"]
    sample = collector.sample

    def counted(rows, *rest):
        sizes.append(rows)
        return sample(rows, *rest)

    monkeypatch.setattr(collector, "sample", counted)
    context.train()
    return sizes


@pytest.mark.parametrize(("early", "settings"), [(40, {}), (40, {"learners": 2}), (4, {"model.memory": "gru"})])
def test_first_updates_have_batches_of_another_size(sac, early, settings, monkeypatch, assert_same, whole_state):
    """Also in a run that is resumed among them."""
    values = {"algorithm.early_batch_size": early, "algorithm.early_updates": 7, **settings}
    context = sac(SeededWalk, values)
    assert sizes_of(context, monkeypatch) == [early] * 7 + [16] * 3
    part = sac(SeededWalk, values | {"algorithm.n_epochs": 1})
    part.train()
    further = sac(SeededWalk, values)
    further.resume(part.run_dir)
    assert_same(whole_state(part.run_dir), whole_state(context.run_dir))
