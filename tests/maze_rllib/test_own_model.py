"""RLlib's default networks on request: trained, evaluated by Maze, and not mistaken for a model of Maze."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from maze_devkit.envs import SeededWalk, SpacesEnv

from maze_core.base.errors import CheckpointError, ConfigError
from maze_core.run.episodes.saved_evaluation import evaluate_saved
from tests.masked import Guarded

pytestmark = pytest.mark.slow  # each run starts RLlib

MIXED = spaces.Dict({"place": spaces.Box(-1, 1, (2,), np.float32), "mode": spaces.Discrete(3, start=1)})
ACTIONS = spaces.Dict({"choice": spaces.Discrete(3, start=1), "force": spaces.Box(-2, 6, (2,), np.float32)})


def nested():
    return SpacesEnv(MIXED, ACTIONS)


def box():
    return SpacesEnv(MIXED, spaces.Box(-2, 6, (2,), np.float32))


def weights(context):
    return torch.cat([p.detach().flatten() for p in context.policy.parameters()])


@pytest.mark.parametrize(
    ("algorithm", "env"),
    [
        ("rllib-ppo", nested),
        ("rllib-dqn", SeededWalk),
        ("rllib-sac", box),
    ],
)
def test_rllibs_own_network_learns_and_is_evaluated(small, algorithm, env):
    context = small(algorithm, env, {"algorithm.rllib_model": True})
    with pytest.warns(RuntimeWarning, match=r"RLlib's own network: .*cannot open"):
        assert context.run
    before = weights(context).clone()
    context.train()
    assert not torch.equal(weights(context), before)
    assert math.isfinite(context.evaluate()["eval/return_mean"])
    learner = context.run.algorithm._trainer.module()
    assert all(torch.equal(learner[name], leaf) for name, leaf in context.policy.module.state_dict().items())


@pytest.mark.filterwarnings("ignore:this run learns with RLlib")
def test_maze_eval_says_that_it_cannot_open_it(small):
    context = small("rllib-ppo", "CartPole-v1", {"algorithm.rllib_model": True})
    context.train()
    with pytest.raises(CheckpointError, match="does not fit this run"):
        evaluate_saved(context.run_dir, episodes=1)


@pytest.mark.filterwarnings("ignore:this run learns with RLlib")
def test_its_parameters_are_checked(small):
    with pytest.raises(ConfigError, match=r"fcnet_hidens: unknown key; did you mean fcnet_hiddens"):
        small(
            "rllib-ppo",
            SeededWalk,
            {"algorithm.rllib_model": True, "algorithm.rllib": {"model_config": {"fcnet_hidens": [8]}}},
        ).train()
    overrides = {"algorithm.rllib_model": True, "algorithm.rllib": {"model_config": {"fcnet_hiddens": [7]}}}
    context = small("rllib-ppo", SeededWalk, overrides)
    assert 7 in {size for p in context.policy.parameters() for size in p.shape}


@pytest.mark.filterwarnings("ignore:this run learns with RLlib")
def test_actions_that_rllib_cannot_take_are_refused(small):
    with pytest.raises(ConfigError, match=r"no distribution for the action 'action', MultiBinary"):
        small("rllib-ppo", lambda: SpacesEnv(MIXED, spaces.MultiBinary(3)), {"algorithm.rllib_model": True}).train()


@pytest.mark.filterwarnings("ignore:this run learns with RLlib")
@pytest.mark.parametrize("form", ["flat", "a Dict", "a Tuple for members"])
def test_masks_that_rllibs_network_would_ignore_are_refused(small, form):
    with pytest.raises(ConfigError, match=r"forbidden actions.*'action_mask") as caught:
        small("rllib-ppo", functools.partial(Guarded, form), {"algorithm.rllib_model": True}).train()
    assert "--no-rllib-model" in str(caught.value)
