"""CrossQ, REDQ, DroQ and TQC: what is active where, who learns when, and that they resume, learn and refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_devkit.probes import Workshop
from maze_offpolicy.learn.targets import Target
from maze_offpolicy.models import critics as critics_module
from maze_offpolicy.models.critics import StateActionCritics
from torch import nn

from maze_core.base.errors import ConfigError
from maze_core.models.inputs import FlatInput
from tests.bomb import bomb
from tests.interrupted import interrupted
from tests.maze_sac.test_learning import FAST, Throw

BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 10], np.float32))
OBSERVATION = spaces.Box(-1, 1, (3,), np.float32)
LEAVES = {"x": OBSERVATION}
PRESETS = ("crossq", "redq", "droq", "tqc")
# The presets in small: what they are about, with fewer of everything.
SMALLER = {
    "crossq": {},
    "redq": {"algorithm.utd": 2, "algorithm.policy_delay": 2, "algorithm.n_critics": 4},
    "droq": {"algorithm.utd": 2, "algorithm.policy_delay": 2, "algorithm.dropout": 0.2},
    "tqc": {"algorithm.n_critics": 2, "algorithm.quantiles": 5},
}
SMALL_MODEL = {"model.hidden": [16, 16]}


def variant(sac, preset, env, overrides=None, **parts):
    return sac(env, SMALLER[preset] | SMALL_MODEL | (overrides or {}), preset=preset, **parts)


def box_env():
    return SpacesEnv(OBSERVATION, BOX)


def separate(critics, number, norm, training):
    """The same critic of ordinary layers: layer norm before activations; batch norm of inputs and after activations."""
    layers, sizes = [], [getattr(critics, f"weight_{layer}")[number] for layer in range(3)]
    norms = list(critics.norms)

    def normal(module):
        width = module.scale.shape[-1]
        own = nn.LayerNorm(width) if norm == "layer" else nn.BatchNorm1d(width, eps=1e-3, momentum=0.01)
        own.weight.data, own.bias.data = module.scale.data[number, 0].clone(), module.shift.data[number, 0].clone()
        if norm == "batch":
            own.running_mean.data = module.mean[number, 0].clone()
            own.running_var.data = module.variance[number, 0].clone()
            own.train(training)
        return own

    layers += [normal(norms[0])] if norm == "batch" else []
    for layer, weight in enumerate(sizes):
        linear = nn.Linear(*weight.shape)
        linear.weight.data = weight.data.T.clone()
        linear.bias.data = getattr(critics, f"bias_{layer}").data[number, 0].clone()
        layers.append(linear)
        if layer < 2:
            layers += [normal(norms[layer])] if norm == "layer" else []
            layers.append(nn.ReLU())
            layers += [normal(norms[layer + 1])] if norm == "batch" else []
    return nn.Sequential(*layers)


@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("training", [True, False])
def test_critics_with_norms_equal_separate_networks_with_their_gradients(norm, training):
    torch.manual_seed(0)
    critics = StateActionCritics(FlatInput(LEAVES), 2, 1, (8, 7), "relu", 3, norm)
    with torch.no_grad():
        for module in critics.norms:
            module.scale.uniform_(0.5, 2)
            module.shift.uniform_(-1, 1)
            if norm == "batch":
                module.mean.uniform_(-1, 1)
                module.variance.uniform_(0.5, 2)
    obs, box = {"x": torch.randn(6, 3)}, torch.randn(6, 2)
    own = [separate(critics, number, norm, training) for number in range(3)]
    values = critics.values(critics.features(obs), box, batch=training)
    expected = torch.stack([each(torch.cat([obs["x"], box], -1)) for each in own])
    torch.testing.assert_close(values, expected)
    weights = torch.randn_like(values)
    (values * weights).sum().backward()
    (expected * weights).sum().backward()
    for number, each in enumerate(own):
        linears = [layer for layer in each if isinstance(layer, nn.Linear)]
        norms = [layer for layer in each if isinstance(layer, nn.LayerNorm | nn.BatchNorm1d)]
        assert len(norms) == len(critics.norms) == (2 if norm == "layer" else 3)
        for layer, linear in enumerate(linears):
            found = getattr(critics, f"weight_{layer}").grad[number]
            torch.testing.assert_close(found, linear.weight.grad.T, rtol=1e-5, atol=1e-5)
        for found, wanted in zip(critics.norms, norms, strict=True):
            torch.testing.assert_close(found.scale.grad[number, 0], wanted.weight.grad, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(found.shift.grad[number, 0], wanted.bias.grad, rtol=1e-4, atol=1e-5)


def test_targets_of_critics_with_norms_follow_them():
    critics = StateActionCritics(FlatInput(LEAVES), 2, 1, (8, 7), "relu", 2, "batch")
    target = Target(critics)
    features, box = critics.features({"x": torch.randn(6, 3)}), torch.randn(6, 2)
    critics.values(features, box, batch=True)
    assert not target.module.values(features, box).equal(critics.values(features, box))
    target.follow(1.0)
    torch.testing.assert_close(target.module.values(features, box), critics.values(features, box))


def test_dropout_is_that_of_each_hidden_unit_before_the_norm(monkeypatch):
    critics = StateActionCritics(FlatInput(LEAVES), 2, 1, (8, 7), "relu", 2, "layer", 0.5)
    seen = []

    def spy(values, rate, chance):
        seen.append((values.shape[-1], rate))
        return values

    monkeypatch.setattr(critics_module, "dropped", spy)
    features, box = critics.features({"x": torch.randn(6, 3)}), torch.randn(6, 2)
    critics.values(features, box)
    assert not seen
    critics.values(features, box, chance=torch.Generator())
    assert seen == [(8, 0.5), (7, 0.5)]


def calls_of_one_loss(context):
    """How the critics were asked in one loss, in order: whose critics, rows, and the options."""
    run = context.run
    algorithm = run.algorithm
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 16, 0.9)
    asked = []
    owners = {"critics": algorithm.critics}
    owners |= {} if algorithm.targets is None else {"targets": algorithm.targets.module}
    for name, module in owners.items():
        values = module.values

        def spy(features, box, *, name=name, values=values, **options):
            assert options["chance"] is algorithm.noise
            flags = [flag for flag in ("batch", "frozen") if options.get(flag)]
            asked.append((name, len(box), *flags, "grad" if torch.is_grad_enabled() else "no grad"))
            return values(features, box, **options)

        module.values = spy
    algorithm.compute_loss(run.policy, batch)
    for module in owners.values():
        del module.values
    return asked


def test_batch_statistics_are_those_of_both_halves_and_the_policy_sees_the_running_ones(sac):
    context = variant(sac, "crossq", box_env)
    context.train()
    assert calls_of_one_loss(context) == [("critics", 32, "batch", "grad"), ("critics", 16, "frozen", "grad")]
    run = context.run
    updates = {int(module.updates) for module in run.algorithm.critics.norms}
    assert updates == {run.learner.steps + 1}  # once for each batch, and for the loss above
    assert set(run.algorithm.modules()) == {"critics", "temperature"}
    assert not run.policy.training


@pytest.mark.parametrize("preset", ["droq", "redq", "tqc"])
def test_dropout_is_active_in_the_values_the_target_and_the_policys_objective(sac, preset):
    context = variant(sac, preset, box_env)
    context.train()
    wanted = [("targets", 16, "no grad"), ("critics", 16, "grad"), ("critics", 16, "frozen", "grad")]
    assert calls_of_one_loss(context) == wanted
    assert not context.run.policy.training


def test_crossqs_loss_by_ordinary_layers(sac):
    """The critics' part: one forward of both halves, whose second half is the target."""
    context = variant(sac, "crossq", box_env, {"algorithm.gamma": 0.9})
    context.train()
    run, algorithm = context.run, context.run.algorithm
    batch = algorithm.kept["collector"].replay.sample(np.random.default_rng(0), 16, 0.9)
    batch.objective, critics, state = "critic", algorithm.critics, algorithm.noise.get_state()
    own = [separate(critics, number, "batch", True) for number in (0, 1)]
    critics.zero_grad()
    loss = algorithm.compute_loss(run.policy, batch)
    loss.total.backward()
    algorithm.noise.set_state(state)
    with torch.no_grad():
        following = algorithm._decide(run.policy, batch.next_obs)
    taken = (batch.actions["action"] - torch.tensor([0.0, 5.0])) / torch.tensor([2.0, 5.0])
    inputs = torch.cat(
        [
            torch.cat([batch.obs["observation"], taken], -1),
            torch.cat([batch.next_obs["observation"], following.box], -1),
        ]
    )
    both = torch.stack([each(inputs).squeeze(-1) for each in own])
    alpha = algorithm.temperature.coefficient()
    soft = both[:, 16:].detach().amin(0) - alpha * following.negative_entropy
    expected = 0.5 * (both[:, :16] - batch.extra["reward"] - batch.extra["discount"] * soft).square().mean(-1).sum()
    torch.testing.assert_close(loss.total, expected, rtol=1e-4, atol=1e-5)
    expected.backward()
    for number, each in enumerate(own):
        linears = [layer for layer in each if isinstance(layer, nn.Linear)]
        torch.testing.assert_close(critics.weight_1.grad[number], linears[1].weight.grad.T, rtol=1e-3, atol=1e-5)
    assert set(loss.metrics) == {"critic", "q"}


