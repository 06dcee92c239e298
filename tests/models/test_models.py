"""The bundled models: what they build, what they refuse, and how they read observations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_models.cnn import CnnConfig, CnnModel
from maze_models.encoders import ImageEncoder
from maze_models.template import TemplateConfig, TemplateModel
from pydantic import ValidationError

from maze_core.base.errors import ConfigError
from maze_core.models.inputs import FlatInput, MlpEncoder
from maze_core.models.mlp import MlpConfig, MlpModel

IMAGE = spaces.Box(0, 255, (12, 20, 3), np.uint8)
MIXED = spaces.Dict(
    {
        "camera": IMAGE,
        "speed": spaces.Box(-1, 1, (2,), np.float32),
        "gear": spaces.Discrete(5),
        "lights": spaces.MultiBinary(3),
        "load": spaces.MultiDiscrete([2, 4]),
        "action_mask": spaces.MultiBinary(2),
    }
)


def mixed_observations(rows=4):
    generator = torch.Generator().manual_seed(0)
    return {
        "camera": torch.randint(0, 256, (rows, 12, 20, 3), generator=generator, dtype=torch.uint8),
        "speed": torch.randn(rows, 2, generator=generator),
        "gear": torch.arange(rows) % 5,
        "lights": torch.ones(rows, 3, dtype=torch.int8),
        "load": torch.tensor([[1, 3]] * rows),
        "action_mask": torch.ones(rows, 2, dtype=torch.int8),
    }


def test_flat_input_by_hand():
    leaves = {key: space for key, space in MIXED.spaces.items() if key not in ("camera", "action_mask")}
    leaves["ram"] = spaces.Box(0, 255, (2,), np.uint8)
    leaves["matrix"] = spaces.Box(-1, 1, (2, 2), np.float32)
    flat = FlatInput({key: leaves[key] for key in ("speed", "gear", "lights", "load", "ram", "matrix")})
    obs = {
        "speed": torch.tensor([[0.5, -0.5]]),
        "gear": torch.tensor([3]),
        "lights": torch.tensor([[1, 0, 1]], dtype=torch.int8),
        "load": torch.tensor([[1, 2]]),
        "ram": torch.tensor([[255, 51]], dtype=torch.uint8),
        "matrix": torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]),
    }
    expected = [0.5, -0.5, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0.2, 1, 2, 3, 4]
    row = flat(obs)
    assert row.dtype == torch.float32
    torch.testing.assert_close(row, torch.tensor([expected]))
    assert flat.out_features == len(expected)


def test_layouts_are_read_as_declared():
    """The same picture in both layouts gives the same features; height and width are not swapped."""
    hwc = ImageEncoder("camera", IMAGE, "hwc", 16)
    chw = ImageEncoder("camera", spaces.Box(0, 255, (3, 12, 20), np.uint8), "chw", 16)
    chw.load_state_dict(hwc.state_dict())
    pictures = mixed_observations()["camera"]
    features = hwc({"camera": pictures})
    assert features.shape == (4, 16)
    assert chw({"camera": pictures.permute(0, 3, 1, 2)}).equal(features)
    reference = pictures.permute(0, 3, 1, 2).double() / 255
    for convolution in hwc.convolutions:
        reference = torch.nn.functional.conv2d(
            reference, convolution.weight.double(), convolution.bias.double(), convolution.stride, convolution.padding
        ).relu()
    dense = hwc.dense
    reference = (reference.flatten(1) @ dense.weight.double().T + dense.bias.double()).relu()
    torch.testing.assert_close(features.double(), reference, atol=1e-5, rtol=1e-4)
    # A wrongly declared layout is another network, not a guess.
    assert ImageEncoder("camera", IMAGE, "chw", 16).channels == 12


@pytest.mark.parametrize("shape", [(84, 84, 4), (36, 64, 1), (35, 90, 3), (7, 5, 2), (3, 3, 1), (1, 9, 1), (210, 160)])
def test_images_of_any_size_have_an_encoder(shape):
    encoder = ImageEncoder("camera", spaces.Box(0, 255, shape, np.uint8), "hwc", 8)
    assert encoder({"camera": torch.zeros(2, *shape, dtype=torch.uint8)}).shape == (2, 8)


def test_float_images_are_not_rescaled():
    floats = ImageEncoder("camera", spaces.Box(0, 1, (12, 20, 3), np.float32), "hwc", 16)
    bytes_ = ImageEncoder("camera", IMAGE, "hwc", 16)
    bytes_.load_state_dict(floats.state_dict())
    pictures = mixed_observations()["camera"]
    torch.testing.assert_close(floats({"camera": pictures / 255}), bytes_({"camera": pictures}))


@pytest.mark.parametrize("critic", ["separate", "shared", "none"])
def test_template_reads_every_leaf_but_the_mask(critic):
    config = TemplateConfig(name="template", critic=critic)
    policy = TemplateModel(config).build_policy(MIXED, spaces.Discrete(2), config)
    kinds = {name: type(part) for name, part in policy.encoder.parts.items()}
    names = {f"{key}_encoder" for key in MIXED.spaces} - {"action_mask_encoder"}
    assert kinds == {name: ImageEncoder if name == "camera_encoder" else MlpEncoder for name in names}
    obs = mixed_observations()
    distribution = policy.distribution(obs)
    reference = distribution.parts["action"].logits
    for key in MIXED.spaces:
        if key != "action_mask":
            changed = {**obs, key: torch.zeros_like(obs[key])}
            assert not policy.distribution(changed).parts["action"].logits.equal(reference), key
    assert distribution.entropy().shape == (4,)


def test_cnn_takes_one_image_beside_masks():
    config = CnnConfig(name="cnn")
    space = spaces.Dict({"camera": IMAGE, "action_mask": spaces.MultiBinary(2)})
    policy = CnnModel(config).build_policy(space, spaces.Discrete(2), config)
    obs = {key: leaf for key, leaf in mixed_observations().items() if key in space.spaces}
    distribution, value = policy(obs)
    assert value.shape == distribution.entropy().shape == (4,)


@pytest.mark.parametrize(
    "space",
    [
        MIXED,
        spaces.Box(-1, 1, (4,)),
        spaces.Discrete(4),
        spaces.Dict({"a": IMAGE, "b": IMAGE}),
        spaces.Box(0, 1, (2, 3, 4, 5)),
    ],
)
def test_cnn_refuses_anything_else_with_the_way_out(space):
    config = CnnConfig(name="cnn")
    with pytest.raises(ConfigError, match=r"model\.name.*one image[\s\S]*template"):
        CnnModel(config).build_policy(space, spaces.Discrete(2), config)


@pytest.mark.parametrize(
    ("space", "model"), [(IMAGE, "cnn"), (MIXED, "template"), (spaces.Box(0, 255, (84, 84), np.uint8), "cnn")]
)
def test_mlp_refuses_images_with_the_way_out(space, model):
    config = MlpConfig(name="mlp")
    with pytest.raises(ConfigError, match=rf"model\.name: the model mlp does not take images[\s\S]*{model}"):
        MlpModel(config).build_policy(space, spaces.Discrete(2), config)


def test_the_observation_tree_is_not_written_to():
    config = TemplateConfig(name="template", activation="relu", normalize_observations=True, leaf_hidden=(), hidden=())
    policy = TemplateModel(config).build_policy(MIXED, spaces.Discrete(2), config)
    obs = mixed_observations()
    kept = {key: leaf.clone() for key, leaf in obs.items()}
    policy(obs)
    assert all(leaf.equal(kept[key]) for key, leaf in obs.items())


def test_layers_are_as_configured():
    config = MlpConfig(name="mlp", hidden=[32, 16, 8], activation="relu")
    policy = MlpModel(config).build_policy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), config)
    assert [tuple(layer.weight.shape) for layer in policy.encoder.trunk.layers] == [(32, 4), (16, 32), (8, 16)]
    empty = MlpConfig(name="mlp", hidden=[])
    linear = MlpModel(empty).build_policy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), empty)
    assert linear.value({"observation": torch.zeros(3, 4)}).shape == (3,)


def test_normalised_layers():
    """Each layer's outputs have mean 0 and variance 1 in every row, before the activation."""
    config = MlpConfig(name="mlp", hidden=[16, 8], activation="tanh", layer_norm=True)
    policy = MlpModel(config).build_policy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), config)
    first, second = policy.encoder.trunk.layers
    rows = 100 * torch.randn(5, 4)
    features = rows
    for layer in (first, second):
        features = layer(features)
        mean, spread = features.mean(-1, keepdim=True), features.var(-1, keepdim=True, unbiased=False)
        features = torch.tanh((features - mean) / (spread + 1e-5).sqrt())
    torch.testing.assert_close(policy.encoder({"observation": rows}), features)
    assert len(policy.encoder.trunk.norms) == 2
    plain = MlpConfig(name="mlp")
    assert not MlpModel(plain).build_policy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), plain).encoder.trunk.norms


@pytest.mark.parametrize(
    "bad",
    [{"hidden": [0]}, {"activation": "swish"}, {"critic": "twin"}, {"temperature": 0}, {"distribution": "laplace"}],
)
def test_impossible_options_are_refused(bad):
    with pytest.raises((ValidationError, ConfigError)):
        MlpConfig(name="mlp", **bad)


@pytest.mark.parametrize("config", [MlpConfig, CnnConfig, TemplateConfig])
def test_every_option_is_described(config):
    assert all(field.description for field in config.model_fields.values())
