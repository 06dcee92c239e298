"""The picture of a network: well-formed, complete, and without overlaps."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_models.template import TemplateConfig, TemplateModel
from maze_pictures.network import network_svg
from torch import nn

from maze_core.models.blocks import parameter_counts
from maze_core.models.mlp import MlpConfig, MlpModel
from tests.agents import MixedSource

NAMESPACE = "{http://www.w3.org/2000/svg}"
OBSERVATION = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (40, 60, 3), np.uint8),
        "<speed & co>": spaces.Box(-1, 1, (2,), np.float32),
        **{f"a_sensor_with_a_very_long_name_number_{i}": spaces.Discrete(3) for i in range(9)},
        "go_mask": spaces.MultiBinary(2),
    }
)
ACTION = spaces.Dict({"go": spaces.Discrete(2), "steer": spaces.Box(-1, 1, (2,), np.float32)})


def template(**config):
    config = TemplateConfig(name="template", normalize_observations=True, **config)
    return TemplateModel(config).build_policy(OBSERVATION, ACTION, config)


def mlp(**config):
    config = MlpConfig(name="mlp", **config)
    return MlpModel(config).build_policy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), config)


class Foreign(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.scale = nn.Parameter(torch.ones(2))
        self.observation_space, self.action_space = OBSERVATION, ACTION


def texts(root):
    return [element.text for element in root.iter(f"{NAMESPACE}text")]


def boxes(root):
    found = []
    for element in root.iter(f"{NAMESPACE}rect"):
        if "rx" in element.attrib:
            found.append(tuple(float(element.attrib[name]) for name in ("x", "y", "width", "height")))
    return found


@pytest.mark.parametrize(
    "build", [template, lambda: template(critic="shared"), mlp, lambda: mlp(critic="none"), Foreign]
)
def test_boxes_lie_inside_and_do_not_overlap(build):
    root = ElementTree.fromstring(network_svg(build(), "ppo on X"))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    placed = boxes(root)
    assert len(placed) >= 3
    for i, (x, y, w, h) in enumerate(placed):
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
        for x2, y2, w2, h2 in placed[:i]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y
    for element in root.iter(f"{NAMESPACE}text"):
        assert float(element.attrib["x"]) + 0.55 * float(element.attrib["font-size"]) * len(element.text) <= width


def test_everything_is_named():
    shown = texts(ElementTree.fromstring(network_svg(template(), "ppo on <X>")))
    for expected in ("ppo on <X>", "camera", "<speed & co>", "go", "steer", "value", "masked by go_mask"):
        assert expected in shown
    assert "go_mask" not in shown
    assert f"{parameter_counts(template())['total']:,} parameters" in shown


def test_parameter_counts_add_up():
    counts = parameter_counts(mlp())
    assert counts == {
        "encoder": 4 * 64 + 64 + 64 * 64 + 64,
        "heads": 64 * 2 + 2,
        "critic_encoder": 4 * 64 + 64 + 64 * 64 + 64,
        "value_head": 65,
        "total": 2 * (4 * 64 + 64 + 64 * 64 + 64) + 130 + 65,
    }
    assert parameter_counts(Foreign()) == {"body": 16, "other": 2, "total": 18}
    assert parameter_counts(nn.Identity()) == {"total": 0}


def test_what_critics_alone_see_is_an_input_of_the_critic_only() -> None:
    space = spaces.Dict({"seen": spaces.Box(-1, 1, (4,)), "critic": spaces.Dict({"hidden": spaces.Box(-1, 1, (2,))})})
    config = MlpConfig(name="mlp")
    policy = MlpModel(config).build_policy(space, spaces.Discrete(2), config)
    svg = network_svg(policy, "title")
    assert svg.count("critic/hidden") == 1
    assert svg.count(">seen<") == 2


class Summed(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.out_features = 8
        self.layers = nn.ModuleDict({key: nn.Linear(width, 8) for key, width in widths.items()})

    def forward(self, encoded):
        return torch.stack([self.layers[key](leaf) for key, leaf in encoded.items()]).sum(0)


class Composed(TemplateModel):
    composer = Summed


@pytest.mark.parametrize(
    ("memory", "shown"), [("gru", ["memory: GRU", "64 → 16"]), ("window", ["memory: window", "the last 5 rows"])]
)
def test_composer_and_memory_are_boxes_between_the_leaves_and_the_heads(memory, shown):
    space = spaces.Dict({"left": spaces.Box(-1, 1, (2,)), "right": spaces.Discrete(3)})
    config = TemplateConfig(name="template", memory=memory, memory_size=16, memory_window=5)
    policy = Composed(config).build_policy(space, spaces.Discrete(2), config)
    root = ElementTree.fromstring(network_svg(policy, "title"))
    found = texts(root)
    for text in ["Summed", *shown]:
        assert found.count(text) == 2, text  # of the policy and of the critic
    assert "concatenate" not in found


def test_every_group_of_actors_has_its_panels(quick):
    groups = {"model.groups": {"all": ["one", "late"], "second": ["two"]}, "model.joint_critic": True}
    policy = quick(MixedSource, "ppo", {"model.hidden": [8], **groups}).run.policy
    found = texts(ElementTree.fromstring(network_svg(policy, "title")))
    for title in ("Policy of one, late", "Policy of two", "Critic of all"):
        assert any(text.startswith(title) for text in found), title
    assert "turn/actor" in found
    assert f"{parameter_counts(policy)['total']:,} parameters" in found
