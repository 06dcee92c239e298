"""Gradients by formulas: those of autograd, and only where they hold."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_onpolicy.closed_form.actor_critic import ClosedForm
from maze_onpolicy.closed_form.layers import column_sums, product
from maze_onpolicy.learn import advantages
from maze_onpolicy.learn.advantages import advantage_rows
from torch import nn
from torch.nn.utils import parametrizations

from maze_core.learn.learner import backward

OVERRIDES = {"evaluation.n_episodes": 0}

BOX = spaces.Box(-2, 3, (5,))
SPACES = {
    "discrete": (BOX, spaces.Discrete(4)),
    "continuous": (BOX, spaces.Box(-1, 3, (3,))),
    "unbounded": (BOX, spaces.Box(-np.inf, np.inf, (2, 2))),
    "dict": (spaces.Dict({"a": BOX, "b": spaces.Discrete(3), "c": spaces.MultiBinary(2)}), spaces.Discrete(2, start=5)),
    "in a dict": (spaces.MultiDiscrete([3, 4]), spaces.Dict({"go": spaces.Box(0, 1, (1,))})),
}
MODELS = {
    "default": {},
    "shared": {"model.critic": "shared"},
    "relu": {"model.activation": "relu", "model.hidden": [120]},
    "deep": {"model.hidden": [9, 8, 6]},
    "normalised": {"model.normalize_observations": True},
    "hot": {"model.temperature": 3.0, "algorithm.entropy_coef": 0.1},
}


class Drift(gymnasium.Env):
    """Random observations and rewards in any spaces."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        ended = bool(self.np_random.random() < 0.1)
        return self.observation_space.sample(), float(self.np_random.normal()), ended, False, {}


def both(run, batch):
    """Return loss and gradients of a batch by formulas, and by autograd."""
    algorithm, found = run.algorithm, []
    form = algorithm._burn_in.closed_form()
    assert form is not None
    for chosen in (form, None):
        algorithm._burn_in._found = run.epoch, chosen
        for parameter in run.policy.parameters():
            parameter.grad = None
        loss = algorithm.compute_loss(run.policy, batch)
        backward(loss.total)
        found.append((loss, {name: p.grad for name, p in run.policy.named_parameters()}))
    algorithm._burn_in._found = run.epoch, form
    return found


@pytest.mark.parametrize(
    ("where", "model"),
    [
        *((where, "normalised") for where in SPACES),
        *((where, model) for where in ("dict", "unbounded") for model in MODELS if model != "normalised"),
    ],
)
def test_the_formulas_give_the_gradients_of_autograd(quick, where, model):
    for algorithm in ("ppo", "a2c"):
        clipped = {"algorithm.value_clip_range": 0.1} if algorithm == "ppo" and model == "deep" else {}
        context = quick(lambda: Drift(*SPACES[where]), algorithm, {**MODELS[model], **clipped})
        run = context.run
        with torch.no_grad():
            for parameter in run.policy.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        for number, batch in enumerate(run.algorithm.batches()):
            (closed, ours), (graph, theirs) = both(run, batch)
            torch.testing.assert_close(closed.total, graph.total, rtol=1e-5, atol=1e-5)
            for name, metric in graph.metrics.items():
                torch.testing.assert_close(closed.metrics[name], metric, rtol=1e-5, atol=1e-5)
            for name, gradient in theirs.items():
                assert ours[name].shape == gradient.shape, name
                torch.testing.assert_close(ours[name], gradient, rtol=1e-4, atol=1e-5, msg=name)
            with torch.no_grad():  # ratios away from 1, also beyond the clip range
                for parameter in run.policy.parameters():
                    parameter.add_(0.1 * torch.randn_like(parameter))
            if number == 3:
                break


