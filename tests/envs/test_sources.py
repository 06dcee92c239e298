import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium
import numpy
import pytest
from gymnasium.vector import SyncVectorEnv
from maze_devkit.envs import CountingEnv

from maze_core.base.errors import ConfigError, RunError
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.sources.factory import FactoryConfig, FactorySource
from maze_core.envs.sources.gymnasium import GymnasiumConfig, GymnasiumSource
from maze_core.plugins.base import Plugin, origin
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.hookspecs import hookimpl
from maze_core.plugins.how_to_install import unmet


class Limited(gymnasium.wrappers.TimeLimit):
    def __init__(self, env, limit):
        super().__init__(env, limit)
        self.limit = limit


class LimitWrapper(Plugin):
    class Config(PluginConfig):
        limit: int = 2

    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        env = yield
        return Limited(env, self.config.limit)


def limit(steps):
    return LimitWrapper.Config(name="limit", limit=steps).bound_to(LimitWrapper)


class SpySource(Plugin):
    Config = FactoryConfig

    @hookimpl
    def make_env(self, config, seed, index):
        env = CountingEnv()
        env.seen = (seed, index)
        return env

    @hookimpl
    def make_vector_env(self, config, num_envs, seed):
        return SyncVectorEnv([CountingEnv] * num_envs)


def source(env_id, **parameters):
    return GymnasiumSource(GymnasiumConfig(id=env_id, **parameters))


def build(plugin):
    return plugin.make_env(plugin.config, 0, 0)


def length_of(env):
    """The length of the first episode."""
    env.reset(seed=0)
    return 1 + next(number for number in range(100) if any(env.step(0)[2:4]))


def test_an_id_with_arguments_and_a_limit():
    env = build(source("CartPole-v1", kwargs={"sutton_barto_reward": True}, max_episode_steps=7))
    assert env.spec.max_episode_steps == 7
    env.reset(seed=0)
    assert env.step(0)[1] == 0.0  # in this form a step is worth nothing


