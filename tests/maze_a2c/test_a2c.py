"""A2C: one step on each rollout, on the loss that the formula says."""

import numpy as np
import pytest
import torch
from maze_a2c.config import A2CConfig
from maze_devkit.envs import SeededWalk
from maze_onpolicy.learn.advantages import normalized
from pydantic import ValidationError

from maze_core.base.errors import CheckpointError
from maze_core.data.batch import Batch
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.hookspecs import hookimpl
from maze_core.run.saved import saved_run

OVERRIDES = {"evaluation.n_episodes": 0}


class Watch(Plugin):
    """Keeps the batches and learning rates."""

    def __init__(self, config):
        super().__init__(config)
        self.batches, self.lrs = [], []

    @hookimpl
    def on_run_start(self, run):
        self.run = run

    @hookimpl(wrapper=True)
    def compute_loss(self, policy, batch):
        self.batches.append(batch.map(torch.clone))
        self.lrs.append(self.run.learner.optimizer.param_groups[0]["lr"])
        return (yield)


def watch_of(context):
    return next(each.plugin for each in context.run.hooks.members if each.name == "watch")


def test_one_step_on_each_whole_rollout(quick):
    context = quick(SeededWalk, "a2c", callbacks={"watch": Watch})
    context.train()
    assert [len(batch) for batch in watch_of(context).batches] == [12] * 4
    assert (context.run.updates, context.run.learner.steps) == (4, 4)


def test_a_linear_schedule_reaches_0(quick):
    overrides = {"algorithm.lr": 0.4, "algorithm.lr_schedule": "linear"}
    context = quick(SeededWalk, "a2c", overrides, callbacks={"watch": Watch})
    context.train()
    assert watch_of(context).lrs == pytest.approx([0.4, 0.3, 0.2, 0.1])


def random_batch(rows=50):
    rng = np.random.default_rng(3)
    data = {"obs": rng.normal(size=(rows, 2)), "action": rng.integers(3, size=rows)}
    data |= {name: rng.normal(size=rows) for name in ("advantage", "target")}
    extra = {name: torch.from_numpy(data[name]).float() for name in ("advantage", "target")}
    actions = {"action": torch.from_numpy(data["action"])}
    return data, Batch({"observation": torch.from_numpy(data["obs"]).float()}, actions, extra)


def whole_loss(policy, data, config):
    """The loss of A2C for a linear softmax policy, from its weights, in numpy."""
    state = {name: value.double().numpy() for name, value in policy.state_dict().items()}
    logits = data["obs"] @ state["heads.action_head.linear.weight"].T + state["heads.action_head.linear.bias"]
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    chosen = log_probs[np.arange(len(logits)), data["action"]]
    value = data["obs"] @ state["value_head.weight"][0] + state["value_head.bias"][0]
    advantage = data["advantage"]
    if config.normalize_advantages:
        advantage = (advantage - advantage.mean()) / advantage.std()
    parts = {
        "policy": -(chosen * advantage).mean(),
        "value": ((value - data["target"]) ** 2).mean(),
        "entropy": -(np.exp(log_probs) * log_probs).sum(1).mean(),
    }
    total = (
        config.policy_loss_coef * parts["policy"]
        + config.value_loss_coef * parts["value"]
        - config.entropy_coef * parts["entropy"]
    )
    return total, parts


@pytest.mark.parametrize(
    "overrides",
    [{}, {"normalize_advantages": True}, {"policy_loss_coef": 2.0, "value_loss_coef": 0.1, "entropy_coef": 0.5}],
)
def test_the_whole_loss_and_its_gradient(quick, overrides):
    """Total, parts and gradient against numpy and central differences."""
    named = {f"algorithm.{name}": value for name, value in overrides.items()}
    context = quick(SeededWalk, "a2c", {"model.hidden": [], **named})
    policy, config = context.policy, context.config.algorithm
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    data, batch = random_batch()
    if config.normalize_advantages:  # as `batches` does
        batch.extra["advantage"] = normalized(batch.extra["advantage"])
    loss = context.run.hooks.compute_loss(policy=policy, batch=batch)
    total, parts = whole_loss(policy, data, config)
    assert loss.total.item() == pytest.approx(total, rel=1e-4)
    assert {name: value.item() for name, value in loss.metrics.items()} == pytest.approx(parts, rel=1e-4)
    loss.total.backward()
    policy.double()
    for name, parameter in policy.named_parameters():
        index = (0,) * parameter.dim()
        ends = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter[index] += step
                ends.append(whole_loss(policy, data, config)[0])
                parameter[index] -= step
        assert parameter.grad[index].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-3, abs=1e-5), name


def torchs_optimizer(name, parameters):
    if name == "adam":
        return torch.optim.Adam(parameters, lr=0.01, betas=(0.0, 0.99))
    return torch.optim.RMSprop(parameters, lr=0.01, alpha=0.99, eps=1e-5)


@pytest.mark.parametrize("name", ["adam", "rmsprop"])
def test_the_step_is_that_of_the_optimizer_on_the_loss(quick, name):
    """One whole update against torch's own optimizer on the same batch."""
    plain = {"algorithm.optimizer": name, "algorithm.lr": 0.01, "algorithm.max_grad_norm": 0.0, "closed_form": False}
    one_update = {"algorithm.n_epochs": 1, "algorithm.epoch_length": 1}
    context = quick(SeededWalk, "a2c", plain | one_update, callbacks={"watch": Watch})
    other = quick(SeededWalk, "a2c", plain)
    context.train()
    (batch,) = watch_of(context).batches
    optimizer = torchs_optimizer(name, other.policy.parameters())
    other.run.hooks.compute_loss(policy=other.policy, batch=batch).total.backward()
    optimizer.step()
    for (where, ours), theirs in zip(context.policy.named_parameters(), other.policy.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, msg=where, rtol=1e-5, atol=1e-7)


def test_a_resumed_run_goes_on_exactly_with_rmsprop_and_with_no_other(quick, whole_state, assert_same):
    rmsprop = {"algorithm.optimizer": "rmsprop"}
    whole, parts = quick("CartPole-v1", "a2c", rmsprop), quick("CartPole-v1", "a2c", rmsprop)
    whole.train()
    parts.train(1)
    parts.close()
    with pytest.raises(CheckpointError, match=r"algorithm.optimizer cannot change here: .*state/0 should be a mapping"):
        saved_run.reopen(parts.run_dir, ["algorithm.optimizer=adam"])
    again = quick("CartPole-v1", "a2c")
    again.resume(parts.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(parts.run_dir))


@pytest.mark.parametrize(
    "wrong",
    [{"lr": 0}, {"gamma": -0.1}, {"n_rollout_steps": 0}, {"batch_size": 10}, {"critic_burn_in_epochs": -1}],
    ids=str,
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ValidationError):
        A2CConfig(name="a2c", **wrong)


def test_classic_is_the_original_maze():
    whole = assemble("a2c", "Acrobot-v1", preset="classic")
    config = whole.algorithm
    assert whole.callbacks["early_stopping"].patience == 15
    assert (config.n_epochs, config.epoch_length, config.critic_burn_in_epochs) == (0, 25, 0)
    assert (config.n_rollout_steps, config.lr, config.gamma, config.gae_lambda) == (100, 5e-4, 0.98, 1.0)
    assert (config.policy_loss_coef, config.value_loss_coef, config.entropy_coef) == (1.0, 0.5, 0.00025)
    assert (config.max_grad_norm, config.lr_schedule, config.normalize_advantages) == (0, "constant", False)
    assert (config.optimizer, config.normalize_rewards) == ("adam", False)
