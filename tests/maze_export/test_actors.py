"""An exported policy acts for whoever's turn it is, in one batch, and asks for nothing that critics alone see."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from gymnasium import spaces
from maze_actors.turns import Turn, TurnEnv
from maze_devkit.challenges import Privileged
from maze_devkit.turns import Carousel
from maze_export.export import export_policy
from maze_export.onnx_policy import OnnxPolicy, OnnxPolicyConfig

from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.spaces import allocate
from tests.maze_export.conftest import stir
from tests.maze_export.test_export import load


def test_rows_of_all_actors_act_as_in_the_run(quick, tmp_path):
    context = quick(Carousel, "ppo", {"model.hidden": [8]})
    context.train()
    stir(context.policy)
    file = tmp_path / "policy.onnx"
    export_policy(context.run, file)
    play, metadata = load(file)
    made = context.make_env()
    observation, _ = made.reset(seed=0)
    observed, expected = [], []
    for _ in range(30):
        action = context.compute_action(observation)
        observed.append(observation)
        expected.append(action)
        observation, _, terminated, truncated, _ = made.step(action)
        if terminated or truncated:
            observation, _ = made.reset()
    codec, actions = ObservationCodec(made.observation_space), ActionCodec(made.action_space)
    rows = allocate(codec.specs, (len(observed),))
    for row, each in enumerate(observed):
        codec.write(rows, row, each)
    assert len(set(rows["turn/actor"].tolist())) > 1
    dtypes = {leaf["name"]: leaf["dtype"] for leaf in metadata["inputs"]}
    outputs = play({key: leaf.astype(dtypes[key]) for key, leaf in rows.items() if key in dtypes})
    for key in outputs:
        wanted = np.concatenate([actions.tree(each)[key.removeprefix("action/")] for each in expected])
        np.testing.assert_allclose(outputs[key], wanted, 1e-5, 1e-5)


class Told(TurnEnv):
    """Two actors whose critic is told a number that says nothing about them."""

    def __init__(self, scale=1.0):
        place = spaces.Box(-1, 1, (2,), np.float32)
        actors = {"chooser": (place, spaces.Discrete(3)), "pusher": (place, spaces.Box(-1, 1, (2,), np.float32))}
        super().__init__(actors, critic=spaces.Box(-np.inf, np.inf, (3,), np.float32))
        self._scale = scale

    def first_turn(self):
        self._left = 8
        return self._turn()

    def next_turn(self, actor, action):
        self._left -= 1
        return self._turn()

    def _turn(self):
        place, number = self.np_random.uniform(-1, 1, 2), self._scale * self.np_random.normal(size=3)
        actor = ("chooser", "pusher")[self._left % 2]
        return Turn(actor, place.astype(np.float32), 0.0, 1.0, not self._left, critic=number.astype(np.float32))


@pytest.mark.parametrize(
    ("env", "name", "values"),
    [
        (Told, "a.pt2", {"model.groups": "per_actor", "model.joint_critic": True}),
        pytest.param(
            functools.partial(Privileged, 3.0), "a.onnx", {"model.normalize_observations": True}, marks=pytest.mark.slow
        ),
    ],
)
def test_what_critics_alone_see_is_no_input(prepared, tmp_path, env, name, values):
    context = prepared(env, overrides={"model.hidden": [8], **values})
    file = export_policy(context.run, tmp_path / name).file
    play, metadata = load(file)
    assert metadata["inputs"]
    assert not [leaf for leaf in metadata["inputs"] if "critic" in leaf["name"]]
    play({leaf["name"]: np.zeros((5, *leaf["shape"]), leaf["dtype"]) for leaf in metadata["inputs"]})
    if file.suffix == ".onnx":
        policy = OnnxPolicy(OnnxPolicyConfig(name="onnx", file=file))
        policy.setup(context.run.observation_space, context.run.action_space)
