"""Image encoders that learn in bfloat16 are near the exact result, and act in float32."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_models.cnn import CnnConfig, CnnModel
from maze_models.encoders import ImageEncoder
from maze_models.precision import computing_dtype
from maze_models.template import TemplateConfig, TemplateModel

ROUNDING = 2**-8
"""Of bfloat16, which has 8 significant bits."""
PICTURES = {
    "frames": spaces.Box(0, 255, (4, 84, 84), np.uint8),
    "coloured": spaces.Box(0, 255, (64, 64, 3), np.uint8),
    "odd": spaces.Box(0, 255, (37, 51, 3), np.uint8),
    "small": spaces.Box(0, 255, (9, 7, 2), np.uint8),
    "gray": spaces.Box(0, 255, (40, 36), np.uint8),
    "floats": spaces.Box(0, 1, (12, 20, 3), np.float32),
    "doubles": spaces.Box(0, 1, (40, 40, 1), np.float64),
    "deep": spaces.Box(0, 65535, (36, 36, 1), np.uint16),
}


def pair(space):
    """Return an encoder in float32, one with the same weights that learns in bfloat16, and five observations."""
    torch.manual_seed(1)
    plain = ImageEncoder("camera", space, "auto", 24)
    coarse = ImageEncoder("camera", space, "auto", 24, "bfloat16")
    coarse.load_state_dict(plain.state_dict())
    space.seed(2)
    obs = {"camera": torch.from_numpy(np.stack([space.sample() for _ in range(5)]))}
    return plain, coarse, obs


def exact(encoder, obs, space):
    """Features and gradients of their squares in float64, by torch's own layers on scaled channels-first pixels."""
    pixels = obs["camera"].double()
    if space.dtype == np.uint8:
        pixels = pixels / float(space.high.max())
    if pixels.ndim == 3:
        pixels = pixels.unsqueeze(1)
    elif encoder.layout == "hwc":
        pixels = pixels.permute(0, 3, 1, 2)
    twin = copy.deepcopy(encoder).double()
    for layer in twin.convolutions:
        pixels = torch.nn.functional.conv2d(pixels, layer.weight, layer.bias, layer.stride, layer.padding).relu()
    features = torch.nn.functional.linear(pixels.flatten(1), twin.dense.weight, twin.dense.bias).relu()
    features.square().sum().backward()
    return features.detach(), [parameter.grad for parameter in twin.parameters()]


