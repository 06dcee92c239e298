"""V-trace against public vectors and against the paper's sums and products, written out."""

from __future__ import annotations

import numpy as np
import pytest
from maze_onpolicy.data.returns import generalized_advantages
from maze_onpolicy.data.vtrace import vtrace

# From the specification of the algorithm; batch first.
REWARDS = np.array([[-1.3, -1.3, 2.3, 42], [1.3, 5.3, -3.3, -5]]).T
DISCOUNTS = np.array([[0, 0.89, 0.85, 0.99], [0.88, 1, 0.83, 0.95]]).T
VALUES = np.array([[2.1, 1.1, -3.1, 0], [3.1, 0.1, -1.1, 7.4]]).T
BOOTSTRAP = np.array([8.4, -1.2])
RHOS = np.array(
    [[0.475151279, 22.3122237, 0.0387607996, 3.22069880], [95.6391751, 0.880905777, 1.14263913e-5, 1.90854358]]
).T
CORRECTIONS = np.array(
    [[-1.61551435, -3.49732243, 1.86705345, 50.316], [1.46624342, 3.61164025, -8.33692363e-5, -13.54]]
).T
ADVANTAGES_AT_5 = np.array(
    [[-1.61551435, -17.4866121, 1.86705345, 162.052681], [7.33121708, 3.61164025, -8.33692363e-5, -25.8416800]]
).T


def public(clip_pg_rho):
    next_values = np.concatenate([VALUES[1:], BOOTSTRAP[None]])
    everywhere = np.ones_like(REWARDS)
    return vtrace(np.log(RHOS), REWARDS, VALUES, next_values, DISCOUNTS, everywhere, 1.0, clip_pg_rho)


def test_the_public_vectors():
    targets, advantages = public(1.0)
    np.testing.assert_allclose(targets - VALUES, CORRECTIONS, rtol=1e-6)
    np.testing.assert_allclose(advantages, CORRECTIONS, rtol=1e-6)
    targets, advantages = public(5.0)
    np.testing.assert_allclose(targets - VALUES, CORRECTIONS, rtol=1e-6)
    np.testing.assert_allclose(advantages, ADVANTAGES_AT_5, rtol=1e-6)


def case(seed, steps=8, num_envs=3):
    """Trajectories with some rho < 1, ends of both kinds inside and values of the final observations."""
    rng = np.random.default_rng(seed)
    shape = (steps, num_envs)
    terminated = rng.random(shape) < 0.15
    truncated = (rng.random(shape) < 0.2) & ~terminated
    values = rng.normal(size=shape)
    bootstrap, final_values = rng.normal(size=num_envs) + 3, rng.normal(size=shape) - 3
    following = np.concatenate([values[1:], bootstrap[None]])
    return {
        "rhos": np.exp(rng.normal(size=shape)),
        "rewards": rng.normal(size=shape),
        "values": values,
        "next_values": np.where(truncated, final_values, following),
        "terminated": terminated,
        "truncated": truncated,
    }


def computed(data, gamma=0.9, clip_rho=1.0, clip_pg_rho=1.0):
    return vtrace(
        np.log(data["rhos"]),
        data["rewards"],
        data["values"],
        data["next_values"],
        np.where(data["terminated"], 0.0, gamma),
        (~(data["terminated"] | data["truncated"])).astype(float),
        clip_rho,
        clip_pg_rho,
    )


def written_target(data, s, i, gamma, clip_rho):
    """Eq. 1 of the paper, each product from scratch: O(T²) for a column."""
    bound = np.inf if clip_rho is None else clip_rho
    total = data["values"][s, i]
    for t in range(s, len(data["rewards"])):
        product = 1.0
        for k in range(s, t):
            product *= gamma * min(1.0, data["rhos"][k, i])
        future = 0.0 if data["terminated"][t, i] else gamma * data["next_values"][t, i]
        delta = data["rewards"][t, i] + future - data["values"][t, i]
        total += product * min(bound, data["rhos"][t, i]) * delta
        if data["terminated"][t, i] or data["truncated"][t, i]:
            break
    return total


def written_advantage(data, s, i, gamma, clip_rho, clip_pg_rho):
    bound = np.inf if clip_pg_rho is None else clip_pg_rho
    if data["terminated"][s, i]:
        future = 0.0
    elif data["truncated"][s, i] or s == len(data["rewards"]) - 1:
        future = gamma * data["next_values"][s, i]
    else:
        future = gamma * written_target(data, s + 1, i, gamma, clip_rho)
    return min(bound, data["rhos"][s, i]) * (data["rewards"][s, i] + future - data["values"][s, i])


@pytest.mark.parametrize("clips", [(1.0, 1.0), (0.7, 1.5), (2.0, 0.5), (None, None), (1.0, None)])
@pytest.mark.parametrize("seed", range(6))
def test_the_sums_of_the_paper(seed, clips):
    data = case(seed)
    if seed == 0:
        assert (data["rhos"] < 1).any()
        assert (data["rhos"] > 1).any()
        assert data["terminated"].any()
        assert data["truncated"].any()
        assert not (data["terminated"] | data["truncated"])[-1].all()  # some bootstrap at the rollout's end
    targets, advantages = computed(data, 0.9, *clips)
    for s in range(8):
        for i in range(3):
            assert targets[s, i] == pytest.approx(written_target(data, s, i, 0.9, clips[0]), rel=1e-10)
            assert advantages[s, i] == pytest.approx(written_advantage(data, s, i, 0.9, *clips), rel=1e-10)


def test_two_episodes_in_one_rollout_are_each_alone():
    """Nothing leaks over an episode's end."""
    data = case(3)
    for kind in ("terminated", "truncated"):
        data["terminated"][:], data["truncated"][:] = False, False
        data[kind][3] = True
        whole = computed(data)
        first = computed({key: value[:4] for key, value in data.items()})
        second = computed({key: value[4:] for key, value in data.items()})
        for part in (0, 1):
            np.testing.assert_allclose(whole[part], np.concatenate([first[part], second[part]]), rtol=1e-12)


def test_on_policy_and_unclipped_it_is_the_whole_return():
    """With rho = 1, V-trace is GAE with lambda 1: an independent function."""
    data = case(4)
    data["rhos"] = np.ones_like(data["rhos"])
    targets, _ = computed(data)
    advantages = generalized_advantages(
        data["rewards"],
        data["values"],
        data["next_values"],
        np.where(data["terminated"], 0.0, 0.9),
        (~(data["terminated"] | data["truncated"])).astype(float),
        1.0,
    )
    np.testing.assert_allclose(targets - data["values"], advantages, rtol=1e-12)


def test_float32_stays_float32_and_the_arguments_stay_as_they_were():
    data = {key: value.astype(np.float32) for key, value in case(5).items() if value.dtype == float}
    continues = np.ones((8, 3), np.float32)
    arguments = [np.log(data["rhos"]), *(data[k] for k in ("rewards", "values", "next_values")), continues, continues]
    before = [argument.copy() for argument in arguments]
    targets, advantages = vtrace(*arguments)
    assert targets.dtype == advantages.dtype == np.float32
    assert all(np.array_equal(a, b) for a, b in zip(arguments, before, strict=True))
