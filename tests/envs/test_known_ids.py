"""Ids of environments that are not here are answered with what brings them: a distribution of Maze, or a package."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from typer.testing import CliRunner

from maze_core import RunContext
from maze_core.base.errors import ConfigError, MazeError
from maze_core.cli.main import app
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install


@pytest.fixture
def _core_and_ppo(monkeypatch):
    kept = ("maze-core", "maze-devkit", "maze-learners", "maze-ppo")
    few = tuple(each for each in discovery.declared() if each.distribution in kept)
    monkeypatch.setattr(discovery, "declared", lambda: few)
    # Another test of this process may have imported the package that registers the games.
    for name, spec in list(gymnasium.registry.items()):
        if spec.namespace == "ALE" or str(spec.entry_point).startswith(("ale_py", "shimmy")):
            monkeypatch.delitem(gymnasium.registry, name)


def refusal(env_id):
    with pytest.raises(ConfigError) as caught:
        _ = RunContext(env_id, "ppo", silent=True, steps=10).run
    return str(caught.value)


class Auction(ParallelEnv):
    """An environment of PettingZoo."""


def games() -> AECEnv:
    return None


HERE = "tests.envs.test_known_ids"
BRINGS = {
    "connect_four_v3": "maze-pettingzoo", "mpe/simple_spread_v3": "maze-pettingzoo", "knights_archers_zombies_v10":
    "maze-pettingzoo", "mpe2:simple_tag_v3": "maze-pettingzoo", "pettingzoo.classic:tictactoe_v3": "maze-pettingzoo",
    "magent2.environments:battle_v4": "maze-pettingzoo", f"{HERE}:Auction": "maze-pettingzoo",
    f"{HERE}:games": "maze-pettingzoo", "pettingzoo": "maze-pettingzoo", "cutting_2d": "maze-cutting-2d",
    "gymnax:CartPole-v1": "maze-jax", "pgx:chess": "maze-jax",
    "envpool:Pong-v5": "maze-envpool", "envpool:Ant-v4": "maze-envpool", "ALE/Pong-v5": "maze-atari",
    "ALE/MontezumaRevenge-v5": "maze-atari", "PongNoFrameskip-v4": "maze-atari", "Breakout-v4": "maze-atari",
}  # fmt: skip


@pytest.mark.usefixtures("_core_and_ppo")
@pytest.mark.parametrize("env_id", BRINGS)
def test_the_distribution_of_an_env_source_is_named(env_id):
    brings = BRINGS[env_id]
    assert f"It comes with {brings}, which is not installed. Next: {how_to_install(brings)}" in refusal(env_id)


@pytest.mark.usefixtures("_core_and_ppo")
def test_an_old_name_of_a_game_is_answered_with_todays():
    assert refusal("SpaceInvadersDeterministic-v4").endswith(', then env="ALE/SpaceInvaders-v5"')


@pytest.mark.usefixtures("_core_and_ppo")
def test_a_list_of_a_source_that_is_missing_names_its_distribution():
    assert "It comes with maze-envpool" in CliRunner().invoke(app, ["envs", "list", "envpool"]).stderr


def test_where_the_sources_are_they_are_named():
    assert refusal("cutting_2d").endswith('It is an env source: overrides={"env.name": "cutting_2d"}')
    assert refusal("Qbert-v9").endswith('Next: env="ALE/Qbert-v5"')
    assert "which is not known to return an environment" in refusal(f"{HERE}:refusal")


@pytest.mark.parametrize(
    ("env_id", "module", "package"),
    [
        ("MiniGrid-Nowhere-v0", "minigrid", "minigrid"),
        ("BabyAI-Nowhere-v0", "minigrid", "minigrid"),
        ("rware-tiny-2ag-v2", "rware", "rware"),
        ("Foraging-8x8-2p-1f-v3", "lbforaging", "lbforaging"),
        ("FetchReach-v4", "gymnasium_robotics", "gymnasium-robotics"),
        ("parking-v0", "highway_env", "highway-env"),
    ],
)
def test_the_package_of_others_is_named_or_their_module_where_it_is_installed(monkeypatch, env_id, module, package):
    import importlib.util

    known, there = importlib.util.find_spec, [False]
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: there[0] or None if name == module else known(name, *rest)
    )
    assert refusal(env_id).endswith(f'It comes with `pip install {package}`: env="{module}:{env_id}"')
    there[0] = True
    assert refusal(env_id).endswith(f'Next: env="{module}:{env_id}"')


class Table:
    """Stands for a DataFrame."""

    columns = ("price",)


class Market(gymnasium.Env):
    """Asks for a table."""

    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def __init__(self, df, window: int):
        self.width = len(df.columns)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, True, False, {}


MARKET = f"{HERE}:Market"
MADE = "takes a function of your own that returns the environment: def make() -> gymnasium.Env in my_envs.py"


@pytest.mark.parametrize("value", [Table(), abs, np.zeros(3), {"deep": [Table()]}, object, np.float32(1)], ids=range(6))
def test_arguments_that_no_text_says_are_answered_with_a_function(value):
    env = {"name": "gymnasium", "id": MARKET, "kwargs": {"df": value, "window": 3}}
    told = refusal(env)
    assert told.startswith("env.kwargs.df: must be a number, a text, a list or a mapping, got ")
    assert MADE in told


def test_so_are_those_of_wrappers():
    wrapper = {"name": "gymnasium.wrappers:TransformReward", "kwargs": {"func": abs}}
    with pytest.raises(
        ConfigError, match=r"^wrappers.0.kwargs.func: .*\n.*that wraps the environment: def wrap\(env\)"
    ):
        _ = RunContext("CartPole-v1", "ppo", wrappers=[wrapper], silent=True, steps=10).run


@pytest.mark.parametrize(
    ("source", "given"), [("gymnasium", {}), ("pettingzoo", {}), ("gymnasium", {"df": "prices.csv", "window": 3})]
)
def test_arguments_that_are_missing_or_texts_are_answered_with_both_ways(source, given):
    with pytest.raises(MazeError) as caught:
        _ = RunContext({"name": source, "id": MARKET, "kwargs": given}, "ppo", silent=True, steps=10).run
    assert MADE in str(caught.value)
    assert given or 'Next: overrides={"env.kwargs.df": …, "env.kwargs.window": …}' in str(caught.value)


def make_market() -> gymnasium.Env:
    return Market(Table(), 3)


def test_the_function_trains(quick):
    quick({"name": "gymnasium", "id": f"{HERE}:make_market"}, "ppo").train()