@pytest.mark.parametrize("where", [*SPACES, "native"])
def test_the_formulas_give_the_values_and_log_probabilities_of_a_rollout(quick, monkeypatch, where):
    """In parts of any size, with rows that are filler and episodes that a time limit ended."""
    native = {"env.vectorization": "native", "env.max_episode_steps": 15}
    env, settings = ("CartPole-v1", native) if where == "native" else (lambda: Drift(*SPACES[where]), {})
    run = quick(env, "ppo", {**settings, "algorithm.n_rollout_steps": 40, "model.normalize_observations": True}).run
    rollout = run.algorithm.kept["collector"].collect()
    assert rollout.valid.all() == (where != "native") == (not rollout.truncations)
    formulas = ClosedForm.of(run.policy)

    def rows(formulas):
        return advantage_rows(run.policy, rollout, 0.9, 0.8, run.device, log_probs=True, formulas=formulas)[0]

    for values_at_once in (17, 100_000):
        monkeypatch.setattr(advantages, "_CHUNK", values_at_once)
        ours, theirs = rows(formulas), rows(None)
        for key, leaf in {**theirs.obs, **theirs.extra}.items():
            torch.testing.assert_close({**ours.obs, **ours.extra}[key], leaf, rtol=1e-5, atol=1e-5, msg=key)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_training_is_the_same_but_for_rounding(quick, algorithm):
    finals = []
    for closed_form in (True, False):
        context = quick("CartPole-v1", algorithm, {"closed_form": closed_form, "algorithm.epoch_length": 12})
        context.train()
        finals.append(torch.cat([p.detach().flatten() for p in context.run.policy.parameters()]))
    assert not torch.equal(*finals), "both runs took the same way"
    torch.testing.assert_close(*finals, rtol=1e-3, atol=1e-4)


def test_a_term_added_to_the_loss_has_its_gradients_too(quick):
    run = quick("CartPole-v1").run
    batch = next(iter(run.algorithm.batches()))
    for combined in (lambda total, extra: total + extra, lambda total, extra: 3 * total + extra):
        gradients = []
        burn_in = run.algorithm._burn_in
        for form in (burn_in.closed_form(), None):
            kept, burn_in._found = burn_in._found, (run.epoch, form)
            loss = run.algorithm.compute_loss(run.policy, batch)
            burn_in._found = kept
            for parameter in run.policy.parameters():
                parameter.grad = None
            backward(combined(loss.total, sum(p.square().sum() for p in run.policy.parameters())))
            gradients.append(torch.cat([p.grad.flatten() for p in run.policy.parameters()]))
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def hooked(policy):
    policy.encoder.trunk.register_forward_hook(lambda *_: None)


def watched(policy):
    policy.encoder.trunk.register_full_backward_hook(lambda *_: None)


def noting_gradients(policy):
    policy.value_head.weight.register_hook(lambda gradient: None)


def noting_sums(policy):
    policy.value_head.bias.register_post_accumulate_grad_hook(lambda parameter: None)


def frozen(policy):
    policy.encoder.trunk.dense_layers[0].weight.requires_grad_(False)


def normed(policy):
    parametrizations.weight_norm(policy.value_head)


def another_head(policy):
    policy.value_head = nn.Sequential(policy.value_head)


def doubled(policy):
    policy.double()


def own_class(policy):
    policy.__class__ = type("Own", (type(policy),), {})


@pytest.mark.parametrize(
    "change", [hooked, watched, noting_gradients, noting_sums, frozen, normed, another_head, doubled, own_class]
)
def test_a_policy_that_was_changed_learns_by_autograd(quick, change):
    policy = quick("CartPole-v1").run.policy
    assert ClosedForm.of(policy) is not None
    change(policy)
    assert ClosedForm.of(policy) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"model.activation": "elu"},
        {"model.layer_norm": True},
        {"model.memory": "gru"},
        {"model.distribution": "beta"},
        {"model.distribution": "squashed_gaussian"},
        {"model.state_dependent_std": True},
        {"closed_form": False},
        {"algorithm.critic_burn_in_epochs": 1},
    ],
)
def test_other_networks_learn_by_autograd(quick, settings):
    run = quick(lambda: Drift(BOX, spaces.Box(-1, 1, (2,))), "ppo", settings).run
    next(iter(run.algorithm.batches()))
    assert run.algorithm._burn_in.closed_form() is None


def test_products_of_every_size_are_those_of_torch():
    rng = np.random.default_rng(0)
    for rows, inner, width in ((1, 1, 1), (64, 64, 64), (65, 64, 64), (700, 40, 90)):
        left, right = (rng.standard_normal(shape, np.float32) for shape in ((rows, inner), (width, inner)))
        np.testing.assert_allclose(product(left, right.T), left.astype(np.float64) @ right.T, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(product(right, left.T), right.astype(np.float64) @ left.T, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(column_sums(left), left.astype(np.float64).sum(0), rtol=1e-3, atol=1e-4)