def test_a_module_is_imported_for_its_id(tmp_path, monkeypatch):
    (tmp_path / "my_levels_of_maze.py").write_text(
        "import gymnasium\ngymnasium.register('Levels-v0', 'maze_devkit.envs:CountingEnv', kwargs={'length': 9})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = build(source("my_levels_of_maze:Levels-v0"))
    assert length_of(env) == 9
    with pytest.raises(ConfigError, match="Levels-v0"):
        source("my_levels_of_maze:Level-v0")


@pytest.mark.parametrize("typed", ["my_depths", "Depths-v0", "depths", "My_depth"])
def test_what_a_module_here_registers_is_offered_without_an_import(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    Path("my_depths.py").write_text("import gymnasium\nassert False\ngymnasium.register(id='Depths-v0')\n")
    Path("broken.py").write_text("def")
    Path("latin.py").write_bytes(b"'\xff'")
    os.mkfifo("pipe.py")
    with pytest.raises(ConfigError, match=r"Did you mean my_depths:Depths-v0\?"):
        source(typed)


@pytest.mark.parametrize(
    ("env_id", "message", "hint"),
    [
        ("Cartpole-v1", "no environment 'Cartpole-v1' is registered", "CartPole-v1"),
        ("maze_devkit.several:kind_of", "'kind_of' is registered", "def make() -> gymnasium.Env"),
        ("simple_spred_v3", "no environment", "simple_spread_v3"),
        ("LunarLander-v2", "no environment 'LunarLander-v2'", "LunarLander-v3"),
        ("ALE/Pong-v5", "no environment", "pip install ale-py"),
        ("no_such_module:Foo-v0", "'no_such_module' cannot be imported", "Install"),
        ("bsuite:catch/0", "'bsuite' cannot be imported", "pip install bsuite"),
        ("FetchReach-v4", "no environment", "--env gymnasium_robotics:FetchReach-v4"),
        ("xyzzyxyzzy", "no environment", "module:Id"),
    ],
)
def test_an_unknown_id_is_refused_before_anything_is_built(monkeypatch, env_id, message, hint):
    for known in [name for name in gymnasium.registry if name.startswith("ALE/")]:
        monkeypatch.delitem(gymnasium.registry, known)  # as where nobody has imported ale_py
    monkeypatch.setitem(sys.modules, "bsuite", None)  # as where it is not installed
    with pytest.raises(ConfigError, match=message) as caught:
        source(env_id)
    assert caught.value.where == "env.id"
    assert hint in str(caught.value)


def test_wrong_arguments_are_the_users_error():
    with pytest.raises(ConfigError, match="unexpected keyword argument 'poles'") as caught:
        build(source("CartPole-v1", kwargs={"poles": 3}))
    assert caught.value.where == "env.kwargs"


def test_a_missing_dependency_says_what_to_install(monkeypatch):
    plugin = source("LunarLander-v3")

    def make(*arguments, **keywords):
        raise gymnasium.error.DependencyNotInstalled("Box2D is not installed")

    monkeypatch.setattr(gymnasium, "make", make)
    with pytest.raises(ConfigError, match="gymnasium\\[box2d\\]"):
        build(plugin)


def test_a_ready_function():
    builder = EnvBuilder(FactoryConfig().bound_to(FactorySource.of(partial(CountingEnv, 5))), seed=3)
    assert length_of(builder(0)) == length_of(pickle.loads(pickle.dumps(builder))(0)) == 5
    assert origin(CountingEnv) == "maze_devkit.envs:CountingEnv"


def test_a_recorded_function_cannot_be_opened_without_it():
    with pytest.raises(ConfigError, match="a:make") as caught:
        FactorySource(FactoryConfig(factory="a:make"))
    assert "Python" in caught.value.hint


def builder(purpose="training", wrappers=(), seed=1):
    return EnvBuilder(FactoryConfig().bound_to(SpySource), wrappers, seed=seed, purpose=purpose)


def test_wrappers_apply_in_order_and_travel():
    both = builder(wrappers=(limit(5), limit(4)))
    for made in (both(0), pickle.loads(pickle.dumps(both))(0)):
        assert [made.limit, made.env.limit] == [4, 5]  # the first is the innermost
        assert isinstance(made.unwrapped, CountingEnv)


def test_construction_seeds_differ_by_index_purpose_and_run_only():
    seeds = {
        builder(purpose, seed=run)(i).seen[0]
        for purpose in ("training", "evaluation")
        for run in (1, 2)
        for i in range(3)
    }
    assert len(seeds) == 12
    assert builder()(2).seen == builder()(2).seen


def test_a_wrapper_for_single_environments_rules_out_the_native_one():
    assert builder().vector_env(2).num_envs == 2
    with pytest.warns(RuntimeWarning, match="wraps single environments"):
        assert builder(wrappers=(limit(5),)).vector_env(2) is None


def test_environments_need_no_torch():
    modules = (
        "maze_core.envs.builder",
        "maze_core.envs.sources.factory",
        "maze_core.envs.sources.gymnasium",
        "maze_foreign_envs.native",
        "maze_local.pooled_envs",
        "maze_core.envs.serial",
        "maze_local.env_task",
        "maze_core.collect.pools.dev",
        "maze_local.runner",
    )
    code = f"import sys, {', '.join(modules)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_vectorised_form_of_an_environment():
    native = source("CartPole-v1", vectorization="native", max_episode_steps=9)
    env = native.make_vector_env(native.config, 5, 0)
    assert (env.num_envs, env.unwrapped.max_episode_steps) == (5, 9)
    assert EnvBuilder(native.config.bound_to(GymnasiumSource)).vector_env(3).num_envs == 3
    single = source("CartPole-v1")
    assert single.make_vector_env(single.config, 5, 0) is None


def test_an_environment_without_a_vectorised_form():
    native = source("Acrobot-v1", vectorization="native")
    with pytest.raises(ConfigError, match="Acrobot-v1 has no vectorised form") as caught:
        native.make_vector_env(native.config, 2, 0)
    assert caught.value.where == "env.vectorization"
    wrong = source("CartPole-v1", vectorization="native", kwargs={"gravity": 1})
    with pytest.raises(ConfigError, match="gravity"):
        wrong.make_vector_env(wrong.config, 2, 0)


def test_the_old_versions_of_mujoco_name_the_new_one():
    with pytest.raises(ConfigError, match="\nNext: --env Ant-v5"):
        build(source("Ant-v3"))


@pytest.fixture
def old_levels(monkeypatch, tmp_path):
    """`old_levels(*requirements)`: a package that asks for other versions, and has environments in a module."""

    def install(*asks):
        (info := tmp_path / "old_levels-1.0.dist-info").mkdir()
        lines = ["Name: old-levels", "Version: 1.0", *(f"Requires-Dist: {each}" for each in asks)]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "top_level.txt").write_text("old_levels\n")
        monkeypatch.syspath_prepend(tmp_path)

    return install


NUMPY, PYGLET = f"numpy=={numpy.__version__}.post9", "pyyaml<1"


@pytest.mark.parametrize(
    ("asks", "error", "text", "is_named"),
    [
        ([NUMPY], AttributeError("module 'numpy' has no attribute 'bool8'"), 'pip install "numpy==', True),
        ([NUMPY], AttributeError("`np.float_` was removed in the NumPy 2.0 release"), 'pip install "numpy==', True),
        (["gymnasium<0.29", NUMPY], ImportError("cannot import name 'x' from 'numpy'"), 'pip install "numpy==', True),
        ([NUMPY], KeyError("levels"), "It may be that versions do not fit: old-levels asks for numpy==", False),
        (
            ["gymnasium<0.29"],
            TypeError("reset() got an unexpected keyword"),
            "It may be that versions do not fit",
            False,
        ),
        (
            ["gymnasium<0.29"],
            ImportError("no name 'Wrap' in 'gymnasium.wrappers'"),
            "as maze-core needs gymnasium",
            True,
        ),
        ([PYGLET], ImportError("PyYAML is too new"), "old-levels asks for pyyaml<1, and ", True),
    ],
)
def test_only_a_version_that_the_error_names_is_a_remedy(old_levels, asks, error, text, is_named):
    old_levels('mujoco<3; sys_platform ~= "1.x"', "numpy", 'mujoco<3; extra == "x"', *asks)
    found = unmet("old_levels.envs", error)
    assert text in found.text
    assert found.is_named is is_named
    excluded = "as maze-core needs" in found.text
    assert ("pip install" in found.text) is (is_named and not excluded)
    assert excluded is any(each in found.text for each in ("gymnasium<0.29", "pyyaml<1"))


def test_what_is_met_or_not_likely_is_no_reason(old_levels):
    old_levels(PYGLET, "gymnasium")
    assert unmet("old_levels.envs", KeyError("x")) is None
    assert unmet("other", ImportError("gymnasium")) is None


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        ("raise KeyError('levels')", RunError, r"KeyError: 'levels'.*\nIt may be that versions do not fit: old-levels"),
        ("import pymissing.thing", ConfigError, r"\nInstall it: pip install pymissing\nIt may be that versions"),
        (
            "import gymnasium.wrappers.gone",
            ConfigError,
            r"\nold-levels asks for gymnasium<0.29, and .*as maze-core needs",
        ),
        (
            "from numpy import gone_2",
            ConfigError,
            r"cannot be imported: .*gone_2.*\nIt may be that versions do not fit",
        ),
    ],
)
def test_the_failure_of_an_environment_says_so(old_levels, tmp_path, lines, error, words):
    old_levels("gymnasium<0.29")
    base = "import gymnasium\nclass Level(gymnasium.Env):\n    def __init__(self):\n        "
    (tmp_path / "old_levels.py").write_text(base + lines)
    try:
        with pytest.raises(error, match=words):
            build(source("old_levels:Level"))
    finally:
        sys.modules.pop("old_levels", None)
