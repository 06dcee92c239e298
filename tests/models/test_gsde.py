"""gSDE: its density against sampling, noise that is held, and runs that explore with it."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit import conformance
from maze_models.gsde import GsdeConfig, GsdeHead, SmoothGaussian, SquashedSmoothGaussian, held

from maze_core.run.context import RunContext
from tests.recorded import record as record

BOX = spaces.Box(-2, 2, (2,))


class Short(gymnasium.Env):
    observation_space, action_space = spaces.Box(-1, 1, (3,)), spaces.Box(-2, 2, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), float(action[0]), True, False, {}


test_conformance = conformance("distribution", "squashed_gsde")


@pytest.fixture
def head():
    """`head(kind)`: a head of three features."""

    def build(kind, **config):
        torch.manual_seed(0)
        built = GsdeHead(BOX, 3, GsdeConfig(name="gsde", **config), kind)
        torch.nn.init.normal_(built.log_std, -1.0, 0.3)
        return built

    return build


def test_samples_have_the_density_that_the_paper_says(head):
    """Variances are the squared features times those of theta, against scipy's normal."""
    from scipy import stats  # half a second for each process that collects the tests

    built, features = head(SmoothGaussian), torch.tensor([[0.5, -1.0, 2.0]])
    found = built(features.expand(20_000, 3), None)
    generator = torch.Generator().manual_seed(1)
    sample = found.sample(built.draw_noise((20_000, *built.shape), generator))
    std = np.sqrt((features.numpy() ** 2) @ np.exp(2 * built.log_std.detach().numpy()))[0]
    np.testing.assert_allclose(sample.detach().std(0), std, rtol=0.02)
    mean = found.mode()[0].detach().numpy()
    wanted = stats.norm(mean, std).logpdf(sample[:50].detach().numpy()).sum(1) - 2 * np.log(2.0)
    np.testing.assert_allclose(found.log_prob(sample)[:50].detach(), wanted, rtol=1e-4)


@pytest.mark.parametrize("kind", [SmoothGaussian, SquashedSmoothGaussian])
def test_noise_is_a_function_of_the_features_while_it_is_held(head, kind):
    built = head(kind, hold=4)
    noise = built.draw_noise((6, 3, *built.shape), torch.Generator().manual_seed(1))
    same = [bool((noise[t] == noise[t + 1]).all()) for t in range(5)]
    assert same == [True, True, True, False, True]
    assert not bool((noise[0, 0] == noise[0, 1]).any())
    features = torch.randn(3, 3)
    first, second = (built(features, None).sample(noise[t]) for t in (0, 3))
    torch.testing.assert_close(first, second)
    fourth, once_more = (held((t, 1, 4), 4, torch.Generator().manual_seed(1)) for t in (8, 4))
    torch.testing.assert_close(fourth[:4], once_more)


RUNS = {
    "ppo": ("gsde", {"algorithm.num_envs": 2, "algorithm.n_optimization_epochs": 2}),
    "a2c": ("gsde", {"algorithm.num_envs": 2}),
    "sac": (
        "squashed_gsde",
        {"algorithm.initial_buffer_size": 24, "algorithm.batch_size": 8, "algorithm.critic_hidden": [8]},
    ),
}


@pytest.mark.parametrize("algorithm", RUNS)
def test_runs_learn_resume_and_agree_with_workers(quick, algorithm, whole_state, assert_same):
    name, values = RUNS[algorithm]
    values = {**values, "model.distribution": {"name": name, "hold": 4}, "model.hidden": [8], "evaluation.num_envs": 1}
    whole, half, rest, local = (
        quick("Pendulum-v1", algorithm, {**values, "algorithm.n_epochs": 3, "runner.name": runner})
        for runner in ("dev", "dev", "dev", "local")
    )
    before = {key: leaf.clone() for key, leaf in whole.policy.state_dict().items()}
    for context in (whole, local):
        context.train()
    learnt, theirs = whole.policy.state_dict(), local.policy.state_dict()
    assert all(torch.equal(leaf, theirs[key]) for key, leaf in learnt.items())
    assert all(not torch.equal(before[key], leaf) for key, leaf in learnt.items() if "log_std" in key)
    half.train(1)
    half.close()
    rest.resume(half.run_dir)
    assert_same(whole_state(half.run_dir), whole_state(whole.run_dir))


def test_conservative_q_learning_samples_rows_not_steps(tmp_path, known_plugins, record):
    dataset = record(spaces.Box(-1, 1, (3,)), spaces.Box(-2, 2, (1,)))
    values = {"algorithm.dataset": str(dataset), "algorithm.batch_size": 8, "algorithm.critic_hidden": [8]}
    values |= {"algorithm.n_epochs": 1, "algorithm.epoch_length": 3, "algorithm.sampled_actions": 3}
    with RunContext(
        Short, "cql", overrides={**values, "model.distribution": "squashed_gsde"}, silent=True, run_dir=tmp_path / "r"
    ) as context:
        context.train()
        algorithm, policy = context.run.algorithm, context.policy
        acted, density = algorithm._sample(policy, {"observation": torch.zeros(2, 3)}, 5)
    assert acted.shape == (5, 2, 1)
    assert density.shape == (5, 2)
    assert len(acted[:, 0].unique()) == 5