def distance(found, wanted):
    """The norm of the difference, as a share of the norm of what is wanted."""
    return float((found.detach().double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("name", PICTURES)
def test_features_and_gradients_are_those_of_float64_up_to_rounding(name):
    plain, coarse, obs = pair(PICTURES[name])
    expected, gradients = exact(plain, obs, PICTURES[name])
    features = coarse(obs)
    features.square().sum().backward()
    assert features.dtype == torch.float32
    assert 1e-5 < distance(features, expected) < 2 * ROUNDING
    for parameter, gradient in zip(coarse.parameters(), gradients, strict=True):
        assert parameter.dtype == parameter.grad.dtype == torch.float32
        assert distance(parameter.grad, gradient) < 0.1  # a unit near 0 may be on here and off there


@pytest.mark.parametrize("name", PICTURES)
def test_acting_is_that_of_float32_bit_by_bit(name):
    plain, coarse, obs = pair(PICTURES[name])
    with torch.inference_mode():
        assert coarse(obs).equal(plain(obs))
    assert not coarse(obs).equal(plain(obs))


@pytest.mark.parametrize("fast", [True, False])
def test_auto_learns_in_it_where_it_is_faster(monkeypatch, fast):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: fast)
    automatic = computing_dtype("auto", torch.device("cpu"))
    assert automatic == (torch.bfloat16 if fast else torch.float32)
    assert computing_dtype("bfloat16", torch.device("cpu")) == torch.bfloat16
    assert computing_dtype("auto", torch.device("cuda")) == torch.float32
    with torch.inference_mode():
        assert computing_dtype("auto", torch.device("cpu")) == torch.float32


def test_what_is_compared_while_learning_is_computed_alike():
    """A probability ratio is 1 before the first update: old log-probabilities have no other rounding than new ones."""
    config = CnnConfig(name="cnn", critic="shared", image_features=32, image_precision="bfloat16")
    space = PICTURES["frames"]
    policy = CnnModel(config).build_policy(space, spaces.Discrete(3), config)
    for parameter in policy.heads.parameters():
        parameter.data.normal_()
    obs = {"observation": torch.randint(0, 256, (40, *space.shape), dtype=torch.uint8)}
    actions = {"action": torch.arange(40) % 3}
    with torch.no_grad():
        before = policy(obs)[0].log_prob(actions)
    after = policy(obs)[0].log_prob(actions)
    assert after.requires_grad
    torch.testing.assert_close(after.detach(), before, atol=1e-6, rtol=0)
    with torch.inference_mode():
        acting = policy(obs)[0].log_prob(actions)
    assert 1e-5 < (acting - before).abs().max() < 0.1


def test_every_picture_of_a_dict_learns_in_it_and_other_leaves_do_not():
    seen = spaces.Dict({"left": PICTURES["small"], "right": PICTURES["gray"], "speed": spaces.Box(-1, 1, (3,))})
    policies = []
    for precision in ("float32", "bfloat16"):
        config = TemplateConfig(name="template", image_precision=precision, memory="gru")
        torch.manual_seed(3)
        policies.append(TemplateModel(config).build_policy(seen, spaces.Discrete(2), config))
    plain, coarse = policies
    seen.seed(4)
    rows = [seen.sample() for _ in range(6)]
    obs = {key: torch.from_numpy(np.stack([row[key] for row in rows])) for key in seen}
    for encoder, reference in ((coarse.encoder, plain.encoder), (coarse.critic_encoder, plain.critic_encoder)):
        same = {
            key: part(obs).equal(other(obs))
            for (key, part), other in zip(encoder.parts.items(), reference.parts.values(), strict=True)
        }
        assert same == {"left_encoder": False, "right_encoder": False, "speed_encoder": True}
        assert encoder(obs).dtype == torch.float32


class Square(gymnasium.Env):
    """Say in which half of the picture the bright square is."""

    observation_space = spaces.Box(0, 255, (36, 40, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._picture(), {}

    def step(self, action):
        reward = float(action == self._right)
        self._steps += 1
        return self._picture(), reward, False, self._steps == 10, {}

    def _picture(self):
        picture = self.np_random.integers(0, 100, self.observation_space.shape, np.uint8)
        self._right = int(self.np_random.integers(2))
        row, column = self.np_random.integers(0, (28, 12))
        column += 20 * self._right
        picture[row : row + 8, column : column + 8] += 120
        return picture


LEARNING = {"model.image_features": 16, "model.image_precision": "bfloat16"}


def state_of(run_dir, whole_state):
    """The whole state; of replay data what they are, not which files they lie in."""
    state = whole_state(run_dir)
    state["algorithm"].get("collector", {}).get("replay", {}).pop("segments", None)
    return state


@pytest.mark.parametrize("algorithm", ["ppo", pytest.param("dqn", marks=pytest.mark.slow)])
def test_a_resumed_run_ends_where_an_unbroken_one_does(quick, whole_state, assert_same, algorithm):
    whole = quick(Square, algorithm, LEARNING, model="cnn")
    whole.train()
    part = quick(Square, algorithm, {**LEARNING, "algorithm.n_epochs": 1}, model="cnn")
    part.train()
    quick(Square, algorithm, LEARNING, model="cnn").resume(part.run_dir)
    assert_same(state_of(part.run_dir, whole_state), state_of(whole.run_dir, whole_state))
    assert {leaf.dtype for leaf in whole.policy.state_dict().values()} == {torch.float32}
    encoders = [each for each in whole.policy.modules() if isinstance(each, ImageEncoder)]
    assert {each.precision for each in encoders} == {"bfloat16"}


@pytest.mark.slow
def test_it_learns_as_well(quick):
    overrides = {
        **LEARNING,
        "model.image_precision": "bfloat16",
        "algorithm.num_envs": 8,
        "algorithm.n_rollout_steps": 64,
        "algorithm.batch_size": 64,
        "algorithm.n_optimization_epochs": 4,
        "algorithm.epoch_length": 4,
        "algorithm.n_epochs": 2,
        "algorithm.lr": 1e-3,
        "evaluation.n_episodes": 20,
        "callbacks.early_stopping.target_return": 9.5,
    }
    context = quick(Square, "ppo", overrides, model="cnn")
    summary = context.train()
    assert summary.best_score > 9
