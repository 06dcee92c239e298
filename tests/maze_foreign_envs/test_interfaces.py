"""Environments of gym and dm_env, by small stand-ins: tests/envs/test_packages.py has the real ones."""

import sys
from types import ModuleType, SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from maze_foreign_envs.dm import DmApi, space_of
from maze_foreign_envs.old_api import OldApi, gymnasium_space

from maze_core.base.errors import ConfigError
from maze_core.envs.interfaces import as_gymnasium, maker, makes_environments
from maze_core.envs.sources.gymnasium import GymnasiumConfig, GymnasiumSource
from maze_core.plugins import discovery
from maze_core.plugins.config.env_door import EnvSources
from maze_core.plugins.how_to_install import how_to_install


class Box:
    """The space of gym's name and attributes."""

    def __init__(self, low, high, dtype=np.float32):
        self.low, self.high, self.dtype = np.array(low, dtype), np.array(high, dtype), np.dtype(dtype)
        self.shape = self.low.shape


Discrete = type("Discrete", (), {"n": 3})
Env = type("Env", (), {"__module__": "gym.core"})


class Gym21(Env):
    """Counts to its length; gym 0.21."""

    observation_space, action_space = Box([0, 0], [9, 9]), Discrete()

    def __init__(self, length=3, seed=None):
        self.length, self.built_with, self.seeds, self.cut = length, seed, [], False

    def seed(self, seed):
        self.seeds.append(seed)

    def reset(self):
        self.t = 0
        return np.zeros(2, np.float32)

    def step(self, action):
        self.t += 1
        over = self.t == self.length
        return np.full(2, self.t, np.float32), np.array([1.0]), over, {"TimeLimit.truncated": True} if self.cut else {}

    def render(self, mode="human"):
        return mode


class Gym26(Gym21):
    seed = None

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return super().reset(), {"new": True}

    def step(self, action):
        observation, reward, over, info = super().step(action)
        return observation, reward, False, over, info


class Between(gymnasium.Env):
    """gymnasium's class with a reset of before, as in JSSEnv."""

    observation_space, action_space = spaces.Box(0, 9, (2,)), spaces.Discrete(3)

    def reset(self):
        return np.zeros(2, np.float32)

    def step(self, action):
        return np.ones(2, np.float32), 1.0, False, False, {}

    def action_masks(self):
        return [1, 1, 1]


Environment = type("Environment", (), {"__module__": "dm_env._environment"})
Spec = SimpleNamespace


class Dm(Environment):
    def __init__(self, discount=0.0):
        self.discount = discount

    def observation_spec(self):
        bounded = Spec(shape=(2,), dtype=np.dtype(np.float32), minimum=0, maximum=[1, 9])
        free, on = (Spec(shape=shape, dtype=np.dtype(kind)) for shape, kind in (((), float), ((1,), bool)))
        return {"at": bounded, "free": free, "on": on}

    def action_spec(self):
        return Spec(shape=(), dtype=np.dtype(np.int32), num_values=4, minimum=0, maximum=3)

    def reset(self):
        return self._result(None, None, False)

    def step(self, action):
        assert type(action) is np.int32
        return self._result(1.0, self.discount, True)

    def close(self):
        self.closed = True

    def _result(self, reward, discount, last):
        seen = {"at": np.zeros(2, np.float32), "free": 1.5, "on": np.array([True])}
        return Spec(observation=seen, reward=reward, discount=discount, last=lambda: last)


def test_an_environment_of_gym_21():
    env = as_gymnasium(Gym21())
    assert (env.observation_space, env.action_space) == (spaces.Box(0, 9, (2,)), spaces.Discrete(3))
    observation, info = env.reset(seed=7, options={})
    assert (observation.tolist(), info, env.seeds) == ([0, 0], {}, [7])
    assert [env.step(0)[1:4] for _ in range(3)] == [(1.0, False, False)] * 2 + [(1.0, True, False)]
    env.env.cut = True
    env.reset()
    assert [env.step(0)[2:4] for _ in range(3)][-1] == (False, True)
    assert env.render() == "rgb_array"


def test_an_environment_of_gym_26_gets_its_seed_in_reset():
    env = as_gymnasium(Gym26())
    assert env.reset(seed=7)[1] == {"new": True}
    assert env.seeds == [7]
    assert [env.step(0)[2:4] for _ in range(3)][-1] == (False, True)


