"""Choices that observations describe are scored by their features: in policies, in values, in files, and they learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_actors.turns import Turn, TurnEnv
from maze_dqn.network import value_network
from maze_dqn.returns import Expected, Probabilities, Quantiles
from maze_export.export import export_policy
from maze_models.scored_choices import DescribedChoices, ScoredHead
from maze_models.simba import SimbaConfig, SimbaModel
from maze_models.template import TemplateConfig, TemplateModel
from maze_onpolicy.closed_form.actor_critic import ClosedForm
from torch import nn

from maze_core.base.errors import ConfigError
from maze_core.models.building import build_policy
from maze_core.models.mlp import MlpConfig, MlpModel
from maze_core.run.context import RunContext
from tests.described import COUNT, FEATURES, Colours
from tests.maze_export.test_export import check_by_hand

NAMED = {"choice_features": {"action": "choices"}, "choice_embedding": 8}
ROWS = 6
RETURNS = {"expected": Expected, "quantile": lambda: Quantiles(5), "categorical": lambda: Probabilities(7, -2, 2)}
MODELS = {"mlp": (MlpModel, MlpConfig), "simba": (SimbaModel, SimbaConfig), "template": (TemplateModel, TemplateConfig)}


def built(model="mlp", observation_space=Colours.observation_space, action_space=Colours.action_space, **more):
    plugin, kind = MODELS[model]
    config = kind(name=model, **{**NAMED, **more})
    torch.manual_seed(0)
    return plugin(config).build_policy(observation_space, action_space, config), config


def observations():
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 2, (ROWS, COUNT))
    mask[:, 0] = 1
    return {
        "wanted": torch.tensor(rng.normal(size=(ROWS, FEATURES)), dtype=torch.float32),
        "choices": torch.tensor(rng.normal(size=(ROWS, COUNT, FEATURES)), dtype=torch.float32),
        "action_mask": torch.tensor(mask, dtype=torch.int8),
    }


def shuffled(obs):
    """The same observations with the choices in another order in each row, and that order [ROWS, COUNT]."""
    order = torch.stack([torch.randperm(COUNT, generator=torch.Generator().manual_seed(row)) for row in range(ROWS)])
    choices = obs["choices"].gather(1, order.unsqueeze(-1).expand(-1, -1, FEATURES))
    return {**obs, "choices": choices, "action_mask": obs["action_mask"].gather(1, order)}, order


def test_a_logit_is_the_product_of_both_embeddings():
    head = ScoredHead(DescribedChoices("choices", 3, 2, None), 2, 2, temperature=2.0)
    with torch.no_grad():
        for layer, weight in ((head.query, 1.0), (head.embedding.first, 1.0), (head.embedding.second, 3.0)):
            layer.weight.copy_(weight * torch.eye(2))
            layer.bias.zero_()
    state, choices = torch.tensor([[1.0, 2.0]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, -5.0]]])
    # Of a choice 3 · max(0, its features); divided by the root of two units and by the temperature.
    expected = torch.tensor([[3.0, 6.0, 6.0]]) / (2**0.5 * 2)
    logits = head.forward(state, None, choices).logits
    torch.testing.assert_close(logits - logits[:, :1], expected - expected[:, :1])


@pytest.mark.parametrize("model", MODELS)
def test_what_is_in_another_order_is_scored_in_that_order_and_worth_the_same(model):
    """Normalised observations too, also of one that is told which choices there are only by the mask."""
    policy, _ = built(model, normalize_observations=True)
    policy.normalizer.observe({key: leaf + 1 for key, leaf in observations().items()})
    obs = observations()
    other, order = shuffled(obs)
    allowed = obs["action_mask"].bool().unsqueeze(-1)
    absent = {**obs, "choices": torch.where(allowed, obs["choices"], torch.tensor(100.0))}
    with torch.no_grad():
        probabilities, moved = (policy.distribution(each).parts["action"].log_probs.exp() for each in (obs, other))
        torch.testing.assert_close(moved, probabilities.gather(1, order))
        for each in (other, absent):
            torch.testing.assert_close(policy.value(each), policy.value(obs))
    assert policy.normalizer.keys == ("wanted",)
    assert ClosedForm.of(policy) is None


@pytest.mark.parametrize("options", [{}, {"dueling": True, "hidden": (6,)}, {"noisy_std": 0.5, "dueling": True}])
@pytest.mark.parametrize("returns", RETURNS)
def test_values_follow_their_choices(returns, options):
    policy, config = built()
    net, obs = value_network(policy, RETURNS[returns](), config, **options), observations()
    other, order = shuffled(obs)
    with torch.no_grad():
        atoms, moved = net.atoms(obs), net.atoms(other)
        assert atoms.shape == (ROWS, COUNT, net.returns.atoms)
        torch.testing.assert_close(moved, atoms.gather(1, order.unsqueeze(-1).expand_as(atoms)))
        assert atoms.std(1).min() > 0
        torch.testing.assert_close(net.value(other), net.value(obs))
        assert torch.equal(order.gather(1, net.best(moved, other)), net.best(atoms, obs))


def test_beside_other_actions_each_value_is_at_its_place():
    """Of three leaves the second is described: the values of the others do not depend on its features."""
    actions = spaces.Dict({"a": spaces.Discrete(3), "b": Colours.action_space, "c": spaces.MultiDiscrete([2, 4])})
    seen = spaces.Dict({"wanted": Colours.observation_space["wanted"], "choices": Colours.observation_space["choices"]})
    policy, config = built("mlp", seen, actions, choice_features={"b": "choices"})
    net, obs = value_network(policy, Expected(), config), observations()
    other = {**obs, "choices": obs["choices"] + 1}
    with torch.no_grad():
        net.encoder = torch.nn.Flatten()  # which the choices' mean would reach
        features = torch.ones(ROWS, 64)
        atoms, changed = net._atoms(obs, features), net._atoms(other, features)
    same = (atoms == changed).all(-1).all(0)
    assert same.tolist() == [True] * 3 + [False] * COUNT + [True] * 6


@pytest.mark.parametrize(
    ("choice_features", "message"),
    [
        ({"move": "choices"}, "no action leaf 'move'; leaves: action"),
        ({"action": "colours"}, "no observation leaf 'colours'; leaves: choices, wanted"),
        ({"action": "action_mask"}, "no observation leaf 'action_mask'"),
        ({"action": "wanted"}, r"does not describe the 8 choices of 'action'\nIt needs .* Box\(-inf, inf, \(8, F\)\)"),
    ],
)
def test_what_does_not_fit_is_refused(choice_features, message):
    with pytest.raises(ConfigError, match=message):
        built(choice_features=choice_features)


@pytest.mark.parametrize(
    ("algorithm", "model", "overrides", "message"),
    [
        ("sac", "mlp", {}, "value choices by their numbers"),
        ("dqn", "set_template", {"model.choice_features": {}, "model.pointers": {"action": "choices"}}, "pointers"),
        ("ppo", "mlp", {"model.distribution": {"name": "categorical", "temperature": 2.0}}, None),
    ],
)
def test_what_would_ignore_the_features_is_refused(quick, algorithm, model, overrides, message):
    values = {"model.choice_features": {"action": "choices"}, **overrides}
    if message is None:
        head = quick(Colours, algorithm, values, model=model).policy.heads["action_head"]
        assert head._inverse_temperature == 0.5
        return
    with pytest.raises(ConfigError, match=message):
        quick(Colours, algorithm, values, model=model).train()


RUNS = {
    "ppo": {},
    "a2c": {"model.memory": "gru", "model.memory_size": 8},
    "dqn": {"algorithm.initial_buffer_size": 16, "algorithm.dueling": True, "algorithm.head": "quantile"},
}


@pytest.mark.parametrize("algorithm", RUNS)
def test_a_run_resumes_exactly(quick, whole_state, algorithm):
    values = {"model.choice_features": {"action": "choices"}, "model.choice_embedding": 8, **RUNS[algorithm]}
    whole = quick(Colours, algorithm, values)
    whole.train()
    part = quick(Colours, algorithm, {**values, "algorithm.n_epochs": 1})
    part.train()
    quick(Colours, algorithm, values).resume(part.run_dir)
    assert whole_state(part.run_dir) == whole_state(whole.run_dir)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_file_decides_as_the_run_does(quick, tmp_path, algorithm):
    context = quick(Colours, algorithm, {"model.choice_features": {"action": "choices"}, **RUNS[algorithm]})
    context.train()
    export_policy(context.run, tmp_path / "policy.onnx")
    check_by_hand(context, tmp_path / "policy.onnx")


def test_a_policy_that_scores_nothing_is_refused():
    config = built()[1]
    with pytest.raises(ConfigError, match="not scored by their features here: the policy is Identity"):
        build_policy(lambda *_: nn.Identity(), Colours.observation_space, Colours.action_space, config)


class Turns(TurnEnv):
    """A picker, who sees its choices, and a pusher, who has none."""

    def __init__(self):
        pusher = (Colours.observation_space["wanted"], spaces.Box(-1, 1, (2,), np.float32))
        super().__init__({"picker": (Colours.observation_space, Colours.action_space), "pusher": pusher})

    def first_turn(self):
        self._left, self._task = 8, Colours()
        self._seen, _ = self._task.reset(seed=int(self.np_random.integers(1000)))
        return Turn("picker", self._seen, 0.0, 1.0, False)

    def next_turn(self, actor, action):
        self._left -= 1
        if actor == "pusher":
            return Turn("picker", self._seen, 0.0, 1.0, not self._left)
        self._seen, reward, *_ = self._task.step(int(action))
        return Turn("pusher", self._seen["wanted"], reward, 1.0, not self._left)


def test_each_kind_of_actor_has_its_own(quick):
    context = quick(Turns, "ppo", {"model.choice_features": {"picker": "choices"}, "model.joint_critic": True})
    context.train()
    described = {name: policy.described for name, policy in context.policy.policies.items()}
    assert {name: list(its) for name, its in described.items()} == {"picker_policy": ["action"], "pusher_policy": []}
    with pytest.raises(ConfigError, match="value choices by their numbers"):
        quick(Turns, "sac", {"model.choice_features": {"picker": "choices"}}).train()
    with pytest.raises(ConfigError, match=r"choice_features.action: no actor has .*\n.*: picker, pusher"):
        quick(Turns, "ppo", {"model.choice_features": {"action": "choices"}}).train()


def test_what_the_features_say_is_learnt_where_outputs_by_number_learn_little(tmp_path):
    values = {"algorithm.n_rollout_steps": 16, "algorithm.num_envs": 8, "algorithm.lr": 3e-3}
    found = []
    for choice_features in ({}, {"action": "choices"}):
        parts = {"algorithm": "ppo", "preset": "none", "steps": 1280, "seed": 1, "silent": True}
        overrides = {**values, "model.choice_features": choice_features, "callbacks.tensorboard": None}
        with RunContext(Colours, overrides=overrides, run_dir=tmp_path / str(len(found)), **parts) as context:
            context.train()
            found.append(context.evaluate()["eval/return_mean"])
    assert found[0] < 5
    assert found[1] > 9
