"""An exported policy of several actors acts for whoever's turn it is, in one batch."""

from __future__ import annotations

import numpy as np
import pytest
from maze_devkit.turns import Carousel, Shelves
from maze_export.export import export_policy

from maze_core.envs.codecs import ActionCodec, ObservationCodec
from maze_core.envs.spaces import allocate
from tests.maze_export.conftest import stir
from tests.maze_export.test_export import load


@pytest.mark.parametrize("env", [Shelves, Carousel])
def test_rows_of_all_actors_act_as_in_the_run(quick, tmp_path, env):
    context = quick(env, "ppo", {"model.hidden": [8]})
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
