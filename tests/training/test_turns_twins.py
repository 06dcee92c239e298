"""A decision in two turns and its twin, one action of the product space: the same returns, probabilities, optimum."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from maze_devkit.turns import DECISIONS, PAY, FlatShelves, Shelves
from maze_onpolicy.collect.sampler import Sampler
from maze_onpolicy.learn.advantages import advantage_rows

from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.agents.network import NetworkAgent
from maze_core.envs.serial import SerialVectorEnv
from maze_core.models.building import build_policy
from maze_core.models.distributions import Categorical
from maze_core.models.mlp import MlpConfig, MlpModel

STEPS, COLUMNS = 6 * DECISIONS, 3
"""Turns: three episodes of each column."""
SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)


@pytest.fixture(scope="module")
def policy():
    torch.manual_seed(1)
    settings = MlpConfig(name="mlp", hidden=(16,), orthogonal_init=False)
    env = Shelves()
    return build_policy(
        MlpModel(settings).build_policy,
        env.observation_space,
        env.action_space,
        settings,
    )


@pytest.fixture(scope="module")
def rollout(policy):
    with torch.no_grad():
        env = SerialVectorEnv(lambda _: Shelves(), COLUMNS)
        network = NetworkAgent.sampling(policy, COLUMNS, torch.Generator().manual_seed(2))
        return Sampler(network, env, STEPS, SEEDS).collect()


class Twin:
    """The flat policy that decides like one of two turns: each item and shelf has the product of both probabilities."""

    has_critic = True

    def __init__(self, policy):
        self.pick, self.place = policy.policies["pick_policy"], policy.policies["place_policy"]

    def distribution(self, obs):
        rows = len(obs["guest"])
        seen = {"guest": obs["guest"], "action_mask": obs["action_mask"].reshape(rows, 3, 2)[:, :, 0]}
        first = self.pick.distribution(seen).parts["action"].log_probs
        items = [{"guest": obs["guest"], "item": torch.full((rows,), item)} for item in range(3)]
        second = [self.place.distribution(each).parts["action"].log_probs for each in items]
        return Categorical((first.unsqueeze(-1) + torch.stack(second, 1)).flatten(1), obs["action_mask"])

    def value(self, obs):
        seen = {"guest": obs["guest"], "action_mask": obs["action_mask"].reshape(-1, 3, 2)[:, :, 0]}
        return self.pick.value(seen)


def flat_steps(rollout):
    """The decisions of a rollout in turns, taken in the flat twin: observations [T + 1, N, …], actions and rewards."""
    env = SerialVectorEnv(lambda _: FlatShelves(), COLUMNS)
    obs = [{"guest": np.zeros((COLUMNS, 3), np.float32), "action_mask": np.zeros((COLUMNS, 6), np.int8)}
           for _ in range(STEPS // 2 + 1)]  # fmt: skip
    env.reset(SEEDS, obs[0])
    actions = rollout.actions["pick"][::2] * 2 + rollout.actions["place"][1::2]
    results = [env.step({"action": each}, obs[t + 1]) for t, each in enumerate(actions)]
    stacked = {key: np.stack([row[key] for row in obs]) for key in obs[0]}
    return (
        stacked,
        actions,
        np.stack([each.reward for each in results]),
        np.stack([each.terminated for each in results]),
    )


def test_equal_returns(rollout):
    obs, _, rewards, terminated = flat_steps(rollout)
    np.testing.assert_array_equal(rollout.rewards[::2], 0)
    np.testing.assert_array_equal(rollout.rewards[1::2], rewards)
    np.testing.assert_array_equal(rollout.terminated[1::2], terminated)
    np.testing.assert_array_equal(rollout.obs["pick/guest"][::2], obs["guest"])
    assert not rollout.terminated[::2].any()
    assert terminated.sum() == 3 * COLUMNS


def test_summed_log_probabilities_and_entropies_are_equal(policy, rollout):
    obs, actions, _, _ = flat_steps(rollout)
    flat = Twin(policy).distribution(
        {key: torch.from_numpy(leaf[:-1].reshape(-1, *leaf.shape[2:])) for key, leaf in obs.items()}
    )
    rows = {key: torch.from_numpy(leaf[:-1].reshape(-1, *leaf.shape[2:])) for key, leaf in rollout.obs.items()}
    taken = {key: torch.from_numpy(leaf.reshape(-1)) for key, leaf in rollout.actions.items()}
    by_turn = policy.distribution(rows).log_prob(taken).reshape(STEPS // 2, 2, COLUMNS)
    assert (by_turn < 0).all()
    wanted = flat.log_prob(torch.from_numpy(actions.reshape(-1))).reshape(STEPS // 2, COLUMNS)
    torch.testing.assert_close(by_turn.sum(1), wanted)
    # The entropy of the whole decision is that of the first turn and the expectation of the second's.
    guests = torch.eye(3)
    for guest in range(3):
        mask = torch.tensor([[item != (guest + 1) % 3 for item in range(3)]])
        seen = {"guest": guests[[guest]], "action_mask": mask}
        first = Twin(policy).pick.distribution(seen).parts["action"]
        second = Twin(policy).place.distribution({"guest": guests[[guest] * 3], "item": torch.arange(3)}).entropy()
        whole = first.entropy() + (first.log_probs.exp()[0] * second).sum()
        both = Twin(policy).distribution({"guest": guests[[guest]], "action_mask": mask.repeat_interleave(2, -1)})
        torch.testing.assert_close(both.entropy(), whole)


def test_equal_targets_of_the_critic_where_decisions_begin(policy, rollout):
    """Undiscounted within a decision, so with lambda 1 a decision in two turns is worth what the flat one is worth."""
    obs, actions, rewards, terminated = flat_steps(rollout)
    flags = {"terminated": terminated, "truncated": np.zeros_like(terminated), "valid": np.ones_like(terminated)}
    flat = type(rollout)(obs, {"action": actions}, rewards, **flags)
    device = torch.device("cpu")
    ours, _ = advantage_rows(policy, rollout, 0.9, 1.0, device)
    twins, _ = advantage_rows(Twin(policy), flat, 0.9, 1.0, device)
    for name in ("target", "advantage"):
        by_turn = ours.extra[name].reshape(STEPS // 2, 2, COLUMNS)
        torch.testing.assert_close(by_turn[:, 0], twins.extra[name].reshape(STEPS // 2, COLUMNS))
    by_turn = ours.extra["target"].reshape(STEPS // 2, 2, COLUMNS)
    torch.testing.assert_close(by_turn[:, 0], by_turn[:, 1])


def test_ppo_learns_the_same_optimum(quick):
    best = np.where(PAY > 0.8, 0, PAY).max((1, 2))  # the forbidden items would pay most
    found = {}
    for kind in (Shelves, FlatShelves):
        turns = 2 if kind is Shelves else 1
        values = {"algorithm.n_rollout_steps": 64 * turns, "algorithm.num_envs": 4, "algorithm.lr": 1e-2}
        values |= {"algorithm.batch_size": 64 * turns, "algorithm.epoch_length": 10, "algorithm.n_epochs": 1}
        values |= {"model.hidden": [16], "evaluation.n_episodes": 20}
        context = quick(kind, "ppo", values)
        context.train()
        found[kind] = context.evaluate()["eval/return_mean"]
    assert found[Shelves] == found[FlatShelves]
    assert found[Shelves] == pytest.approx(DECISIONS * best.mean(), abs=0.15)
