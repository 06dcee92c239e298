"""TRPO: the natural gradient against formulas, the trust region, and runs that repeat exactly."""

import gymnasium
import numpy as np
import pytest
import torch
from maze_devkit.envs import SeededWalk
from maze_devkit.turns import Carousel
from maze_onpolicy.learn.recurrent import twice_differentiable
from maze_trpo.config import TRPOConfig
from maze_trpo.trpo import conjugate_gradient, line_search, natural_step

from maze_core.base.errors import ConfigError
from maze_core.data.batch import Batch
from maze_core.data.sequences import Sequences
from tests.agents import CrowdSource
from tests.masked import Guarded

OVERRIDES = {"evaluation.n_episodes": 0}

SMALL = {"algorithm.num_envs": 3, "algorithm.batch_size": 8, "algorithm.n_critic_epochs": 2, "model.hidden": [6]}


def random_batch(rows=60):
    rng = np.random.default_rng(3)
    obs, action, advantage = rng.normal(size=(rows, 2)), rng.integers(3, size=rows), rng.normal(size=rows)
    return obs, action, advantage


def softmax(logits):
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def exact_step(policy, obs, action, advantage, config):
    """The step of a linear softmax policy [(W, b)], from the Fisher matrix itself, in numpy."""
    state = {name: value.double().numpy().copy() for name, value in policy.state_dict().items()}
    weight, bias = (state[f"heads.action_head.linear.{name}"] for name in ("weight", "bias"))
    chances = softmax(obs @ weight.T + bias)
    advantage = (advantage - advantage.mean()) / advantage.std()
    slope, fisher = 0.0, np.zeros((9, 9))
    for row, p in enumerate(chances):
        # The gradient of the log-probability of each choice, [3, 9]: of W, then of b.
        score = np.eye(3) - p
        scores = np.concatenate([np.einsum("ck,f->ckf", score, obs[row]).reshape(3, 6), score], 1)
        fisher += np.einsum("c,ci,cj->ij", p, scores, scores) / len(obs)
        slope = slope + advantage[row] * scores[action[row]] / len(obs)
    damped = fisher + config.damping * np.eye(9)
    direction = np.linalg.solve(damped, slope)
    return weight, bias, chances, direction * np.sqrt(2 * config.max_kl / (direction @ damped @ direction))


@pytest.mark.parametrize("max_kl", [1e-4, 0.01, 0.5])
def test_the_step_is_the_natural_gradient_and_stays_in_the_region(quick, max_kl):
    more = {"model.hidden": [], "algorithm.max_kl": max_kl, "algorithm.cg_iterations": 30, "algorithm.damping": 1e-3}
    run = quick(SeededWalk, "trpo", more).run
    obs, action, advantage = random_batch()
    tensors = {"observation": torch.from_numpy(obs).float()}, {"action": torch.from_numpy(action)}
    with torch.no_grad():
        for parameter in run.policy.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        log_prob = run.policy.distribution(tensors[0]).log_prob(tensors[1])
    rows = Batch(*tensors, {"advantage": torch.from_numpy(advantage).float(), "log_prob": log_prob})
    weight, bias, before, expected = exact_step(run.policy, obs, action, advantage, run.algorithm.config)
    told = {name: value.item() for name, value in run.algorithm._step(rows).items()}
    assert 0 < told["step"] <= 1
    head = run.policy.heads["action_head"].linear
    moved = np.concatenate([(head.weight.detach().numpy() - weight).ravel(), head.bias.detach().numpy() - bias])
    np.testing.assert_allclose(moved, told["step"] * expected, atol=2e-3 * np.abs(expected).max())
    after = softmax(obs @ head.weight.detach().double().numpy().T + head.bias.detach().double().numpy())
    kl = (before * np.log(before / after)).sum(1).mean()
    assert kl == pytest.approx(told["kl"], rel=1e-2)
    assert 0.2 * max_kl < kl <= max_kl * 1.001
    chosen = np.arange(len(obs)), action
    normal = (advantage - advantage.mean()) / advantage.std()
    assert told["gain"] == pytest.approx(((after[chosen] / before[chosen] - 1) * normal).mean(), rel=2e-2)


