"""The batched forwards of a population against the policy itself, member by member."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_es.population import LayeredPopulation, SinglePopulation, VmappedPopulation, make_population, remembered
from maze_es.search_space import SearchSpace
from maze_models.cnn import CnnConfig, CnnModel
from maze_models.custom import wrap_module
from maze_models.template import TemplateConfig, TemplateModel
from torch import nn

from maze_core.envs.codecs import ObservationCodec
from maze_core.models.assembly import ModelConfig
from maze_core.models.mlp import MlpConfig, MlpModel

VECTOR = spaces.Box(-1, 1, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (12, 10, 3), np.uint8)
MIXED = spaces.Dict(
    {"image": IMAGE, "x": VECTOR, "n": spaces.Discrete(4, start=2), "bits": spaces.MultiBinary(3)},
)
BOUNDED = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 5], np.float32))
EVERYTHING = spaces.Dict(
    {
        "choice": spaces.Discrete(5, start=1),
        "choices": spaces.MultiDiscrete([3, 2, 4]),
        "bits": spaces.MultiBinary(4),
        "force": spaces.Dict({"box": BOUNDED, "free": spaces.Box(-np.inf, np.inf, (2, 2), np.float32)}),
    }
)
MASKED = spaces.Dict({"x": VECTOR, "choices_mask": spaces.MultiBinary(9), "choice_mask": spaces.MultiBinary(5)})


class Normed(nn.Module):
    """An encoder with layers that have no batched form of their own."""

    def __init__(self, space):
        super().__init__()
        self.out_features = 6
        self.linear, self.norm, self.scale = nn.Linear(3, 6), nn.LayerNorm(6), nn.Parameter(torch.ones(6))

    def forward(self, obs):
        return torch.tanh(self.norm(self.linear(obs["observation"]))) * self.scale


class Branching(Normed):
    """Its control flow depends on values, which vmap does not bear."""

    def forward(self, obs):
        features = super().forward(obs)
        return features if bool(features.sum() > 0) else -features


class Unbatched(nn.Module):
    """Reads its layer's weights by itself, for one matrix only."""

    def __init__(self, space):
        super().__init__()
        self.out_features = 6
        self.linear = nn.Linear(3, 6)

    def forward(self, obs):
        return torch.relu(obs["observation"] @ self.linear.weight.t() + self.linear.bias)


class Bias(nn.Module):
    """Layers without bias, and a convolution over time."""

    def __init__(self, space):
        super().__init__()
        self.out_features = 4
        self.convolution = nn.Conv2d(1, 2, (1, 2), bias=False)
        self.linear = nn.Linear(4, 4, bias=False)

    def forward(self, obs):
        return self.linear(torch.relu(self.convolution(obs["observation"][:, None, None])).flatten(1))


def mlp(observations, actions, **options):
    config = MlpConfig(hidden=(7, 5), orthogonal_init=False, **options)
    return MlpModel(config).build_policy(observations, actions, config)


def custom(encoder):
    return wrap_module(encoder, VECTOR, EVERYTHING, ModelConfig(orthogonal_init=False))


def cnn(observations, actions):
    config = CnnConfig(critic="shared")
    return CnnModel(config).build_policy(observations, actions, config)


def template():
    config = TemplateConfig(normalize_observations=True)
    policy = TemplateModel(config).build_policy(MIXED, EVERYTHING, config)
    policy.normalizer.update({"x": torch.randn(50, 3) * 3 + 1})
    return policy


