"""Critics that add up the turns of a decision, against sums by hand and row by row."""

import numpy as np
import pytest
import torch
from maze_devkit.turns import Carousel
from maze_models.several.critics import summed_values
from maze_onpolicy.collect.sampler import Sampler
from maze_onpolicy.learn.recurrent import remembered_values

from maze_core.base.errors import ConfigError, PluginError
from maze_core.base.seeding import EpisodeSeeds, Purpose
from maze_core.collect.agents.network import NetworkAgent
from maze_core.data.batch import to_tensors
from maze_core.data.sequences import Sequences
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.models.building import build_policy
from maze_core.models.mlp import MlpConfig, MlpModel

SEEDS = EpisodeSeeds(3, Purpose.TRAIN_EPISODES)


def test_sums_by_hand():
    """Two sequences. The first goes on with a decision whose last value was 100, the second begins one."""
    differences = torch.tensor([1.0, 2, 10, 3, 4, 20, 5, 30], requires_grad=True)
    goes_on = torch.tensor([True, True, False, True, True, False, True, False])
    sequences = Sequences(np.array([5, 3]), {})
    values, last = summed_values(differences, goes_on, sequences, torch.tensor([100.0, 7]))
    assert values.tolist() == [101, 103, 10, 13, 17, 20, 25, 30]
    assert last.tolist() == [17, 30]
    (gradient,) = torch.autograd.grad((values * torch.arange(1, 9)).sum(), differences)
    assert gradient.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]  # the value of the turn before is a constant


def test_rows_may_lie_in_any_order():
    order = torch.tensor([3, 0, 2, 1])  # the first sequence is rows 3, 0 and 2
    sequences = Sequences(np.array([3, 1]), {}, order)
    goes_on = torch.tensor([True, True, True, False])
    found = summed_values(torch.tensor([1.0, 2, 3, 4]), goes_on, sequences, torch.ones(2))
    assert found[0].tolist() == [5, 3, 8, 4]
    assert found[1].tolist() == [8, 3]


def test_a_first_row_that_begins_a_decision_ignores_what_was_before():
    sequences = Sequences(np.array([2]), {})
    values, _ = summed_values(torch.tensor([1.0, 2]), torch.tensor([False, True]), sequences, torch.tensor([50.0]))
    assert values.tolist() == [1, 3]


def policy_of(**more):
    torch.manual_seed(0)
    config = MlpConfig(name="m", hidden=(5,), orthogonal_init=False, delta_critic=True, **more)
    env = Carousel()
    return build_policy(MlpModel(config).build_policy, env.observation_space, env.action_space, config).eval()


@pytest.mark.parametrize("more", [{}, {"joint_critic": True}, {"groups": "per_actor"}, {"memory": "gru"}])
def test_a_rollout_has_the_values_of_single_rows_added_up(more):
    policy = policy_of(**more)
    env = SerialVectorEnv(lambda _: Carousel(), 3)
    sampler = Sampler(NetworkAgent.sampling(policy, 3, torch.Generator().manual_seed(1)), env, 7, SEEDS)
    states = [policy.initial_state(1) for _ in range(3)]
    value, crossed = np.zeros(3), 0
    for _ in range(8):
        rollout = sampler.collect()
        flat = {key: torch.from_numpy(leaf.reshape(-1, *leaf.shape[2:])) for key, leaf in rollout.obs.items()}
        expected = np.zeros((7, 3))
        for column in range(3):
            for t in range(7):
                row = {key: torch.from_numpy(leaf[t, column : column + 1]) for key, leaf in rollout.obs.items()}
                policy.delta_critic = False
                with torch.no_grad():
                    _, own, after = policy.unroll(row, Sequences(np.array([1]), states[column]))
                policy.delta_critic = True
                goes_on = row["turn/elapsed"].item() == 0
                crossed += goes_on and t == 0
                expected[t, column] = value[column] = own.item() + (value[column] if goes_on else 0)
                states[column] = after
                if rollout.terminated[t, column] | rollout.truncated[t, column]:
                    states[column], value[column] = policy.initial_state(1), 0.0
        for length in (None, 2):
            found, following, sequences = remembered_values(policy, rollout, flat, length)
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            goes_on = rollout.continues[:-1]
            np.testing.assert_allclose(following[:-1][goes_on], expected[1:][goes_on], rtol=1e-4, atol=1e-5)
            order, sequences.order = sequences.order, None
            batch = {key: leaf[order] for key, leaf in flat.items()}
            with torch.no_grad():
                values = policy(batch, sequences)[1], policy.value(batch, sequences)
            for each in values:
                np.testing.assert_allclose(each, expected.ravel()[order], rtol=1e-4, atol=1e-5)
    assert crossed
    env.close()


@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_runs_learn_and_resume_exactly(quick, whole_state, assert_same, algorithm):
    more = {"model.hidden": [6], "model.delta_critic": True, "algorithm.n_rollout_steps": 7}
    if algorithm == "impala":
        more |= {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4}
    whole = quick(Carousel, algorithm, more | {"algorithm.n_epochs": 3})
    whole.train()
    half = quick(Carousel, algorithm, more)
    half.train()
    quick(Carousel, algorithm, more | {"algorithm.n_epochs": 3}, run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))
    assert np.isfinite(whole.evaluate()["eval/return_mean"])


def test_what_has_no_decisions_is_refused(quick):
    with pytest.raises(ConfigError, match="no decision of this environment has several turns"):
        _ = quick("CartPole-v1", "ppo", {"model.delta_critic": True}).run
    with pytest.raises(PluginError, match="rows without their sequences"):
        policy_of().value(to_tensors(allocate(space_specs(Carousel().observation_space, "observation"), (1,))))
