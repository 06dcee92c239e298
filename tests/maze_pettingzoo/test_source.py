"""The env source `pettingzoo`: names, options, errors, and whole runs."""

import re
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("pettingzoo")

from maze_pettingzoo.adapters import AgentsInTurn, AgentsTogether
from maze_pettingzoo.names import place_of
from maze_pettingzoo.source import PettingZooConfig, PettingZooSource
from pettingzoo import AECEnv, ParallelEnv
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins.config.env_door import EnvSources

RPS, CONNECT_FOUR = "pettingzoo.classic:rps_v2", "pettingzoo.classic:connect_four_v3"


def built(env_id, **options):
    config = PettingZooConfig(name="pettingzoo", id=env_id, **options)
    return PettingZooSource(config).make_agents_env(config, 0, 0)


@pytest.mark.parametrize(
    ("env_id", "api", "kind"),
    [
        (CONNECT_FOUR, "auto", AgentsInTurn),
        (RPS, "auto", AgentsTogether),
        (RPS, "parallel", AgentsTogether),
        (RPS, "aec", AgentsInTurn),
        ("tests.maze_pettingzoo.test_adapters:Lives", "auto", AgentsTogether),
    ],
)
def test_an_environment_is_built_by_the_interface_asked_for(env_id, api, kind):
    assert type(built(env_id, api=api)) is kind
    assert built(env_id, api=api).elapsed == "turn"
    assert built(env_id, api=api, elapsed="round").elapsed == "round"


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        ("connect_for_v3", {}, "'connect_for_v3' is no environment of PettingZoo\nDid you mean connect_four_v3"),
        ("connect_four", {}, "'connect_four' needs a version .*\nNext: --env connect_four_v3"),
        ("classic/connect_four-v1", {}, "needs a version .*\nNext: --env connect_four_v3"),
        ("pettingzoo.classic:connect_four", {}, "needs a version .*\nNext: --env connect_four_v3"),
        ("pettingzoo.classic:connect_for_v3", {}, "Did you mean pettingzoo.classic:connect_four_v3"),
        ("no_such_package:thing", {}, "the module 'no_such_package' cannot be imported"),
        ("pettingzoo:utils", {}, "neither `env` nor `parallel_env`"),
        (CONNECT_FOUR, {"api": "parallel"}, "has no parallel interface; it has: aec"),
        (CONNECT_FOUR, {"kwargs": {"size": 3}}, "env.kwargs: .*unexpected keyword argument 'size'"),
        ("tests.maze_pettingzoo.test_adapters:Lives", {"api": "aec"}, "makes an environment of the kind parallel"),
        ("tests.maze_pettingzoo.test_adapters:Counter", {}, "neither an environment class nor known to return"),
    ],
)
def test_what_cannot_be_built_is_explained(env_id, options, message):
    with pytest.raises(ConfigError, match=message):
        built(env_id, **options)


CALLS = {
    "os:system": {"command": "touch called"},
    "subprocess:getoutput": {"cmd": "touch called"},
    "builtins:open": {"file": "called", "mode": "w"},
    "runpy:run_path": {"path_name": "called.py"},
    "torch.utils.data.dataloader:os": {},
    "numpy:save": {"file": "called", "arr": [1]},
    "yaml:load": {"stream": "!!python/object/apply:os.system ['touch called']", "Loader": "UnsafeLoader"},
    "torch.hub:download_url_to_file": {"url": "file:///etc/hostname", "dst": "called"},
    "gymnasium:make": {"id": "called:Cart-v0"},
    "gymnasium.envs.registration:load_env_creator": {"name": "called:X"},
    "maze_core.plugins.probe:subprocess": {},
    "maze_core.base.files:Path": {},
    "tests.maze_pettingzoo.test_source:unannotated": {},
    "tests.maze_pettingzoo.test_source:annotated_otherwise": {},
    "tests.maze_pettingzoo.test_source:Module": {},
    "tests.maze_pettingzoo.test_source:callable_object": {},
}
"""Functions, classes and modules, with arguments that they take."""


def unannotated():
    Path("called").touch()


def annotated_otherwise() -> "no such name":  # noqa: F722
    Path("called").touch()


class Module:
    env = parallel_env = unannotated

    def __init__(self):
        unannotated()

    def __call__(self):
        unannotated()


callable_object = Module.__new__(Module)


@pytest.mark.parametrize("env_id", CALLS)
def test_what_is_no_constructor_of_environments_is_not_called(tmp_path, monkeypatch, env_id):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "called.py").write_text("open('called', 'w')")
    with pytest.raises(ConfigError, match="env"):
        built(env_id, kwargs=CALLS[env_id])
    assert not (tmp_path / "called").exists()


def made() -> AECEnv:
    return constructed("env")


def made_in_words(size: int = 1) -> "ParallelEnv[str, int, int]":
    return constructed("parallel_env")


def constructed(name):
    return getattr(import_module("pettingzoo.classic.rps_v2"), name)()


@pytest.mark.parametrize(("name", "kind"), [("made", AgentsInTurn), ("made_in_words", AgentsTogether)])
def test_a_function_that_is_annotated_to_return_an_environment_is_called(name, kind):
    assert type(built(f"tests.maze_pettingzoo.test_source:{name}")) is kind


