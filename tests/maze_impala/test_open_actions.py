"""Games in turns: what IMPALA and APPO, and A2C, learn from actions that were chosen before the rollout began."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from maze_a2c.a2c import importance
from maze_impala.actor import Actor
from maze_onpolicy.collect.parameter_arrays import state_arrays
from maze_onpolicy.data.discounts import carried_rows
from maze_onpolicy.learn.recurrent import all_rows

from maze_core.base.tree import flat_rows, take_rows
from maze_core.collect.pools.workers import Shared
from maze_core.data.batch import to_tensors
from maze_core.models.memory import distribution_of
from maze_core.plugins.hookspecs import hookimpl
from tests.agents import CrowdConfig, CrowdSource, Script, in_turns
from tests.bomb import bomb
from tests.interrupted import interrupted

OVERRIDES = {"evaluation.n_episodes": 0}

STEPS = 5


class Turns(CrowdSource):
    """A game of three agents in turn."""

    Config = CrowdConfig

    @hookimpl
    def make_agents_env(self, config: CrowdConfig, seed: int, index: int) -> Script:
        return in_turns(3)


def log_prob_of(policy, rollout):
    """Those of a rollout's actions, [T, N], as the learner computes them."""
    obs, actions = (to_tensors(flat_rows(tree)) for tree in (take_rows(rollout.obs, np.s_[:-1]), rollout.actions))
    sequences = all_rows(policy, rollout) if rollout.memory else None
    with torch.no_grad():
        found = distribution_of(policy, obs, sequences).log_prob(actions)
    return found.numpy().reshape(rollout.rewards.shape)


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_actors_send_the_log_probabilities_of_the_parameters_that_acted(quick, memory):
    """Importance weights of rows that were carried over are those of the change between two rollouts."""
    values = {"algorithm.n_rollout_steps": STEPS, "model.hidden": [4], "model.memory": memory, "model.memory_size": 3}
    more = {"algorithm.num_actors": 1, "algorithm.actors_batch_size": 1, "model.orthogonal_init": False}
    run = quick(Turns, "impala", values | more).run
    policy = copy.deepcopy(run.policy)
    actor = Actor(policy, run.env_builder("training"), 3, 2, STEPS, 2)
    actor.setup(0)
    weights, noise = [], torch.Generator().manual_seed(1)
    for job in range(8):
        arrays = {key: leaf.copy() for key, leaf in state_arrays(policy).items()}
        rollout = actor.run((job, None), Shared(job + 1, arrays))
        carried = carried_rows(rollout)
        own = np.zeros(rollout.extra["log_prob"].shape, bool) if carried is None else ~np.isnan(carried)
        assert own[1:].sum() == 0
        rollout.carried = None
        now = log_prob_of(policy, rollout)
        rows = rollout.valid
        np.testing.assert_allclose(rollout.extra["log_prob"][rows & ~own], now[rows & ~own], rtol=1e-5)
        weights += np.exp(now - rollout.extra["log_prob"])[rows & own].tolist()
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter += 0.5 * torch.randn(parameter.shape, generator=noise)
    actor.close()
    assert len(weights) > 10
    assert np.ptp(weights) > 0.1  # 1 everywhere if they were computed anew


@pytest.mark.parametrize("algorithm", ["impala", "a2c"])
def test_a_run_that_stops_while_agents_wait_goes_on_to_the_same_end(quick, whole_state, assert_same, algorithm):
    values = {"algorithm.n_rollout_steps": STEPS, "model.hidden": [4], "algorithm.n_epochs": 4}
    if algorithm in ("impala", "appo"):
        values |= {"algorithm.num_actors": 1, "algorithm.actors_batch_size": 1}
    stopped = quick(Turns, algorithm, values, callbacks={"bomb": bomb(at=5)})
    assert interrupted(stopped.train).outcome == "interrupted"
    assert stopped.resume(stopped.run_dir).outcome == "finished"
    whole = quick(Turns, algorithm, values, callbacks={"bomb": bomb(at=0)})
    whole.train()
    assert_same(whole_state(stopped.run_dir), whole_state(whole.run_dir))


def test_importance_weights_of_a2c():
    log_prob, carried = torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([torch.nan, -1.0, -1.5])
    torch.testing.assert_close(importance(log_prob, carried), torch.tensor([0.0, -1.0, 1.0]).exp())


def test_the_loss_of_a2c_weights_actions_that_were_carried_over(quick):
    run = quick(Turns, "a2c", {"algorithm.n_rollout_steps": STEPS, "model.hidden": [4]}).run
    list(run.algorithm.batches())
    with torch.no_grad():
        for parameter in run.policy.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    batch = next(run.algorithm.batches())
    carried = batch.extra["carried"]
    assert 0 < carried.isnan().sum() < len(carried)
    distribution, _ = run.policy(batch.obs)
    log_prob = distribution.log_prob(batch.actions)
    before = torch.where(carried.isnan(), log_prob, carried)
    wanted = ((log_prob - before).exp().detach() * log_prob * -batch.extra["advantage"]).mean()
    loss = run.hooks.compute_loss(policy=run.policy, batch=batch)
    torch.testing.assert_close(loss.metrics["policy"], wanted.detach())
