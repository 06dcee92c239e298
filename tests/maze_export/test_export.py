"""An exported policy acts as its run does, whatever the spaces, the distribution and the algorithm."""

from __future__ import annotations

import functools
import json

import gymnasium
import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from gymnasium import spaces
from maze_export.export import export_policy
from maze_export.graph import Units
from maze_export.interface import METADATA
from maze_recordings.rollouts import roll_out, task_of_plugin
from torch import nn

from maze_core.base.errors import ConfigError
from maze_core.collect.agents.network import NetworkAgent, SharedNoise
from maze_core.envs.codecs import ActionCodec
from maze_core.envs.spaces import leaves
from maze_core.plugins.config.assembly import env_config, part_config
from maze_core.run.context import RunContext
from tests.masked import Guarded
from tests.maze_export.conftest import ACTIONS, FREE, OBSERVATIONS, Anything, stir

CHOICES = spaces.Dict({key: ACTIONS[key] for key in ("tool", "pair", "switches")})
BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([2, 1], np.float32))


def load(file):
    """Run a file as its users do: a function from arrays by name to arrays by name, and its metadata."""
    if file.suffix == ".onnx":
        onnx.checker.check_model(onnx.load(file), full_check=True)
        session = onnxruntime.InferenceSession(file)
        names = [each.name for each in session.get_outputs()]
        metadata = session.get_modelmeta().custom_metadata_map[METADATA]
        return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True)), json.loads(metadata)
    extra = {"maze.json": ""}
    module = torch.export.load(file, extra_files=extra).module()

    def play(inputs):
        return {key: leaf.numpy() for key, leaf in module({k: torch.from_numpy(v) for k, v in inputs.items()}).items()}

    return play, json.loads(extra["maze.json"])


def follow(value, path):
    for part in path:
        value = value[part]
    return value


MOVE = "action_mask/move"


def check_by_hand(context, file, rows=50):
    """Compare with what `compute_action` returns for single observations of the environment, in its own units."""
    play, metadata = load(file)
    env = context.make_env()
    observed = [env.reset(seed=seed)[0] for seed in range(rows)]
    named = zip(metadata["inputs"], leaves(env.observation_space, "observation"), strict=True)
    inputs = {
        leaf["name"]: np.array([follow(each, space.path) for each in observed], leaf["dtype"]) for leaf, space in named
    }
    outputs = play(inputs)
    expected = [context.compute_action(each) for each in observed]
    for leaf, space in zip(metadata["outputs"], leaves(env.action_space, "action"), strict=True):
        got, wanted = outputs[leaf["name"]], np.array([follow(each, space.path) for each in expected])
        assert got.dtype == space.space.dtype == leaf["dtype"]
        assert got.shape == (rows, *leaf["shape"])
        np.testing.assert_allclose(got, wanted, 1e-5, 1e-5)
        assert len(np.unique(got, axis=0)) > 1, f"{leaf['name']} is always the same"
        assert all(space.space.contains(np.asarray(row)) for row in got)
    return metadata


@pytest.mark.parametrize(
    ("name", "actions", "distribution"),
    [
        ("a.onnx", FREE, "gaussian"),
        pytest.param("a.pt2", ACTIONS, "beta", marks=pytest.mark.slow),
    ],
)
def test_all_spaces_and_masks(prepared, tmp_path, name, actions, distribution):
    context = prepared(
        functools.partial(Anything, OBSERVATIONS, actions),
        model="template",
        overrides={
            "model.distribution": distribution,
            "model.normalize_observations": True,
            "model.temperature": 2.0,
            "model.image_features": 16,
            "model.image_precision": "bfloat16",  # which is for learning alone
            "model.leaf_hidden": [8],
            "model.hidden": [8],
        },
    )
    written = export_policy(context.run, tmp_path / name)
    assert (written.file, written.rows) == (tmp_path / name, 130)
    metadata = check_by_hand(context, written.file)
    names = [leaf["name"] for leaf in metadata["inputs"]]
    assert names[:2] == ["observation/action", "bits"]
    assert "observation/noise/action" in names
    assert {leaf["name"] for leaf in metadata["outputs"]} >= {"action/tool", "action/arm/force"}
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [name]


@pytest.mark.parametrize(
    ("name", "form", "masks"),
    [
        ("a.onnx", "members from elsewhere", {"action": ["action_mask/0", "action_mask/1"]}),
        ("a.pt2", "a Dict", {"action/arm": ["action_mask/arm/0", "action_mask/arm/1"], "action/move": [MOVE]}),
    ],
)
def test_masks_in_every_form_are_inputs(prepared, tmp_path, name, form, masks):
    context = prepared(functools.partial(Guarded, form), overrides={"model.hidden": [8]})
    metadata = check_by_hand(context, export_policy(context.run, tmp_path / name).file)
    assert metadata["masks"] == masks
    assert "cannot refuse" in metadata["checks"]


@pytest.mark.parametrize("distribution", ["squashed_gaussian", pytest.param("beta", marks=pytest.mark.slow)])
def test_distributions_of_boxes(prepared, tmp_path, distribution):
    env = functools.partial(Anything, spaces.Box(-1, 1, (4,)), BOX)
    context = prepared(env, overrides={"model.distribution": distribution, "model.hidden": [8]})
    check_by_hand(context, export_policy(context.run, tmp_path / "a.onnx").file)


def test_numbers_beyond_every_integer_end_at_their_own_bound():
    wide = spaces.Box(-(2**63), 2**63 - 1, (2,), np.int64)
    assert Units(wide)(torch.tensor([-1e30, 1e30])).tolist() == [-(2**63), 2**63 - 1024]


