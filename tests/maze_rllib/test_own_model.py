"""RLlib's default networks on request: trained, evaluated by Maze, and not mistaken for a model of Maze."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv
from maze_rllib import learners
from maze_rllib.own_model import PlainView

from maze_core.base.errors import ConfigError
from maze_core.cli.console import header
from maze_core.data.batch import to_tensors
from maze_core.envs.spaces import allocate, space_specs
from maze_core.run.context import RunContext
from maze_core.run.episodes.saved_evaluation import evaluate_saved
from tests.masked import Guarded

pytestmark = pytest.mark.slow  # each run starts RLlib

MIXED = spaces.Dict({"place": spaces.Box(-1, 1, (2,), np.float32), "mode": spaces.Discrete(3, start=1)})
ACTIONS = spaces.Dict({"choice": spaces.Discrete(3, start=1), "force": spaces.Box(-2, 6, (2,), np.float32)})


def nested():
    return SpacesEnv(MIXED, ACTIONS)


def weights(context):
    return torch.cat([p.detach().flatten() for p in context.policy.parameters()])


@pytest.mark.parametrize(
    ("algorithm", "env"),
    [
        ("rllib-ppo", nested),
        ("rllib-dqn", "CartPole-v1"),
        ("rllib-sac", "Pendulum-v1"),
    ],
)
def test_rllibs_own_network_learns_and_opens_again(small, algorithm, env):
    context = small(algorithm, env, {"algorithm.rllib_model": True, "evaluation.n_episodes": 1})
    before = weights(context).clone()
    context.train()
    assert not torch.equal(weights(context), before)
    text = "".join(part for line in header(context.run, Path()) for part, _ in line)
    assert "RLlib's own network" in text
    learner = context.run.algorithm._trainer._ask(learners.weights)[0]
    stored = context.policy.module.state_dict()
    assert all(torch.equal(learner[name], leaf) for name, leaf in stored.items())
    if env is nested:  # which no file can name
        return
    results = [evaluate_saved(context.run_dir, episodes=1, seed=1).metrics for _ in range(2)]
    assert math.isfinite(results[0]["eval/return_mean"])
    assert results[0] == results[1]
    following = small(algorithm, env, {"algorithm.rllib_model": True}, init_from=context.run_dir)
    assert torch.equal(weights(following), weights(context))
    assert following.run.algorithm._opened() is not None
    begun = following.run.algorithm._trainer._ask(learners.weights)[0]
    assert all(torch.equal(begun[name], leaf) for name, leaf in stored.items())


def test_a_network_with_an_lstm_remembers_in_evaluations(small):
    values = {"algorithm.rllib_model": True, "algorithm.model_config": {"use_lstm": True, "lstm_cell_size": 8}}
    context = small("rllib-ppo", "CartPole-v1", values)
    context.train()
    policy = context.policy
    assert policy.remembers
    state = policy.initial_state(2)
    specs = space_specs(policy.observation_space, "observation")
    chosen, after = policy.step(to_tensors(allocate(specs, (2,))), state)
    assert after.keys() == state.keys()
    assert not torch.equal(after["0"], state["0"])
    later, _ = policy.step(to_tensors(allocate(specs, (2,))), after)  # the same observation, another memory
    assert not torch.equal(later._answer["action_dist_inputs"], chosen._answer["action_dist_inputs"])
    context.close()
    results = [evaluate_saved(context.run_dir, episodes=2, seed=1).metrics for _ in range(2)]
    assert results[0] == results[1]
    with RunContext.reopen(context.run_dir, {"algorithm.n_epochs": 2}) as resumed:
        resumed.train()
        assert resumed.run.epoch == 2
        assert len(resumed.rollout(2, seed=3)) == 2


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"fcnet_hidens": [8]}, "fcnet_hidens: unknown key; did you mean fcnet_hiddens"),
        ({"conv_filters": [[16, 4, 2]]}, "conv_filters: does not change the network"),
        ({"fusionnet_hiddens": [4]}, "fusionnet_hiddens: does not change the network"),
        ({"head_fcnet_use_layernorm": True}, "head_fcnet_use_layernorm: does not change the network"),
        ({"lstm_cell_size": 8}, "lstm_cell_size: does not change the network"),
        ({"max_seq_len": 8}, "max_seq_len: has no effect on a network without memory"),
    ],
)
def test_what_does_not_change_the_network_is_refused(small, network, words):
    values = {"algorithm.rllib_model": True, "algorithm.model_config": network}
    with pytest.raises(ConfigError, match=rf"algorithm\.model_config\.{words}"):
        assert small("rllib-ppo", "CartPole-v1", values).run


def test_images_reach_the_convolutions_with_the_channels_last():
    image = spaces.Box(0, 255, (3, 42, 42), np.uint8)
    view = PlainView(image, spaces.Discrete(2))
    assert view.observation_space.shape == (42, 42, 3)
    pixels = np.arange(3 * 42 * 42, dtype=np.int64).reshape(1, 3, 42, 42).astype(np.uint8)
    assert np.allclose(view.seen({"observation": pixels})[0, 5, 7], pixels[0, :, 5, 7] / 255)


def test_an_image_among_others_would_be_flattened_and_is_refused():
    mixed = spaces.Dict({"camera": spaces.Box(0, 255, (42, 42, 3), np.uint8), "speed": spaces.Box(-1, 1, (1,))})
    with pytest.raises(ConfigError, match=r"flatten the image 'camera'") as caught:
        PlainView(mixed, spaces.Discrete(2))
    assert "Next: --no-rllib-model" in str(caught.value)


def test_its_parameters_shape_it(small):
    values = {"algorithm.rllib_model": True, "algorithm.model_config": {"fcnet_hiddens": [7]}}
    context = small("rllib-ppo", SeededWalk, values)
    assert 7 in {size for p in context.policy.parameters() for size in p.shape}


def test_actions_that_rllib_cannot_take_are_refused(small):
    with pytest.raises(ConfigError, match=r"no distribution for the action 'action', MultiBinary"):
        small("rllib-ppo", lambda: SpacesEnv(MIXED, spaces.MultiBinary(3)), {"algorithm.rllib_model": True}).train()


@pytest.mark.parametrize("form", ["flat", "a Dict", "a Tuple for members"])
def test_masks_that_rllibs_network_would_ignore_are_refused(small, form):
    with pytest.raises(ConfigError, match=r"forbidden actions.*'action_mask") as caught:
        small("rllib-ppo", functools.partial(Guarded, form), {"algorithm.rllib_model": True}).train()
    assert 'Next: overrides={"algorithm.rllib_model": False}' in str(caught.value)
