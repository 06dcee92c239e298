"""Composers: how encoded leaves are joined by a module of one's own, in `template` and `set_template`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_models.composer import Composition
from maze_models.template import TemplateConfig, TemplateModel
from maze_set_models.config import SetTemplateConfig
from maze_set_models.model import SetTemplateModel
from torch import nn

from maze_core.base.errors import ConfigError
from maze_core.models.memory import separate_rows

SEEN = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (12, 12, 3), np.uint8),
        "critic": spaces.Box(-1, 1, (3,), np.float32),
        "gear": spaces.Discrete(4),
        "speed": spaces.Box(-1, 1, (2,), np.float32),
    }
)
SETS = spaces.Dict({"stock": spaces.Box(-1, 1, (5, 3), np.float32), "wish": spaces.Box(-1, 1, (2,), np.float32)})
CHOICES = spaces.Discrete(3)


class Product(nn.Module):
    """The product of projections of all leaves."""

    def __init__(self, widths):
        super().__init__()
        self.widths, self.out_features = widths, 6
        self.project = nn.ModuleDict({key: nn.Linear(width, 6) for key, width in widths.items()})

    def forward(self, encoded):
        return torch.stack([self.project[key](leaf) for key, leaf in encoded.items()]).prod(0)


class Composed(TemplateModel):
    composer = Product


class ComposedSets(SetTemplateModel):
    composer = Product


def template(**values):
    config = TemplateConfig(name="template", leaf_hidden=(8,), image_features=16, **values)
    torch.manual_seed(0)
    return Composed(config).build_policy(SEEN, CHOICES, config)


def observations(space, rows=4):
    rng = np.random.default_rng(0)
    space.seed(0)
    drawn = [space.sample() for _ in range(rows)]
    return {key: torch.from_numpy(np.stack([np.asarray(each[key]) for each in drawn])) for key in drawn[0]}, rng


def test_the_composer_joins_the_encoded_leaves_before_the_further_layers():
    policy = template(hidden=(5,), critic="separate")
    encoder, obs = policy.encoder, observations(SEEN)[0]
    composer = encoder.composition.composer
    assert composer.widths == {"camera": 16, "gear": 8, "speed": 8}
    wanted = torch.ones(4, 6)
    for key, part in zip(composer.widths, encoder.parts.values(), strict=True):
        wanted = wanted * composer.project[key](part(obs))
    torch.testing.assert_close(encoder(obs), encoder.trunk(wanted))
    assert encoder.out_features == 5
    assert policy.critic_encoder.composition.composer.widths == {"camera": 16, "critic": 8, "gear": 8, "speed": 8}


def test_pooled_sets_are_among_the_leaves():
    config = SetTemplateConfig(name="sets", embedding=16, leaf_hidden=(8,), hidden=())
    policy = ComposedSets(config).build_policy(SETS, CHOICES, config)
    assert policy.encoder.composition.composer.widths == {"wish": 8, "stock": 17}
    obs = observations(SETS)[0]
    turned = {**obs, "stock": obs["stock"].flip(1)}
    torch.testing.assert_close(policy.encoder(obs), policy.encoder(turned))
    assert "Product: → 6" in policy.encoder.picture_lines


@pytest.mark.parametrize("memory", ["gru", "lstm", "window"])
def test_a_memory_follows_and_gradients_reach_the_composer(memory):
    policy = template(memory=memory, memory_size=8, memory_window=4, hidden=())
    obs = observations(SEEN)[0]
    distribution, value = policy(obs, separate_rows(policy, 4))
    (distribution.entropy().sum() + value.sum()).backward()
    for encoder in (policy.encoder, policy.critic_encoder):
        assert all(p.grad is not None for p in encoder.composition.composer.parameters())


def test_without_a_composer_leaves_are_concatenated():
    leaves = {"a": torch.rand(2, 3), "b": torch.rand(2, 1)}
    plain = Composition({"a": 3, "b": 1})
    assert torch.equal(plain(leaves), torch.cat([leaves["a"], leaves["b"]], -1))
    assert plain.out_features == 4
    assert not plain.state_dict()


class Nameless(nn.Module):
    def __init__(self, widths):
        super().__init__()


class Wrong(Product):
    def forward(self, encoded):
        return super().forward(encoded)[:, :2]


@pytest.mark.parametrize(
    ("composer", "message"),
    [
        (lambda: Product({}), "takes 0 positional arguments"),
        (Nameless, "Nameless gives Nameless, which is no module with `out_features`"),
        (lambda widths: widths, "gives dict"),
        (Wrong, r"Wrong returned \(2, 2\) for two rows, not a tensor of shape \(2, 6\)"),
        (nn.ReLU, "ReLU"),
    ],
)
def test_an_unusable_composer_is_explained(composer, message):
    with pytest.raises(ConfigError, match=f"this composer cannot be used: .*{message}"):
        Composition({"a": 3, "b": 2}, composer)


def test_a_function_that_returns_a_module_and_a_whole_run(quick):
    class FromFunction(TemplateModel):
        composer = lambda widths: Product(widths)  # noqa: E731

    context = quick("CartPole-v1", "ppo", {"model.memory": "gru", "model.memory_size": 4}, model=FromFunction)
    context.train()
    assert isinstance(context.policy.encoder.composition.composer, Product)
