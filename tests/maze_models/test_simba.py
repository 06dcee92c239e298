"""The model `simba` against its paper's equations, and as the model of runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SpacesEnv
from maze_models.simba import SimbaConfig, SimbaEncoder, SimbaModel

from maze_core.base.errors import ConfigError

LEAVES = {"x": spaces.Box(-1, 1, (3,), np.float32), "mode": spaces.Discrete(2)}
BOX = spaces.Box(-2, 2, (2,), np.float32)


def norm(rows):
    return (rows - rows.mean(-1, keepdim=True)) / (rows.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()


@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_add_to_what_passes_them(blocks):
    torch.manual_seed(0)
    encoder = SimbaEncoder(LEAVES, 16, blocks)
    obs = {"x": torch.randn(5, 3), "mode": torch.tensor([0, 1, 1, 0, 1])}
    rows = torch.cat([obs["x"], torch.nn.functional.one_hot(obs["mode"], 2).float()], -1) @ encoder.embedding.weight.T
    for block in encoder.blocks:
        rows = rows + torch.relu(norm(rows) @ block.wide.weight.T) @ block.narrow.weight.T
    torch.testing.assert_close(encoder(obs), norm(rows))
    assert len(encoder.blocks) == blocks


def test_the_first_weights_are_the_papers_whatever_the_model_is_told():
    for orthogonal in (True, False):
        torch.manual_seed(0)
        config = SimbaConfig(name="simba", width=64, orthogonal_init=orthogonal, critic="none")
        policy = SimbaModel(config).build_policy(spaces.Dict(LEAVES), BOX, config)
        weight = policy.encoder.embedding.weight
        torch.testing.assert_close(weight.T @ weight, torch.eye(5), atol=1e-5, rtol=0)
        (block,) = policy.encoder.blocks
        assert block.wide.weight.std().item() == pytest.approx(math.sqrt(2 / 64), rel=0.05)
        assert block.narrow.weight.std().item() == pytest.approx(math.sqrt(2 / 256), rel=0.05)
        assert policy.normalizer is not None


def test_images_are_refused():
    config, image = SimbaConfig(name="simba"), spaces.Box(0, 255, (84, 84, 3), np.uint8)
    with pytest.raises(ConfigError, match="the model simba does not take images"):
        SimbaModel(config).build_policy(image, BOX, config)


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_algorithms_learn_with_it(quick, algorithm):
    """Critics of states and actions have blocks of their own."""
    values = {"model.width": 16, "model.blocks": 2}
    if algorithm == "sac":
        values |= {"algorithm.initial_buffer_size": 20, "algorithm.replay_buffer_size": 100, "algorithm.batch_size": 8}
    context = quick(lambda: SpacesEnv(spaces.Dict(LEAVES), BOX), algorithm, values, model="simba")
    context.train()
    if algorithm == "sac":
        first, second = context.run.algorithm.critics.encoders
        assert isinstance(first, SimbaEncoder)
        assert isinstance(second, SimbaEncoder)
    assert context.policy.normalizer.count > 0
