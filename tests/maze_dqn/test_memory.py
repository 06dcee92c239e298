"""DQN with memory: its loss against single steps through whole episodes, and a run that goes on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from tests.bomb import bomb
from tests.diary import Diary, rows_until
from tests.interrupted import interrupted

SMALL = {
    "algorithm.initial_buffer_size": 90,
    "algorithm.replay_buffer_size": 5000,
    "algorithm.epoch_length": 3,
    "algorithm.batch_size": 30,
    "algorithm.n_rollout_steps": 8,
    "model.hidden": [8],
    "model.memory_size": 4,
    "model.memory": "gru",
    "algorithm.sequence_length": 4,
    "algorithm.burn_in": 3,
}


def diary():
    return Diary({"bits": spaces.MultiBinary(2)})


def valued(network, obs):
    """The values of the last of some observations, [C], by single steps from the beginning of the episode."""
    features, state = network.encoder(network.normalized(obs)), network.memory.initial_state(1)
    for t in range(len(features)):
        last, state = network.memory.step(features[t : t + 1], state)
    return network.heads["choices"](last)[0]


@pytest.mark.parametrize(("double", "kind", "burn_in"), [(True, "window", 3), (False, "lstm", 8)])
def test_the_loss_is_that_of_single_steps_through_whole_episodes(quick, double, kind, burn_in):
    still = {"algorithm.lr": 1e-30, "algorithm.tau": 1e-9, "algorithm.double": double, "model.memory": kind}
    still["algorithm.burn_in"] = burn_in
    context = quick(diary, "dqn", SMALL | still | {"model.memory_window": 3})
    context.train()
    algorithm, policy = context.run.algorithm, context.policy
    with torch.no_grad():  # away from the target
        for parameter in policy.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 40, 0.9)
    # Rows that lie as near to the beginning of the episode as is read again: nothing was remembered before the change.
    first = batch.obs["page"][:, 1] < (4 if burn_in < 4 else burn_in + 4)
    assert first.sum() > 12
    sequences, target = batch.sequences, algorithm.target.module
    with torch.no_grad():
        chosen = policy.at(policy.atoms(batch.obs, sequences), policy.actions.indices(batch.actions))[..., 0]
        found = algorithm.target_of(policy, batch)[..., 0]
    for row in torch.nonzero(first).flatten().tolist():
        obs, following = rows_until(batch.obs["page"][row]), rows_until(batch.next_obs["page"][row])
        with torch.no_grad():
            index = policy.actions.indices({key: leaf[row : row + 1] for key, leaf in batch.actions.items()})[0]
            torch.testing.assert_close(chosen[row], valued(policy, obs)[index], rtol=1e-4, atol=1e-5)
            last = {key: leaf[-1:] for key, leaf in following.items()}
            chooser = valued(policy if double else target, following)
            best = policy.best(chooser[None, :, None], last)[0]
            value = valued(target, following)[best].mean()  # over the members: a choice and two bits
        wanted = batch.extra["reward"][row] + batch.extra["discount"][row] * value
        torch.testing.assert_close(found[row], wanted, rtol=1e-4, atol=1e-5)


def test_stopped_in_the_middle_it_goes_on_to_the_same_end(quick, whole_state, assert_same):
    more = {"algorithm.prioritized": True, "algorithm.replay_buffer_size": 100}
    values = SMALL | {"algorithm.n_epochs": 4, "algorithm.num_envs": 2} | more
    stopped = quick(diary, "dqn", values, callbacks={"bomb": bomb(at=7)})
    assert interrupted(stopped.train).outcome == "interrupted"
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    whole = quick(diary, "dqn", values, callbacks={"bomb": bomb(at=0)})
    whole.train()
    one, other = (whole_state(each.run_dir) for each in (stopped, whole))
    assert_same(one, other)


def test_whole_sequences_have_priorities(quick):
    context = quick(diary, "dqn", SMALL | {"algorithm.prioritized": True, "algorithm.priority_exponent": 1.0})
    context.train()
    collector = context.run.algorithm.kept["collector"]
    batch = collector.sample(30, 0.9, beta=1.0)
    lengths, slots = batch.sequences.lengths, batch.extra["slot"].numpy()
    starts = batch.sequences.starts
    np.testing.assert_array_equal(slots, np.repeat(slots[starts], lengths))
    priorities = collector.replay.priorities
    known = priorities[slots[starts]]
    np.testing.assert_allclose(batch.extra["weight"], np.repeat(known.min() / known, lengths), rtol=1e-5)
    assert len(set(known.tolist())) > 2


def test_a_run_may_go_on_with_priorities(quick):
    before = False
    context = quick(diary, "dqn", SMALL | {"algorithm.prioritized": before})
    context.train()
    changed = quick(diary, "dqn", SMALL | {"algorithm.prioritized": not before, "algorithm.n_epochs": 3})
    assert changed.resume(context.run_dir).outcome == "finished"
    priorities = changed.run.algorithm.kept["collector"].replay.priorities
    assert (priorities is None) == before
