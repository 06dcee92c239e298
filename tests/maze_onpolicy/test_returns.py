"""Advantages against sums written out from the formula, one term at a time."""

import math

import numpy as np
import pytest
from maze_onpolicy.data.returns import explained_variance, generalized_advantages

GAMMA, LAMBDA = 0.9, 0.8


def case(seed, steps=9, num_envs=4):
    """Random rewards and values, with terminations and truncations."""
    rng = np.random.default_rng(seed)
    shape = (steps, num_envs)
    terminated, truncated = rng.random(shape) < 0.2, rng.random(shape) < 0.2
    truncated &= ~terminated
    return {
        "rewards": rng.normal(size=shape),
        "values": rng.normal(size=shape),
        "next_values": rng.normal(size=shape),
        "terminated": terminated,
        "truncated": truncated,
    }


def advantages(case, gae_lambda=LAMBDA, gamma=GAMMA):
    return generalized_advantages(
        case["rewards"],
        case["values"],
        case["next_values"],
        np.where(case["terminated"], 0.0, gamma),
        (~(case["terminated"] | case["truncated"])).astype(float),
        gae_lambda,
    )


def written_out(case, t, i, gae_lambda=LAMBDA, gamma=GAMMA):
    """A_t = sum over l of (gamma lambda)^l delta_{t+l}, as far as the episode or the rollout goes. O(T) per entry."""
    total = 0.0
    for later in range(t, len(case["rewards"])):
        future = 0.0 if case["terminated"][later, i] else gamma * case["next_values"][later, i]
        delta = case["rewards"][later, i] + future - case["values"][later, i]
        total += (gamma * gae_lambda) ** (later - t) * delta
        if case["terminated"][later, i] or case["truncated"][later, i]:
            break
    return total


@pytest.mark.parametrize("gae_lambda", [0.0, 0.8, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_gae_equals_the_sums_of_the_formula(seed, gae_lambda):
    """Compared with O(T²) sums, with a last value that is not 0."""
    data = case(seed)
    expected = [[written_out(data, t, i, gae_lambda) for i in range(4)] for t in range(9)]
    np.testing.assert_allclose(advantages(data, gae_lambda), expected, rtol=1e-12, atol=1e-12)
    assert not data["terminated"][-1].all()
    assert not data["truncated"][-1].all()


def test_with_lambda_1_it_is_the_discounted_return_minus_the_value():
    """Computed without deltas: from rewards and one bootstrap value at the end of each episode."""
    data = case(0)
    goes_on = ~(data["terminated"] | data["truncated"])[:-1]
    data["next_values"][:-1][goes_on] = data["values"][1:][goes_on]
    expected = np.zeros((9, 4))
    for i in range(4):
        for t in range(9):
            end = next((k for k in range(t, 9) if data["terminated"][k, i] or data["truncated"][k, i]), 8)
            rewards = sum(GAMMA ** (k - t) * data["rewards"][k, i] for k in range(t, end + 1))
            last = 0.0 if data["terminated"][end, i] else data["next_values"][end, i]
            expected[t, i] = rewards + GAMMA ** (end + 1 - t) * last - data["values"][t, i]
    np.testing.assert_allclose(advantages(data, 1.0), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("flag", ["terminated", "truncated"])
def test_nothing_leaks_across_the_end_of_an_episode(flag):
    """Two episodes in one rollout are each what they are alone."""
    data = case(3, steps=10, num_envs=1)
    data["terminated"][:], data["truncated"][:] = False, False
    data[flag][3] = True
    first = {key: array[:4] for key, array in data.items()}
    second = {key: array[4:] for key, array in data.items()}
    alone = np.concatenate([advantages(first), advantages(second)])
    np.testing.assert_allclose(advantages(data), alone, rtol=1e-12)
    data["rewards"][4:] += 1000
    np.testing.assert_array_equal(advantages(data)[:4], advantages(first))


def test_a_truncated_episode_keeps_its_last_value_and_a_terminated_one_does_not():
    """Treating truncation as termination would lose the last value."""
    one = {key: np.zeros((1, 1)) for key in ("rewards", "values")}
    one |= {"next_values": np.full((1, 1), 10.0)}
    ended = {"terminated": np.ones((1, 1), bool), "truncated": np.zeros((1, 1), bool)}
    cut = {"terminated": np.zeros((1, 1), bool), "truncated": np.ones((1, 1), bool)}
    assert advantages({**one, **ended})[0, 0] == 0
    assert advantages({**one, **cut})[0, 0] == 9


def test_the_discount_is_that_of_the_row():
    """Sub-steps of one environment step have discount 1: gamma counts environment steps."""
    zeros, ones = np.zeros((4, 1)), np.ones((4, 1))
    rewards, discounts = np.array([[0.0], [0.0], [0.0], [1.0]]), np.array([[1.0], [0.5], [1.0], [0.0]])
    result = generalized_advantages(rewards, zeros, zeros, discounts, ones, 1.0)
    np.testing.assert_allclose(result[:, 0], [0.5, 0.5, 1.0, 1.0])


def test_explained_variance():
    targets = np.array([1.0, 2.0, 3.0, 6.0])
    assert explained_variance(targets, targets) == 1
    assert explained_variance(targets + 5, targets) == 1
    assert explained_variance(np.full(4, 3.0), targets) == 0
    assert explained_variance(-targets, targets) == pytest.approx(-3)
    assert math.isnan(explained_variance(targets, np.ones(4)))