def test_conjugate_gradients_solve_and_the_step_has_its_divergence():
    rng = torch.Generator().manual_seed(0)
    root = torch.randn(6, 6, generator=rng, dtype=torch.float64)
    matrix, target = root @ root.T + torch.eye(6), torch.randn(6, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(conjugate_gradient(matrix.mv, target, 30), torch.linalg.solve(matrix, target))
    step = natural_step(matrix.mv, target, 0.02, 30)
    assert (0.5 * step @ matrix @ step).item() == pytest.approx(0.02)
    assert step @ target > 0
    assert not natural_step(matrix.mv, torch.zeros_like(target), 0.02, 30).any()


@pytest.mark.parametrize(
    ("gain", "kl", "share"),
    [
        (lambda x: x, lambda x: 0 * x, 1.0),  # at once
        (lambda x: x, lambda x: x * x, 0.25),  # too far: the region is [-0.3, 0.3]
        (lambda x: x - 1.5 * x * x, lambda x: 0 * x, 0.5),  # overshoots
        (lambda x: -x, lambda x: 0 * x, 0.0),  # gets worse
        (lambda x: x, lambda x: 1 + 0 * x, 0.0),  # never near enough
        (lambda x: x * float("nan"), lambda x: x, 0.0),
    ],
)
def test_the_line_search_takes_the_longest_good_step_and_rejects_bad_ones(gain, kl, share):
    config = TRPOConfig(name="trpo", max_kl=0.09, backtrack=0.5, search_steps=5)
    parameters = [torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.full((2, 1), 7.0))]

    def gain_and_kl():
        return gain(parameters[0].squeeze()), kl(parameters[0].squeeze())

    found = line_search(gain_and_kl, torch.zeros(()), parameters, torch.tensor([1.0, 2.0, 0.0]), config)
    assert found[2].item() == share
    assert found[0].item() == pytest.approx(gain(share) if share else 0.0)
    assert [each.tolist() for each in parameters] == [[share], [[7.0 + 2 * share], [7.0]]]


def test_recurrent_networks_are_read_without_cudnn_which_has_no_second_derivative():
    with twice_differentiable(None):
        assert torch.backends.cudnn.enabled
    with twice_differentiable(Sequences(np.ones(1, np.int64), {})):
        assert not torch.backends.cudnn.enabled
    assert torch.backends.cudnn.enabled


def pendulum():
    return gymnasium.make("Pendulum-v1", max_episode_steps=25)


def board():
    return Guarded("a board")


@pytest.mark.parametrize(
    ("env", "more"),
    [
        *((pendulum, {"model.distribution": each}) for each in ("gaussian", "squashed_gaussian", "beta")),
        (pendulum, {"model.state_dependent_std": True}),
        (board, {"model.memory": "lstm", "model.memory_size": 4}),
        (SeededWalk, {"model.memory": "gru", "model.memory_size": 4, "algorithm.sequence_length": 3}),
        (SeededWalk, {"model.memory": "linear", "model.memory_size": 4}),
        (CrowdSource, {"model.memory": "window", "model.memory_size": 4}),
        (Carousel, {"model.normalize_observations": True, "model.joint_critic": True}),
    ],
)
def test_each_step_stays_in_the_region_for_every_kind_of_policy(quick, monkeypatch, env, more):
    """The divergence of what was learnt from what acted, as the distributions have it, without damping in the way."""
    run = quick(env, "trpo", {**SMALL, "algorithm.normalize_advantages": False, **more}).run
    step, told = run.algorithm._step, []

    def looked_at(rows):
        def distribution():
            with torch.no_grad():
                return run.policy.distribution(rows.obs, *([rows.sequences] if rows.sequences is not None else []))

        old = distribution().snapshot()
        told.append({name: value.item() for name, value in step(rows).items()})
        assert old.kl(distribution()).mean().item() == pytest.approx(told[-1]["kl"], abs=1e-6)
        assert told[-1]["kl"] <= run.algorithm.config.max_kl
        assert told[-1]["gain"] >= 0
        return {}

    monkeypatch.setattr(run.algorithm, "_step", looked_at)
    for _ in range(2):
        for batch in run.algorithm.batches():
            if hasattr(batch, "take"):
                batch.take()
    assert len(told) == 2
    assert any(each["step"] > 0 and each["kl"] > 1e-3 for each in told)


def test_a_run_that_was_killed_goes_on_exactly_and_workers_change_nothing(goes_on_exactly):
    same = {
        **SMALL, "algorithm.n_rollout_steps": 8, "algorithm.epoch_length": 2, "algorithm.n_epochs": 4,
        "evaluation.n_episodes": 1, "model.memory": "gru", "model.memory_size": 4,
    }  # fmt: skip
    goes_on_exactly("CartPole-v1", "trpo", same)


def test_layers_that_the_critic_shares_are_refused(quick):
    with pytest.raises(ConfigError, match=r"^model\.critic: the critic of trpo has layers of the policy"):
        _ = quick(SeededWalk, "trpo", {**SMALL, "model.critic": "shared"}).run
