"""VDN and QMIX as runs: what teams learn, the targets by hand, masks, and what a resumed run needs."""

from __future__ import annotations

import pytest
import torch
from maze_marl.qmix import Mixer

from maze_core.base.errors import ConfigError
from tests.agents import BoxesSource, CrowdSource, TeamSource
from tests.maze_marl.games import GuardedSource, TwoStepsSource, WatchedSource

SMALL = {
    "model.hidden": [8],
    "algorithm.num_envs": 2,
    "algorithm.n_rollout_steps": 2,
    "algorithm.epoch_length": 8,
    "algorithm.batch_size": 24,
    "algorithm.initial_buffer_size": 30,
    "algorithm.replay_buffer_size": 150,
    "algorithm.target_update_interval": 5,
    "algorithm.epsilon.end": 200,
}
TWO_STEPS = {
    "model.hidden": [32],
    "algorithm.num_envs": 4,
    "algorithm.n_rollout_steps": 2,
    "algorithm.epoch_length": 250,
    "algorithm.n_epochs": 1,
    "algorithm.lr": 0.003,
    "algorithm.gamma": 1.0,
    "algorithm.initial_buffer_size": 200,
    "algorithm.replay_buffer_size": 2000,
    "algorithm.target_update_interval": 40,
    "algorithm.epsilon.to": 1.0,
}


@pytest.mark.learning
@pytest.mark.parametrize(("algorithm", "score"), [("qmix", 8), ("vdn", 7)])
def test_only_qmix_sees_what_the_second_game_is_worth(quick, algorithm, score):
    """Rashid et al. (2018), section 5: while the other chooses at random, 7 for certain seem more than 8."""
    context = quick(TwoStepsSource, algorithm, TWO_STEPS)
    context.train()
    assert context.evaluate()["eval/return_mean"] == score


@pytest.mark.parametrize("algorithm", ["vdn", "qmix"])
def test_the_loss_is_that_of_the_equations_also_where_agents_are_absent(quick, algorithm):
    """Step by step and agent by agent, from the networks' values alone."""
    context = quick(TeamSource, algorithm, SMALL | {"algorithm.reward_scale": 0.5})
    context.train()
    plugin, policy = context.run.algorithm, context.policy
    batch = plugin.kept["collector"].sample(60, 0.9)
    assert not batch.extra["present"].all()
    assert (batch.extra["discount"][batch.extra["present"]] == 0).any()

    def rows(obs, network):
        return network.distribution(obs).parts["action"].logits.detach()

    here, online = rows(batch.obs, policy), rows(batch.next_obs, policy)
    target = rows(batch.next_obs, plugin.target.module)
    errors = []
    for step in range(20):
        mine = range(3 * step, 3 * step + 3)
        there = [i for i in mine if batch.extra["present"][i]]
        go_on = [i for i in there if batch.extra["discount"][i] > 0]
        now = {i: here[i, batch.actions["action"][i]] for i in there}
        later = {i: target[i, online[i].argmax()] for i in go_on}
        paid = 0.5 * sum(batch.extra["reward"][i] for i in there)
        if algorithm == "vdn":
            now, later = sum(now.values()), sum(later.values())
        else:
            now, later = (
                mixed(mixer, values, obs, mine)
                for mixer, values, obs in [
                    (plugin.mixer, now, batch.obs), (plugin.mixer_target.module, later, batch.next_obs)
                ]
            )  # fmt: skip
        errors.append(now - paid - (0.9 * later if go_on else 0))
    wanted = torch.stack(errors).square().mean()
    torch.testing.assert_close(plugin.compute_loss(policy, batch).total, wanted)


def mixed(mixer, values, obs, mine):
    """The value of one joint step: agents that take no part have the value 0, and zeros in the state."""
    seen = [torch.cat((obs["frames"][i], obs["x"][i])) if i in values else torch.zeros(4) for i in mine]
    utilities = torch.tensor([float(values.get(i, 0.0)) for i in mine])
    return mixer(utilities.unsqueeze(0), torch.cat(seen).unsqueeze(0)).squeeze().detach()


def test_the_mixed_value_rises_with_every_agents_and_depends_on_the_state():
    torch.manual_seed(0)
    mixer = Mixer(5, 3, 8, (16,))
    values, state = torch.randn(200, 3, requires_grad=True), torch.randn(200, 5)
    (slope,) = torch.autograd.grad(mixer(values, state).sum(), values)
    assert (slope >= 0).all()
    assert slope.std(0).min() > 0
    assert mixer(torch.zeros(200, 3), state).std() > 0


@pytest.mark.parametrize("units", [4, 64])
def test_the_mixed_value_begins_near_the_sum_however_many_units_there_are(units):
    torch.manual_seed(0)
    values, state = torch.full((500, 3), 0.01, requires_grad=True), torch.randn(500, 5)
    (slope,) = torch.autograd.grad(Mixer(5, 3, units, (16,))(values, state).sum(), values)
    assert slope.mean().item() == pytest.approx(1, abs=0.3)


CASES = {
    "a network for each": (TeamSource, "qmix", {"model.groups": "per_actor", "model.normalize_observations": True}),
    "masks, other spaces": (GuardedSource, "qmix", {"algorithm.double": False}),
    "a state": (WatchedSource, "qmix", {"algorithm.tau": 0.5}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_equals_the_uninterrupted_one(quick, whole_state, assert_same, case):
    source, algorithm, more = CASES[case]
    more = more | {"algorithm.epoch_length": 4, "algorithm.replay_buffer_size": 80}
    whole = quick(source, algorithm, SMALL | more | {"algorithm.n_epochs": 3})
    whole.train()
    half = quick(source, algorithm, SMALL | more)
    half.train()
    quick(source, algorithm, SMALL | more | {"algorithm.n_epochs": 3}, run_dir=None).resume(half.run_dir)
    saved = [whole_state(each.run_dir) for each in (whole, half)]
    assert_same(*saved)
    assert whole.evaluate()["eval/actor/two/length_mean"] > 0


def test_the_mixer_sees_what_critics_alone_see(quick):
    context = quick(WatchedSource, "qmix", SMALL)
    plugin = context.run.algorithm
    assert plugin.mixer.first[0].in_features == 2
    context.train()
    batch = plugin.kept["collector"].sample(60, 0.9)
    values = torch.zeros(60)
    expected = plugin.mixer(values.reshape(20, 3), batch.obs["critic"].reshape(20, 3, 2)[:, 1])
    assert torch.equal(plugin.mix(values, batch.obs, batch.extra["present"]), expected)
    assert context.policy.logits_are_values


def test_what_makes_no_joint_steps_is_refused(quick):
    with pytest.raises(ConfigError, match=r"env: agent \d of environment \d has acted and waits for others"):
        quick(CrowdSource, "vdn", SMALL).train()
    with pytest.raises(ConfigError, match="qmix supports actions of Discrete"):
        _ = quick(BoxesSource, "qmix", SMALL).run