@pytest.mark.parametrize("delay", [1, 3])
def test_policy_and_coefficient_learn_from_every_few_batches_and_the_critics_from_all(sac, delay):
    context = sac(box_env, {"algorithm.policy_delay": delay, "algorithm.num_batches_per_iter": 1})
    run, algorithm, seen = context.run, context.run.algorithm, []
    networks = (algorithm.critics, run.policy, algorithm.temperature)

    def parameters():
        return [[parameter.detach().clone() for parameter in network.parameters()] for network in networks]

    before, count = parameters(), run.count_update

    def count_update():
        nonlocal before
        after = parameters()
        seen.append(
            [any(not a.equal(b) for a, b in zip(x, y, strict=True)) for x, y in zip(before, after, strict=True)]
        )
        before = after
        count()

    run.count_update = count_update
    context.train()
    assert seen == [[True, *[update % delay == 0] * 2] for update in range(1, 11)]


def test_adam_has_the_configured_decay_for_the_networks_only(sac):
    context = sac(box_env, {"algorithm.beta1": 0.5})
    assert [group["betas"] for group in context.run.learner.optimizer.param_groups] == [(0.5, 0.999), (0.9, 0.999)]


@pytest.mark.parametrize(
    "preset",
    [each if each == "droq" else pytest.param(each, marks=pytest.mark.slow) for each in PRESETS if each != "tqc"],
)
def test_a_throw_is_learnt_with_the_preset(sac, preset):
    length = 200 if "algorithm.utd" in SMALLER[preset] else 400
    values = {
        **FAST,
        "algorithm.epoch_length": length,
        "evaluation.n_episodes": 50,
        "algorithm.critic_hidden": [32, 32],
    }
    values |= {"algorithm.batch_size": 64, "algorithm.tau": 0.02, "algorithm.entropy_coef": 0.2}
    summary = variant(sac, preset, lambda: Throw(False), values).train()
    assert summary.final_evaluation["eval/return_mean"] > -0.05