class Own(nn.Module):
    """An encoder of one's own, with a dropout that must not act."""

    def __init__(self, observation_space):
        super().__init__()
        self.out_features = 5
        self.layers = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 5), nn.Dropout(0.9), nn.GELU())

    def forward(self, obs):
        return self.layers(obs["observation"])


def test_single_spaces_and_an_encoder_of_ones_own(prepared, tmp_path):
    env = functools.partial(Anything, spaces.Box(-1, 1, (4,)), spaces.Discrete(3, start=-7))
    context = prepared(env, model=Own)
    context.policy.train()
    metadata = check_by_hand_in_evaluation(context, export_policy(context.run, tmp_path / "a.onnx").file)
    assert context.policy.training
    assert [leaf["name"] for leaf in metadata["inputs"]] == ["observation"]
    assert metadata["outputs"] == [{"name": "action", "shape": [], "dtype": "int64"}]
    assert metadata["action_space"] == {"type": "Discrete", "n": 3, "start": -7}
    assert metadata["format"] == 1
    assert metadata["run"] == {
        "name": context.run_dir.name,
        "algorithm": "ppo",
        "env": "partial",
        "wrappers": [],
        "epoch": 0,
        "env_steps": 0,
        "seed": 1,
        "checkpoint": None,
        "score": {},
        "sha256": {},
    }
    assert {"torch", "onnxruntime", "maze-core", "python"} <= metadata["versions"].keys()
    assert str(tmp_path) not in (tmp_path / "a.onnx").read_bytes().decode("latin-1")


def check_by_hand_in_evaluation(context, file):
    was = context.policy.training
    context.policy.eval()
    try:
        return check_by_hand(context, file)
    finally:
        context.policy.train(was)


def pendulum():
    return gymnasium.make("Pendulum-v1")


@pytest.mark.parametrize(
    ("algorithm", "env"),
    [
        ("trpo", "CartPole-v1"),
        ("sac", "Pendulum-v1"),
        ("cma_es", pendulum),
    ],
)
def test_policies_of_every_algorithm(prepared, tmp_path, algorithm, env):
    context = RunContext(env, algorithm, preset="none", silent=True, seed=1, run_dir=tmp_path / "run")
    with context:
        stir(context.policy)
        check_by_hand(context, export_policy(context.run, tmp_path / "a.pt2").file)


def test_a_cloned_policy(prepared, tmp_path):
    folder = tmp_path / "demos"
    env, wrappers = env_config({"name": "gymnasium", "id": "Pendulum-v1"})
    roll_out(task_of_plugin(part_config("policy", {"name": "random"}), env, wrappers, 1), 2, record=folder)
    overrides = {"algorithm.dataset": str(folder), "algorithm.n_epochs": 1}
    with RunContext("Pendulum-v1", "bc", overrides=overrides, silent=True, seed=1, run_dir=tmp_path / "run") as context:
        context.train()
        check_by_hand(context, export_policy(context.run, tmp_path / "a.pt2").file)


@pytest.mark.parametrize(
    ("name", "actions", "distribution"),
    [
        ("a.onnx", CHOICES, "gaussian"),
        ("a.pt2", BOX, "squashed_gaussian"),
        pytest.param("a.onnx", BOX, "beta", marks=pytest.mark.slow),
    ],
)
def test_a_stochastic_policy_takes_its_noise_as_inputs(prepared, tmp_path, name, actions, distribution):
    """Over much noise its actions have the mean and the spread of those that the run samples."""
    env = functools.partial(Anything, spaces.Box(-1, 1, (3,)), actions)
    overrides = {"model.distribution": distribution, "model.hidden": [8], "model.state_dependent_std": True}
    context = prepared(env, overrides=overrides)
    play, metadata = load(export_policy(context.run, tmp_path / name, stochastic=True).file)
    assert metadata["stochastic"]
    rows, rng = 4000, np.random.default_rng(1)
    inputs = {
        leaf["name"]: getattr(rng, leaf["draw"])(size=(rows, *leaf["shape"])).astype("float32")
        for leaf in metadata["inputs"]
        if "draw" in leaf
    }
    seen = np.array([[0.3, -0.9, 0.5]] * rows, np.float32)
    outputs = play({"observation": seen, **inputs})
    agent = NetworkAgent(context.policy, SharedNoise(rows, torch.Generator().manual_seed(1)))
    codec = ActionCodec(context.run.action_space)
    sampled = codec.batch(agent.act({"observation": seen}).actions)
    for leaf, space in zip(metadata["outputs"], leaves(context.run.action_space, "action"), strict=True):
        got, wanted = outputs[leaf["name"]].astype(float), np.asarray(follow(sampled, space.path)).astype(float)
        error = 5 * wanted.std(0) * (2 / rows) ** 0.5 + 1e-6
        assert (np.abs(got.mean(0) - wanted.mean(0)) < error).all(), leaf["name"]
        assert (np.abs(got.std(0) - wanted.std(0)) < 2 * error).all(), leaf["name"]


def test_noise_that_nobody_knows_is_refused(prepared, tmp_path, monkeypatch):
    context = prepared(pendulum)
    monkeypatch.setattr(context.policy.action_heads[0][2], "noise", {})
    with pytest.raises(ConfigError, match=r"--stochastic: the head of action 'action' does not say what noise"):
        export_policy(context.run, tmp_path / "a.pt2", stochastic=True)
    check_by_hand(context, export_policy(context.run, tmp_path / "a.pt2").file)