def test_an_old_reset_below_new_wrappers(recwarn):
    env = as_gymnasium(gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(Between()), 2))
    assert env.reset(seed=3)[1] == {}
    assert [env.step(0)[3] for _ in range(2)] == [False, True]
    assert env.unwrapped.action_masks() == [1, 1, 1]
    assert "the resets of Between take no seed" in str(recwarn.pop(RuntimeWarning).message)


def test_an_environment_of_dm_env():
    env = as_gymnasium(Dm(), seeded=True)
    at = spaces.Box(np.array([0, 0], np.float32), np.array([1, 9], np.float32))
    free, on = spaces.Box(-np.inf, np.inf, (), float), spaces.Box(0, 1, (1,), np.int8)
    assert env.observation_space == spaces.Dict({"at": at, "free": free, "on": on})
    assert env.action_space == spaces.Discrete(4)
    assert env.reset(seed=1)[0] in env.observation_space
    assert env.step(np.int64(2))[1:4] == (1.0, True, False)
    assert as_gymnasium(Dm(0.9), seeded=True).step(2)[2:4] == (False, True)
    env.close()
    assert env.env.closed


def test_what_has_no_numbers_is_refused():
    with pytest.raises(ConfigError, match="kind Graph, which gymnasium does not know"):
        gymnasium_space(type("Graph", (), {})())
    with pytest.raises(ConfigError, match="'text' of SimpleNamespace holds no numbers"):
        space_of({"text": Spec(shape=(), dtype=np.dtype(object))})


def test_only_environments_may_be_called_by_name():
    def annotated() -> gymnasium.Env: ...
    def silent(): ...

    assert all(map(makes_environments, (Between, Gym21, Dm, annotated)))
    assert not any(map(makes_environments, (silent, print, Box, gymnasium.Wrapper, gymnasium.wrappers.TimeLimit, 3)))


@pytest.mark.parametrize(
    ("env", "old_api", "said"),
    [
        (Gym21, None, "Gym21 has the interface of gym, which"),
        (Dm, None, "Dm has the interface of dm_env, which"),
        (Between, None, "Between has the interface of gym, before gymnasium, which"),
        (lambda: gymnasium.make("CartPole-v1"), True, "CartPoleEnv has the interface of gym, before gymnasium, which"),
        (lambda: gymnasium.make("CartPole-v1"), None, ""),
        (lambda: gymnasium.wrappers.FlattenObservation(gymnasium.make("CartPole-v1")), False, ""),
        (object, None, ""),
    ],
)
def test_where_nothing_converts_them_what_to_install_is_said(monkeypatch, env, old_api, said):
    others = tuple(each for each in discovery.declared() if each.distribution != "maze-foreign-envs")
    monkeypatch.setattr(discovery, "declared", lambda: others)
    made = env()
    if not said:
        assert as_gymnasium(made, old_api) is made
        return
    with pytest.raises(ConfigError) as refusal:
        as_gymnasium(made, old_api)
    advice = f"Next: {how_to_install('maze-foreign-envs')}"
    assert str(refusal.value).splitlines() == [f"env: {said} needs maze-foreign-envs", advice]
    with pytest.raises(ConfigError, match=r"env\.id: bsuite has environments of another interface, which needs maze"):
        maker("bsuite", "catch/0")
    assert maker("my_levels", "print") is None


def test_ids_of_gym_and_classes_of_modules(monkeypatch):
    spec = SimpleNamespace(entry_point=Gym21, _kwargs={"length": 5}, max_episode_steps=4)
    gym = ModuleType("gym")
    gym.envs = SimpleNamespace(registry=SimpleNamespace(env_specs={"Old-v0": spec}))
    monkeypatch.setitem(sys.modules, "gym", gym)
    monkeypatch.setitem(sys.modules, "my_levels", level := ModuleType("my_levels"))
    level.Dm, level.print = Dm, print
    for env_id, kind, limit in (("gym:Old-v0", OldApi, 4), ("my_levels:Dm", DmApi, None)):
        source = GymnasiumSource(GymnasiumConfig(id=env_id, name="gymnasium"))
        env = source.make_env(source.config, 5, 0)
        assert EnvSources().source_of(env_id) == "gymnasium"
        assert isinstance(env.unwrapped, kind)
        assert getattr(env, "_max_episode_steps", None) == limit
        if kind is OldApi:
            assert env.unwrapped.env.built_with == 5
    assert not GymnasiumSource.knows("my_levels:print")
    with pytest.raises(ConfigError, match="no environment 'print' is registered"):
        GymnasiumSource(GymnasiumConfig(id="my_levels:print"))