CASES = {
    "mlp": (lambda: mlp(VECTOR, EVERYTHING), LayeredPopulation),
    "masks": (lambda: mlp(MASKED, EVERYTHING), LayeredPopulation),
    "squashed": (lambda: mlp(VECTOR, BOUNDED, distribution="squashed_gaussian"), LayeredPopulation),
    "beta": (lambda: mlp(VECTOR, BOUNDED, distribution="beta"), LayeredPopulation),
    "deviation": (lambda: mlp(VECTOR, BOUNDED, state_dependent_std=True), LayeredPopulation),
    "discrete observation": (lambda: mlp(spaces.Discrete(5), EVERYTHING), LayeredPopulation),
    "cnn": (lambda: cnn(IMAGE, spaces.Discrete(3)), LayeredPopulation),
    "large cnn": (lambda: cnn(spaces.Box(0, 255, (40, 40), np.uint8), spaces.Discrete(3)), LayeredPopulation),
    "template": (template, LayeredPopulation),
    "no bias": (lambda: custom(Bias), LayeredPopulation),
    "gru": (lambda: mlp(VECTOR, EVERYTHING, memory="gru", memory_size=8, memory_layers=2), VmappedPopulation),
    "lstm": (lambda: mlp(MASKED, EVERYTHING, memory="lstm", memory_size=8), VmappedPopulation),
    "window": (lambda: mlp(VECTOR, BOUNDED, memory="window", memory_size=8, memory_window=3), VmappedPopulation),
    "layer norm": (lambda: custom(Normed), VmappedPopulation),
    "own arithmetic": (lambda: custom(Unbatched), VmappedPopulation),
    "branches": (lambda: custom(Branching), SinglePopulation),
}


def observations(policy, count):
    codec, space = ObservationCodec(policy.observation_space), copy.deepcopy(policy.observation_space)
    space.seed(3)
    rows = [codec.tree(space.sample()) for _ in range(count)]
    return {key: torch.from_numpy(np.concatenate([row[key] for row in rows])) for key in rows[0]}


@pytest.mark.parametrize(
    ("name", "deterministic"), [*((name, False) for name in CASES), ("mlp", True), ("beta", True), ("lstm", True)]
)
def test_every_member_acts_as_the_policy_with_its_parameters(name, deterministic):
    make, expected = CASES[name]
    torch.manual_seed(0)
    policy = make().eval()
    before = {key: value.clone() for key, value in policy.state_dict().items()}
    space = SearchSpace(policy, deterministic=deterministic)
    population = make_population(policy, space, observations(policy, 4))
    assert type(population) is expected
    members = 4
    vectors = space.vector(policy) + 0.5 * torch.randn(members, space.size)
    obs = observations(policy, members)
    noise = None if deterministic else policy.draw_noise((members,), torch.Generator().manual_seed(1))
    for batch in (range(members), [1, 3]):  # members leave
        batch = list(batch)
        rows = {key: leaf[batch] for key, leaf in obs.items()}
        drawn = None if noise is None else {key: leaf[batch] for key, leaf in noise.items()}
        with torch.inference_mode():
            population.load(vectors[batch])
            _, state = population.act(rows, drawn, remembered(policy, len(batch)))
            actions, _ = population.act(rows, drawn, state)  # of the second step, if there is a memory
        for row, member in enumerate(batch):
            single = copy.deepcopy(policy)
            with torch.no_grad():
                for key, value in space.split(vectors[member]).items():
                    single.get_parameter(key).copy_(value)
                own = {key: leaf[row : row + 1] for key, leaf in rows.items()}
                _, state = single.step(own, single.initial_state(1))
                distribution, _ = single.step(own, state)
                one = None if drawn is None else {key: leaf[row : row + 1] for key, leaf in drawn.items()}
                samples = distribution.mode() if one is None else distribution.sample(one)
                for key, action in distribution.env_action(samples).items():
                    assert actions[key][row].shape == action[0].shape
                    assert actions[key].dtype == action.dtype
                    torch.testing.assert_close(actions[key][row], action[0], rtol=1e-3, atol=1e-3)
    assert all(value.equal(before[key]) for key, value in policy.state_dict().items()), "the policy was changed"


@pytest.mark.parametrize("encoder", [Normed, Branching])
def test_models_of_every_kind_are_searched(es, encoder):
    env = partial(SpacesEnv, VECTOR, EVERYTHING)
    assert es(env, {"algorithm.n_epochs": 1}, model=encoder).train().outcome == "finished"


def test_masked_choices_are_never_taken():
    policy = mlp(MASKED, EVERYTHING).eval()
    space = SearchSpace(policy, deterministic=True)
    population = make_population(policy, space, observations(policy, 4))
    obs = observations(policy, 200)
    obs["choice_mask"] = torch.zeros(200, 5, dtype=torch.int8)
    obs["choice_mask"][torch.arange(200), torch.arange(200) % 5] = 1
    population.load(torch.randn(200, space.size))
    actions, _ = population.act(obs, None, {})
    assert actions["choice"].equal(torch.arange(200) % 5)