@pytest.mark.parametrize(
    ("preset", "actions"),
    [
        ("crossq", spaces.Dict({"a": spaces.Discrete(3), "b": BOX})),
        ("redq", spaces.MultiDiscrete([2, 3])),
        ("droq", spaces.Dict({"a": spaces.Discrete(3), "b": BOX})),
    ],
)
def test_discrete_and_mixed_actions_and_images(sac, preset, actions):
    variant(sac, preset, lambda: SpacesEnv(OBSERVATION, actions), {"algorithm.n_epochs": 1}).train()


@pytest.mark.parametrize("preset", ["crossq", "droq"])
def test_images_pass_encoders_of_the_critics_own(sac, preset):
    class Photo(SpacesEnv):
        def __init__(self):
            super().__init__(Workshop().observation_space, BOX)

    values = {"model.name": "template", "model.image_features": 8, "model.normalize_observations": True}
    context = sac(Photo, SMALLER[preset] | values | {"algorithm.n_epochs": 1}, preset=preset)
    context.train()
    assert len(context.run.algorithm.critics.encoders) == 2


@pytest.mark.parametrize("actions", [spaces.Discrete(3), spaces.Dict({"a": spaces.Discrete(3), "b": BOX})])
def test_quantiles_need_box_actions(sac, tmp_path, actions):
    with pytest.raises(ConfigError, match=r"algorithm\.quantiles: quantiles of the return need Box actions") as caught:
        variant(sac, "tqc", lambda: SpacesEnv(OBSERVATION, actions)).train()
    assert 'Next: overrides={"algorithm.quantiles": 1, "algorithm.drop_top": 0}' in str(caught.value)
    assert not list(tmp_path.iterdir())


class Push(SeededWalk):
    """The walk, pushed by a Box action."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)

    def step(self, action):
        return super().step(int(np.clip(np.floor(1.5 * (action[0] + 1)), 0, 2)))


@pytest.mark.parametrize("preset", ["crossq", "droq"])
def test_a_run_that_was_stopped_ends_like_an_undisturbed_one(sac, whole_state, assert_same, preset):
    """Running statistics, subsets, dropout and the delay of the policy go on where they were."""
    values = {"algorithm.utd": 0.7, "algorithm.policy_delay": 3, "algorithm.n_epochs": 3}
    states = []
    for at in (5, 0):
        context = variant(sac, preset, Push, values, callbacks={"bomb": bomb(at)})
        if at:
            interrupted(context.train)
            context.resume(context.run_dir)
        else:
            context.train()
        states.append(whole_state(context.run_dir))
    assert_same(*states)
