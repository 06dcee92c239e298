"""Exported policies with memory: the file plays whole episodes as the run does."""

import numpy as np
import pytest
from gymnasium import spaces
from maze_export import export
from maze_export.export import export_policy
from maze_export.onnx_policy import OnnxPolicy, OnnxPolicyConfig

from maze_core.base.errors import ConfigError
from maze_core.run.context import RunContext
from tests.maze_export.conftest import Anything, stir

SEEN = spaces.Dict(
    {"x": spaces.Box(-1, 1, (3,)), "mode": spaces.Discrete(4, start=2), "tool_mask": spaces.MultiBinary(3)}
)
DONE = spaces.Dict({"tool": spaces.Discrete(3, start=5), "force": spaces.Box(-2, 2, (2,))})


@pytest.fixture
def remembering(tmp_path, known_plugins):
    """`remembering(kind)`: a context of a policy with this memory, whose parameters are not those of its beginning."""

    def build(kind):
        values = {"model.memory": kind, "model.memory_size": 8, "model.memory_layers": 2, "model.memory_window": 4}
        context = RunContext(
            lambda: Anything(SEEN, DONE), "ppo", overrides=values, seed=1, silent=True, run_dir=tmp_path / kind
        )
        stir(context.policy)
        return context

    return build


@pytest.mark.parametrize("kind", ["gru", pytest.param("lstm", marks=pytest.mark.slow)])
def test_a_file_remembers_as_its_run_does(remembering, tmp_path, kind):
    with remembering(kind) as context:
        file = tmp_path / "policy.onnx"
        export_policy(context.run, file)
        policy = OnnxPolicy(OnnxPolicyConfig(name="onnx", file=file))
        policy.setup(context.run.observation_space, context.run.action_space)
        agents = [context.agent() for _ in range(2)]
        envs = [context.make_env() for _ in range(2)]
        seen = [env.reset(seed=row)[0] for row, env in enumerate(envs)]
        for agent in agents:
            agent.reset()
        saved = None
        for step in range(30):
            if step == 12:  # another episode begins in one row
                policy.begin(1)
                agents[1].reset()
            if step == 20:
                saved = policy.state()
                policy.begin(0)
                policy.load_state(saved)
            obs = {
                "x": np.stack([each["x"] for each in seen]),
                "mode": np.array([each["mode"] - 2 for each in seen]),
                "tool_mask": np.stack([each["tool_mask"] for each in seen]),
            }
            chosen = policy.act(obs, [np.random.default_rng(0)] * 2)
            wanted = [agent.act(each) for agent, each in zip(agents, seen, strict=True)]
            np.testing.assert_array_equal(chosen["tool"] + 5, [each["tool"] for each in wanted])
            np.testing.assert_allclose(chosen["force"], [each["force"] for each in wanted], atol=1e-5)
            seen = [env.step(each)[0] for env, each in zip(envs, wanted, strict=True)]


def test_a_memory_that_differs_is_not_written(remembering, tmp_path, monkeypatch):
    real = export.load

    def wrong(*arguments):
        play = real(*arguments)
        return lambda inputs: {k: v + 1e-3 if k.startswith("next_state") else v for k, v in play(inputs).items()}

    monkeypatch.setattr(export, "load", wrong)
    with remembering("gru") as context, pytest.raises(ConfigError, match=r"next_state/policy/hidden.*differs"):
        export_policy(context.run, tmp_path / "policy.onnx")
    assert not list(tmp_path.glob("policy*"))
