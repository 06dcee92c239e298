"""The plain policy gradient: returns, baseline and loss against formulas."""

import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk

OVERRIDES = {"evaluation.n_episodes": 0}


def batch_and_rollout(context):
    """The only batch of an update, and the rollout that it is made of."""
    (batch,) = list(context.run.algorithm.batches())
    return batch, context.run.algorithm.kept["collector"].rollout


def returns_to_go(rollout, gamma):
    """What a rollout pays from each step to the end of the episode, at most to its own end: [T, N]."""
    steps, columns = rollout.rewards.shape
    found = np.zeros((steps, columns))
    for column in range(columns):
        later = 0.0
        for t in range(steps - 1, -1, -1):
            if rollout.terminated[t, column] or rollout.truncated[t, column]:
                later = 0.0
            later = rollout.rewards[t, column] + gamma * later
            found[t, column] = later
    return found


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_without_a_baseline_the_advantage_is_the_return(quick, memory):
    plain = {"algorithm.normalize_advantages": False, "algorithm.gamma": 0.9, "algorithm.n_rollout_steps": 40}
    model = {"model.critic": "none", "model.memory": memory}
    context = quick(SeededWalk, "pg", {**plain, **model})
    batch, rollout = batch_and_rollout(context)
    wanted = returns_to_go(rollout, 0.9).ravel()
    found = batch.extra["advantage"].numpy()
    if memory == "none":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.sort(found), np.sort(wanted), rtol=1e-5, atol=1e-6)
    assert rollout.terminated.any() or rollout.truncated.any()
    assert len(set(found.round(3).tolist())) > 3


@pytest.mark.parametrize("critic", ["none", "separate", "shared"])
def test_the_loss_is_that_of_the_formula(quick, critic):
    more = {"algorithm.entropy_coef": 0.1, "algorithm.value_loss_coef": 0.3, "model.critic": critic}
    context = quick(SeededWalk, "pg", more)
    batch, _ = batch_and_rollout(context)
    policy, advantage = context.policy, batch.extra["advantage"]
    assert advantage.mean().item() == pytest.approx(0, abs=1e-5)
    loss = context.run.hooks.compute_loss(policy=policy, batch=batch)
    distribution = policy.distribution(batch.obs)
    wanted = -(distribution.log_prob(batch.actions) * advantage).mean() - 0.1 * distribution.entropy().mean()
    if critic != "none":
        wanted = wanted + 0.3 * (policy.value(batch.obs) - batch.extra["target"]).square().mean()
    assert loss.total.item() == pytest.approx(wanted.item(), rel=1e-5)
    parameters = list(policy.parameters())
    pairs = zip(*(torch.autograd.grad(each, parameters) for each in (loss.total, wanted)), strict=True)
    for found, other in pairs:
        torch.testing.assert_close(found, other)


def test_without_a_baseline_a_run_resumes_exactly(quick, whole_state, assert_same):
    more = {"model.critic": "none", "algorithm.num_envs": 3}
    whole, parts = quick("CartPole-v1", "pg", more), quick("CartPole-v1", "pg", more)
    whole.train()
    assert whole.run.learner.steps == 4
    parts.train(1)
    parts.close()
    quick("CartPole-v1", "pg", more, run_dir=None).resume(parts.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(parts.run_dir))
