"""The vectorised form of environments that a module registers, also where it has other spaces than the single one."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from maze_devkit.envs import CountingEnv, SeededWalk
from maze_foreign_envs.single_from_vector import LoneEnv

from maze_core.base.errors import ConfigError
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.sources.gymnasium import GymnasiumConfig
from maze_core.run.context import RunContext

MODULE = """
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from maze_devkit.envs import SeededWalk


class Wide(SeededWalk):
    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (3, 2), np.float64)

    def observe(self):
        return np.stack([super().observe()] * 3)


def vector(cls):
    return lambda num_envs, mode="NextStep": SyncVectorEnv([cls] * num_envs, autoreset_mode=AutoresetMode(mode))


gymnasium.register("Native/Same-v0", SeededWalk, vector_entry_point=vector(SeededWalk))
gymnasium.register("Native/Other-v0", SeededWalk, vector_entry_point=vector(Wide))
gymnasium.register("Native/None-v0", SeededWalk)
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    (tmp_path / "native_ids_of_a_user.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [each for each in gymnasium.registry if each.startswith("Native/")]:
        del gymnasium.registry[name]
    sys.modules.pop("native_ids_of_a_user", None)


def config(name, **more):
    return GymnasiumConfig(
        name="gymnasium", id=f"native_ids_of_a_user:Native/{name}-v0", vectorization="native", **more
    )


def test_a_module_and_an_id_have_a_vectorised_form():
    builder = EnvBuilder(config("Same"))
    env = builder.vector_env(3)
    assert env.num_envs == 3
    assert not isinstance(builder(0), LoneEnv)
    with pytest.raises(ConfigError, match="native_ids_of_a_user:Native/None-v0 has no vectorised form"):
        EnvBuilder(config("None")).vector_env(3)


def test_other_spaces_are_those_of_the_vectorised_form_everywhere():
    builder = EnvBuilder(config("Other"))
    told = r"Box\(-inf, inf, \(3, 2\), float64\), but single ones .*vectorization=single"
    with pytest.warns(RuntimeWarning, match=told):
        assert builder.vector_env(2).single_observation_space.shape == (3, 2)
    assert builder(0).observation_space.shape == (3, 2)
    assert builder.single(0).observation_space.shape == (2,)


def test_a_single_only_wrapper_forces_single_spaces(installed):
    from maze_core.plugins.config.assembly import part_config

    builder = EnvBuilder(config("Other"), (part_config("wrapper", {"name": "step_skip"}),))
    with pytest.warns(RuntimeWarning, match="wraps single environments"):
        assert builder.vector_env(2) is None
    assert builder(0).observation_space.shape == (2,)


@pytest.mark.filterwarnings("ignore:the natively vectorised environments have")
def test_a_run_trains_and_acts_in_one_form(quick, tmp_path):
    env = {"id": config("Other").id, "vectorization": "native"}
    with quick(env, run_dir=tmp_path / "run") as context:
        context.train()
        assert context.run.observation_space.shape == (3, 2)
        played = context.rollout(2, record=tmp_path / "recorded")
        assert played[0].obs["observation"].shape[1:] == (3, 2)
    with RunContext.open(tmp_path / "run") as opened:
        alone = opened.make_env()
        observation, _ = alone.reset(seed=1)
        action = opened.compute_action(observation)
        assert alone.action_space.contains(action)
        observation, *_ = alone.step(action)
        assert alone.observation_space.contains(observation)


class Mixed(CountingEnv):
    """Observations and actions in parts."""

    def __init__(self):
        super().__init__(one_buffer=False)
        self.observation_space = spaces.Dict({"at": self.observation_space, "tick": spaces.Discrete(9)})
        self.action_space = spaces.Tuple((self.action_space, spaces.Box(-1, 1, (2,), np.float32)))
        self._plain = spaces.Discrete(3)

    def step(self, action):
        assert self.action_space.contains(action)
        self.action_space, kept = self._plain, self.action_space
        try:
            return super().step(action[0])
        finally:
            self.action_space = kept

    def observe(self):
        return {"at": super().observe(), "tick": np.int64(self._step)}


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("make", [SeededWalk, Mixed])
def test_alone_the_vectorised_form_gives_the_single_transitions(mode, make):
    lone, single = LoneEnv(SyncVectorEnv([make], autoreset_mode=mode)), make()
    space = single.action_space
    assert batch_space(lone.observation_space, 1) == batch_space(single.observation_space, 1)
    for seed in range(4):
        space.seed(seed)
        assert_same(lone.reset(seed=seed)[0], single.reset(seed=seed)[0], mode)
        over = False
        while not over:
            action = space.sample()
            one, two = lone.step(action), single.step(action)
            assert_same(one[0], two[0], mode)
            assert one[1:4] == pytest.approx(two[1:4])
            over = one[2] or one[3]


def assert_same(one, two, mode):
    if isinstance(two, dict):
        # In SAME_STEP mode the vectorised form has begun one episode more each time.
        assert set(one) == set(two)
        assert one["at"][2] == two["at"][2]
        assert one["tick"] == two["tick"]
    else:
        np.testing.assert_array_equal(one, two)


def test_several_are_not_one():
    with pytest.raises(ValueError, match="not with 2"):
        LoneEnv(SyncVectorEnv([SeededWalk] * 2))