@pytest.mark.parametrize("name", ["env", "raw_env", "parallel_env"])
def test_functions_with_the_names_of_constructors_are_called(name):
    assert built(f"pettingzoo.classic.rps_v2:{name}").agents


def test_a_run_from_the_command_line_ends_with_a_table_of_the_agents(tmp_path):
    command = ["train", "ppo", "--env-source", "pettingzoo", "--env", CONNECT_FOUR, "--seed", "1"]
    small = ["--epochs", "1", "--epoch-length", "1", "--n-rollout-steps", "12", "--num-envs", "2"]
    more = [
        "--set",
        "evaluation.n_episodes=2",
        "--set",
        "callbacks.tensorboard=null",
        "--run-dir",
        str(tmp_path / "run"),
    ]
    done = CliRunner().invoke(app, [*command, *small, *more])
    assert done.exit_code == 0, done.output
    assert re.search(r"agent +return +actions\n +player_0 +\S+ +\S+\n +player_1 ", done.output), done.output
    shown = CliRunner().invoke(app, ["eval", str(tmp_path / "run"), "--episodes", "2", "--seed", "1"])
    assert "actor/player_0/return_mean" in shown.output


@pytest.mark.parametrize(
    ("game", "algorithm", "kinds"),
    [
        ("simple_speaker_listener_v4", "ppo", ["speaker_0", "listener_0"]),
        ("simple_adversary_v3", "a2c", ["adversary_0", "agent_0"]),
        ("simple_tag_v3", "impala", ["adversary_0", "agent_0"]),
    ],
)
def test_agents_with_different_spaces_learn_from_the_command_line(tmp_path, game, algorithm, kinds):
    pytest.importorskip("mpe2")
    command = ["train", algorithm, "--env-source", "pettingzoo", "--env", f"mpe2:{game}", "--seed", "1"]
    small = ["--epochs", "1", "--epoch-length", "1", "--n-rollout-steps", "8", "--set", "evaluation.n_episodes=1"]
    done = CliRunner().invoke(app, [*command, *small, "--preset", "none", "--run-dir", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(app, ["eval", str(tmp_path / "run"), "--episodes", "1", "--seed", "1"])
    assert all(f"actor/{kind}/return_mean" in shown.output for kind in kinds), shown.output


def test_envs_check_examines_all_agents():
    done = CliRunner().invoke(app, ["envs", "check", "--env-source", "pettingzoo", RPS])
    assert done.exit_code == 0, done.output
    assert "a row for each of 2 agents: player_0, player_1" in done.output


def test_a_resumed_game_equals_the_uninterrupted_one(quick, whole_state, assert_same):
    env = {"name": "pettingzoo", "id": CONNECT_FOUR, "agent_id": True}
    small = {"model.hidden": [8], "algorithm.n_rollout_steps": 5, "model.normalize_observations": True}
    whole = quick(env, "ppo", small | {"algorithm.n_epochs": 3})
    whole.train()
    half = quick(env, "ppo", small)
    half.train()
    quick(env, "ppo", small | {"algorithm.n_epochs": 3}, run_dir=None).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))


@pytest.mark.parametrize(
    ("env_id", "place"),
    [
        ("connect_four_v3", ("pettingzoo.classic", "connect_four_v3")),
        ("classic/connect_four-v3", ("pettingzoo.classic", "connect_four_v3")),
        ("mpe/simple_spread_v3", ("mpe2", "simple_spread_v3")),
        ("pettingzoo.mpe:simple_spread_v3", ("mpe2", "simple_spread_v3")),
        (CONNECT_FOUR, ("pettingzoo.classic", "connect_four_v3")),
    ],
)
def test_an_environment_is_found_by_its_name_alone(env_id, place):
    assert place_of(env_id) == place
    assert EnvSources().source_of(env_id) == "pettingzoo"


def test_like_a_wrong_id_are_those_that_a_source_knows(monkeypatch):
    assert "connect_four_v3" in EnvSources().similar_ids("connect_for_v3")
    assert not EnvSources().similar_ids("Nope-v1")
    monkeypatch.setattr(PettingZooSource, "knows", staticmethod(lambda env_id: False))
    assert "connect_four_v3" not in EnvSources().similar_ids("connect_for_v3")


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "jss-v1", "maze_devkit.envs:CountingEnv", "bsuite:catch/0", "a:", ""]
)
def test_other_environments_are_left_to_other_sources(env_id):
    assert not PettingZooSource.knows(env_id)


def test_python_passes_what_makes_an_environment(quick):
    from pettingzoo.classic import rps_v2

    run = quick(rps_v2.parallel_env)
    run.train()
    assert run.config.env.name == "pettingzoo"
    assert not PettingZooSource.takes(print)
    assert not PettingZooSource.takes(quick)


def test_the_advice_for_a_function_that_says_nothing_trains(quick):
    from pettingzoo import ParallelEnv
    from pettingzoo.classic import rps_v2

    with pytest.raises(ConfigError, match=r"several agents\n.*annotate .*: def make\(\) -> pettingzoo.ParallelEnv"):
        quick(lambda: rps_v2.parallel_env()).train()

    def make() -> ParallelEnv:
        return rps_v2.parallel_env()

    quick(make).train()
