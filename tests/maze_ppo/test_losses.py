"""The losses of PPO against sums written by hand."""

import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_onpolicy.learn.advantages import normalized
from maze_ppo.ppo import value_loss

from maze_core.data.batch import Batch


def test_value_loss():
    value, old, target = torch.tensor([[1.0, 3.0, 0.0, 2.0], [1.0, 1.0, 1.0, 2.0], [2.0, 0.0, 5.0, 2.0]])
    assert value_loss(value, old, target, None).tolist() == [1, 9, 25, 0]
    # Clipped to within 0.5 of the old values: 1, 1.5, 0.5, 2; the larger error counts.
    assert value_loss(value, old, target, 0.5).tolist() == [1, max(9, 2.25), max(25, 20.25), 0]
    assert value_loss(value, old, target, 100.0).tolist() == [1, 9, 25, 0]


def test_value_clipping_cuts_the_gradient_of_a_value_that_has_moved_enough():
    value = torch.tensor([2.0, 2.0], requires_grad=True)
    # The first has moved from 0 towards its target beyond the range: its clipped error is the larger and is constant.
    value_loss(value, torch.tensor([0.0, 2.0]), torch.tensor([3.0, 3.0]), 0.5).sum().backward()
    assert value.grad.tolist() == [0.0, -2.0]


def linear_policy(policy):
    """The weights of a linear softmax policy and a linear critic, as numpy arrays."""
    state = {name: value.double().numpy() for name, value in policy.state_dict().items()}
    head = "heads.action_head.linear"
    return state[f"{head}.weight"], state[f"{head}.bias"], state["value_head.weight"][0], state["value_head.bias"][0]


def whole_loss(policy, data, config):
    """The loss of PPO for a linear softmax policy, from its weights, in numpy."""
    weight, bias, value_weight, value_bias = linear_policy(policy)
    logits = data["obs"] @ weight.T + bias
    logits -= logits.max(1, keepdims=True)
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    chosen = log_probs[np.arange(len(logits)), data["action"]]
    entropy = -(np.exp(log_probs) * log_probs).sum(1).mean()
    value = data["obs"] @ value_weight + value_bias
    advantage = data["advantage"]
    if config.normalize_advantages:
        advantage = (advantage - advantage.mean()) / advantage.std()
    ratio = np.exp(chosen - data["log_prob"])
    surrogate = np.minimum(ratio * advantage, np.clip(ratio, 1 - config.clip_range, 1 + config.clip_range) * advantage)
    error = (value - data["target"]) ** 2
    if config.value_clip_range:
        near = data["value"] + np.clip(value - data["value"], -config.value_clip_range, config.value_clip_range)
        error = np.maximum(error, (near - data["target"]) ** 2)
    parts = {"policy": -surrogate.mean(), "value": error.mean(), "entropy": entropy}
    total = (
        config.policy_loss_coef * parts["policy"]
        + config.value_loss_coef * parts["value"]
        - config.entropy_coef * entropy
    )
    return total, parts


def random_batch(rows=50):
    rng = np.random.default_rng(3)
    data = {"obs": rng.normal(size=(rows, 2)), "action": rng.integers(3, size=rows)}
    data |= {name: rng.normal(size=rows) for name in ("advantage", "value", "target")}
    data["log_prob"] = np.log(rng.uniform(0.1, 0.9, rows))
    extra = {name: torch.from_numpy(data[name]).float() for name in ("advantage", "value", "target", "log_prob")}
    batch = Batch(
        {"observation": torch.from_numpy(data["obs"]).float()}, {"action": torch.from_numpy(data["action"])}, extra
    )
    return data, batch


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"normalize_advantages": True},
        {"value_clip_range": 0.3, "clip_range": 0.05},
        {"policy_loss_coef": 2.0, "value_loss_coef": 0.1, "entropy_coef": 0.5},
    ],
)
def test_the_whole_loss_and_its_gradient(quick, overrides):
    """Total, parts and gradient against numpy and central differences."""
    named = {f"algorithm.{name}": value for name, value in overrides.items()}
    context = quick(SeededWalk, overrides={"model.hidden": [], **named})
    policy, algorithm = context.policy, context.run.algorithm
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    data, batch = random_batch()
    if algorithm.config.normalize_advantages:  # as `batches` does
        batch.extra["advantage"] = normalized(batch.extra["advantage"])
    loss = context.run.hooks.compute_loss(policy=policy, batch=batch)
    total, parts = whole_loss(policy, data, algorithm.config)
    assert loss.total.item() == pytest.approx(total, rel=1e-4)
    for name, value in parts.items():
        assert loss.metrics[name].item() == pytest.approx(value, rel=1e-4), name
    loss.total.backward()
    policy.double()
    for name, parameter in policy.named_parameters():
        index = (0,) * parameter.dim()
        ends = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter[index] += step
                ends.append(whole_loss(policy, data, algorithm.config)[0])
                parameter[index] -= step
        assert parameter.grad[index].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-3, abs=1e-5), name
