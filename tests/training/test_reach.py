"""What a saved run's file may reach: nothing but the current folder and its own, unless the caller says it again."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, Field
from typer.testing import CliRunner

from maze_core import Plugin, PluginConfig, RunContext
from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import INSTALLED, Assembly, assemble
from maze_core.plugins.config.external_fields import Outside, marked_fields
from maze_core.plugins.config.permissions import Permissions
from maze_core.plugins.config.plain_yaml import read_yaml, to_yaml
from maze_core.plugins.config.raw import parse_assignment

pytestmark = pytest.mark.usefixtures("known_plugins")
SMALL = {
    "algorithm.n_epochs": 1,
    "algorithm.epoch_length": 1,
    "algorithm.n_rollout_steps": 12,
    "callbacks.console": None,
}
SMALL |= {"evaluation.n_episodes": 1, "algorithm.num_envs": 2, "callbacks.tensorboard": None}
MORE = ("--set", "algorithm.n_epochs=2")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    wrappers = ["time_limit", "record"]
    overrides = SMALL | {"wrappers.0.steps": 5, "wrappers.1.folder": str(folder.parent / "first")}
    with RunContext("CartPole-v1", "ppo", wrappers=wrappers, run_dir=folder, seed=1, overrides=overrides) as context:
        context.train()
    return folder


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    """A copy in an own folder below the current one."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return shutil.copytree(trained, here / "run")


def change(run, **parts):
    raw = read_yaml(run / "config.yaml")
    raw["wrappers"][1] = {"name": "record", **parts.pop("record", {})}
    (run / "config.yaml").write_text(to_yaml(raw | parts))


def maze(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def entries(folder):
    return sorted(path.name for path in folder.iterdir())


FAR = ["/tmp/never-written-by-maze", "../out", "run/../../out", "out/../../out", "run/link", "~root/../../../../x"]


@pytest.mark.parametrize("folder", FAR[:5])
def test_a_folder_elsewhere_is_refused_where_a_run_goes_on(run, tmp_path, folder):
    (run / "link").symlink_to(tmp_path)
    change(run, record={"folder": folder})
    before = entries(tmp_path)
    result = maze("resume", run, *MORE)
    assert result.exit_code == 2
    assert re.fullmatch(
        r"error: wrappers\.1\.folder: .* would write to .*\n.* --set wrappers\.1\.folder=.*\n", result.stderr
    )
    assert entries(tmp_path) == before
    assert not Path(folder).exists() or folder == "run/link"


@pytest.mark.parametrize("folder", ["seen", "./a/../seen", "run/seen"])
def test_a_folder_here_or_in_the_run_needs_no_word(run, folder):
    change(run, record={"folder": folder})
    assert maze("resume", run, *MORE).exit_code == 0
    assert entries(Path(folder))


def test_the_command_line_may_say_it_again(run, tmp_path):
    change(run, record={"folder": "../out"})
    assert maze("resume", run, *MORE, "--set", "wrappers.1.folder=../out").exit_code == 0
    assert entries(tmp_path / "out")
    assert maze("eval", run, "--set", "wrappers.1.folder=../evaluated").exit_code == 0
    assert entries(tmp_path / "evaluated")
    with RunContext.open(run, overrides={"wrappers.1.folder": "../opened"}) as context:
        assert len(context.config.wrappers) == 2


def test_or_take_the_wrapper_away(run, tmp_path):
    change(run, record={"folder": "../out"})
    assert maze("resume", run, *MORE, "--set", "wrappers=[{name: time_limit, steps: 5}]").exit_code == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("record", [{"folder": "/tmp/never-written-by-maze"}, {"folder": "seen"}, {}])
def test_evaluation_writes_nothing(run, record):
    """Nor does a rollout, but where it is told to; what it plays is the same."""
    change(run, record=record)
    before = entries(Path())
    for command in (["eval", run, "--seed", "1"], ["rollout", run, "-n", "2", "--seed", "1"]):
        result = maze(*command)
        assert result.exit_code == 0
        assert (
            result.stderr == "note: not used, because they write or connect outside of the run: wrappers.1 (record)\n"
        )
        assert "5" in result.stdout  # the limit of the wrapper beside it holds
    with RunContext.open(run) as context:
        assert [each.name for each in context.config.wrappers] == ["time_limit"]
    assert entries(Path()) == before
    assert not Path("/tmp/never-written-by-maze").exists()


def test_a_run_that_starts_from_another_takes_no_folder_over(run, tmp_path):
    change(run, record={"folder": "../out"})
    arguments = ["train", "ppo", "--init-from", run, "--run-dir", "new", "--steps", "8", "-q"]
    result = maze(*arguments)
    assert result.exit_code == 2
    assert "--set wrappers.1.folder=../out" in result.stderr
    assert not (tmp_path / "out").exists()
    assert maze(*arguments, "--set", "wrappers.1.folder=mine", "--set", "evaluation.n_episodes=1").exit_code == 0


class Robot(Plugin):
    """A callback that reaches out twice."""

    class Config(PluginConfig):
        """Where to."""

        host: Annotated[str | None, Outside.ADDRESS] = None
        """To."""
        logs: Annotated[tuple[str, ...], Outside.FOLDER] = ()
        """Into."""


class Remote(Plugin):
    """A policy plugin that asks a server."""

    class Config(PluginConfig):
        """Which."""

        server: Annotated[str, Outside.ADDRESS] = "localhost:1"
        """Where the actions come from."""


def load(kind, name):
    return {"robot": Robot, "remote": Remote}.get(name) or discovery.load(kind, name)


ASSEMBLY = Assembly(load)


# callback, what it sets, what needs permission
CALLBACKS = [
    ("mlflow", {"tracking_uri": "http://10.0.0.1:5000"}, ["tracking_uri=http://10.0.0.1:5000"]),
    ("mlflow", {"tracking_uri": "sqlite:////tmp/theirs.db"}, ["tracking_uri=sqlite:////tmp/theirs.db"]),
    ("mlflow", {"tracking_uri": "databricks"}, ["tracking_uri=databricks"]),
    ("mlflow", {"tracking_uri": "http://127.0.0.1:5000"}, []),
    ("mlflow", {"tracking_uri": "sqlite:///runs.db"}, []),
    ("mlflow", {}, []),
    ("wandb", {"mode": "online"}, ["mode=online"]),
    ("wandb", {"mode": "online", "entity": "theirs"}, ["mode=online", "entity=theirs"]),
    ("wandb", {"entity": "theirs"}, ["entity=theirs"]),
    ("wandb", {"mode": "offline", "project": "any"}, []),
    ("mirror", {"to": "s3://auto/run"}, ["to=s3://auto/run"]),
    ("mirror", {"to": "memory://localhost/run"}, ["to=memory://localhost/run"]),
    ("mirror", {"to": "file:///tmp/run"}, ["to=file:///tmp/run"]),
]


def told(key, settings):
    return [f"callbacks.{key}.{setting}" for setting in settings]


@pytest.mark.parametrize(("name", "values", "asked"), CALLBACKS, ids=lambda case: str(case)[:40])
@pytest.mark.parametrize("key", ["own", ""])
def test_what_a_strangers_callback_may_reach(run, name, values, asked, key):
    pytest.importorskip(f"maze_{name}")
    part = {"name": name, **values} if key else values
    change(run, callbacks={key or name: part})
    config = run / "config.yaml"
    if asked:
        with pytest.raises(ConfigError, match="needs your permission") as caught:
            INSTALLED.load_saved_config(config)
        options = " ".join(f"--set {each}" for each in told(key or name, asked))
        assert str(caught.value).endswith(options)
        assert INSTALLED.load_config_to_act(config)[1][-1] == f"callbacks.{key or name} ({name})"
    loaded = INSTALLED.load_saved_config(config, told(key or name, asked)).callbacks[key or name]
    assert all(getattr(loaded, field) == value for field, value in values.items())


@pytest.mark.parametrize(("name", "values", "asked"), CALLBACKS, ids=lambda case: str(case)[:40])
def test_what_a_preset_that_applies_by_itself_may_reach(tmp_path, monkeypatch, name, values, asked):
    """The same; a file that the command names is permission, and so is the value on the command line."""
    pytest.importorskip(f"maze_{name}")
    monkeypatch.chdir(tmp_path)
    preset = tmp_path / "presets" / "ppo" / "CartPole-v1.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text(to_yaml({"callbacks": {name: values}}))
    if asked:
        with pytest.raises(ConfigError, match="needs your permission") as caught:
            assemble("ppo", "CartPole-v1")
        assert all(f"--set {each}" in str(caught.value) for each in told(name, asked))
        assert name in assemble("ppo", "CartPole-v1", overrides=told(name, asked)).callbacks
        assert name not in assemble("ppo", "CartPole-v1", "none").callbacks
        assert name not in assemble("ppo", "CartPole-v1", overrides=[f"callbacks.{name}=null"]).callbacks
    else:
        assert name in assemble("ppo", "CartPole-v1").callbacks
    for preset_name in ("none", "auto"):
        assert name in assemble("ppo", "CartPole-v1", preset_name, files=[preset]).callbacks


# algorithm, what a preset sets, what the command says besides, what needs permission
COMBINED = [
    ("ppo", {"env": {"kwargs": {"a": "/tmp/x"}}}, {}, "env.kwargs.a"),
    ("ppo", {"env": {"kwargs": {"a": {"http://10.0.0.1": 1}}}}, {"env": {"name": "gymnasium"}}, "env.kwargs.a"),
    (
        "rllib-ppo",
        {"algorithm": {"rllib_model": True, "model_config": {"file": "/tmp/x"}}},
        {},
        "algorithm.model_config.file",
    ),
    ("ppo", {"callbacks": {"own": {"to": "s3://auto/x"}}}, {"callbacks.own.name": "mirror"}, "callbacks.own.to"),
    ("ppo", {"runner": {"name": "ray", "address": "10.0.0.1:1"}}, {"runner": {"name": "ray"}}, "runner.address"),
    ("ppo", {"wrappers": [{"name": "stack", "folder": "../x"}]}, {"wrappers.0.name": "record"}, "wrappers.0.folder"),
]


@pytest.mark.parametrize(("algorithm", "content", "said", "where"), COMBINED, ids=lambda case: str(case)[:40])
def test_a_value_counts_for_the_plugin_that_is_named_elsewhere(tmp_path, monkeypatch, algorithm, content, said, where):
    monkeypatch.chdir(tmp_path)
    preset = tmp_path / "presets" / algorithm / "CartPole-v1.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text(to_yaml(content))
    with pytest.raises(ConfigError, match=f"^{re.escape(where)}: presets/.*needs your permission") as caught:
        assemble(algorithm, "CartPole-v1", flags=said)
    [repeated] = shlex.split(str(caught.value).partition("--set ")[2])
    where_and_value = {where: parse_assignment(repeated)[1]}
    for way_out in ({"preset": "CartPole-v1", "flags": said}, {"flags": said | where_and_value}):
        assert where.split(".")[-1] in str(assemble(algorithm, "CartPole-v1", **way_out))


def test_a_runner_that_the_file_does_not_name(run):
    """Its address would be used with the runner of the command line."""
    change(run, runner={"address": "10.0.0.1:1"})
    with pytest.raises(ConfigError, match=r"--set runner\.address=10\.0\.0\.1:1"):
        INSTALLED.load_saved_config(run / "config.yaml", ["runner.name=ray"])
    assert INSTALLED.load_config_to_act(run / "config.yaml", ["runner.name=ray"])[0].runner.address is None


NESTED = [
    ({"algorithm": {"name": "sac", "initial_sampling_policy": {"name": "remote", "server": "10.0.0.1:1"}}},
     "algorithm.initial_sampling_policy.server=10.0.0.1:1"),
    ({"wrappers": [{"name": "normalize_observations", "policy": {"name": "remote", "server": "evil.example:1"}}]},
     "wrappers.0.policy.server=evil.example:1"),
    ({"env": {"name": "gymnasium", "id": "CartPole-v1", "kwargs": {"a": {"log": "../x"}}}}, "env.kwargs.a.log=../x"),
    ({"env": {"name": "gymnasium", "id": "CartPole-v1", "kwargs": {"server": "http://10.0.0.1/"}}},
     "env.kwargs.server=http://10.0.0.1/"),
    ({"env": {"name": "gymnasium", "id": "CartPole-v1", "kwargs": {"a": {"/etc/x": 1}}}},
     'env.kwargs.a={"/etc/x": 1}'),
    ({"wrappers": [{"name": "gymnasium", "id": "gymnasium.wrappers:RecordVideo", "kwargs": {"folder": "/tmp/x"}}]},
     "wrappers.0.kwargs.folder=/tmp/x"),
    ({"callbacks": {"robot": {"host": None, "logs": {"a": ["../x"]}}}}, "callbacks.robot.logs={\"a\": [\"../x\"]}"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "setting"), NESTED, ids=lambda case: str(case)[:50])
def test_values_within_others(parts, setting):
    where = setting.partition("=")[0]
    permissions, file = Permissions(load), Path("run/config.yaml")
    [found] = permissions.elsewhere(parts, file)
    assert found.where == where
    assert f"{where}={found.text}" == setting
    for read in (permissions.assigned, lambda *arguments: permissions.for_evaluation(*arguments)[0]):
        if where.startswith("callbacks") and read != permissions.assigned:
            continue  # evaluation does without it
        with pytest.raises(ConfigError, match=f"^{re.escape(where)}: .*needs your permission"):
            read(parts, [], file)
        again = read(parts, [parse_assignment(setting)], file)
        assert permissions.elsewhere(again, file) == [found]


def test_a_program_says_it_again_in_its_own_configuration(run):
    change(run, env={"name": "gymnasium", "id": "CartPole-v1", "kwargs": {"render_mode": "/tmp/x"}})
    with pytest.raises(ConfigError, match=r"render_mode: .*config\.yaml would pass on '/tmp/x'"):
        RunContext("CartPole-v1", "ppo", preset="none").load(run)
    theirs = RunContext("CartPole-v1", "ppo", preset="none", overrides={"env.kwargs.render_mode": "/tmp/x"})
    config = INSTALLED.load_config_to_act(run / "config.yaml", agreed=theirs.config.model_dump(mode="json"))[0]
    assert config.env.kwargs == {"render_mode": "/tmp/x"}


def test_profiling_a_strangers_run_asks_too(run, tmp_path):
    pytest.importorskip("maze_profile")
    change(run, record={"folder": "../out"})
    result = maze("profile", run, "--seconds", "1")
    assert result.exit_code == 2
    assert "--set wrappers.1.folder=../out" in result.stderr
    assert not (tmp_path / "out").exists()


FAR_AWAY = {"wrappers": [{"name": "record", "folder": "../out"}]}


def test_a_sweep_of_a_stranger_asks_too(run, tmp_path):
    check_reaches = pytest.importorskip("maze_sweep.plan").check_reaches
    Path("sweep").mkdir()
    Path("presets").mkdir()
    Path("presets/theirs.yaml").write_text(to_yaml({"algorithm": "ppo", **FAR_AWAY}))
    over = {"algorithm.lr": [1e-3, 1e-4]}
    plans = [
        {"config": FAR_AWAY}, {"overrides": {"wrappers": [{"name": "record"}], "wrappers.0.folder": "../out"}},
        {"config": {"wrappers": ["record"]}, "over": {"wrappers.0.folder": ["seen", "../out"]}},
        {"config": {"wrappers": ["record"]}, "over": {"wrappers.0.folder": "seen,../out"}},
        {"config": {"wrappers": ["stack"]},
         "over": {"wrappers.0.name": ["record", "stack"], "wrappers.0.folder": ["seen", "../out"]}},
        {"preset": "theirs"}, {"config": {"preset": "theirs"}},
    ]  # fmt: skip
    for plan in plans:
        whole = {"algorithm": "ppo", "env": "CartPole-v1", "over": over, **plan}
        with pytest.raises(ConfigError, match=r"^wrappers\.0\.folder: sweep/sweep\.yaml would write to '\.\./out'"):
            check_reaches(whole, {}, Path("sweep"))
        check_reaches(whole, whole, Path("sweep"))
        check_reaches(whole, {**whole, "seeds": 5, "metric": "eval/return_min"}, Path("sweep"))
    Path("sweep/sweep.yaml").write_text(to_yaml(whole))
    assert maze("sweep", "--dir", "sweep", "-q").exit_code == 2
    assert not (tmp_path / "out").exists()


def test_runners_and_callbacks_elsewhere(run):
    pytest.importorskip("maze_ray")
    ray = discovery.load("runner", "ray")
    assert set(marked_fields(ray.Config)) == {"address", "code"}
    away = {"name": "ray", "address": "10.0.0.1:6379", "code": ["../src"], "workers": 2}
    change(
        run, record={"folder": "seen"}, runner=away, callbacks={"robot": {"host": "10.0.0.1:1", "logs": ["a", "/b"]}}
    )
    config = run / "config.yaml"
    with pytest.raises(ConfigError, match=r"^runner\.address: .* connect to '10\.0\.0\.1:6379'"):
        ASSEMBLY.load_saved_config(config)
    told = ["runner.address=10.0.0.1:6379"]
    with pytest.raises(ConfigError, match=r"^runner\.code: ") as caught:
        ASSEMBLY.load_saved_config(config, told)
    assert str(caught.value).splitlines()[-1] == (
        "To allow it, repeat the values: --set 'runner.code=[../src]' --set callbacks.robot.host=10.0.0.1:1 "
        "--set 'callbacks.robot.logs=[a,/b]'"
    )
    told += ["runner.code=[../src]", "callbacks.robot.host=10.0.0.1:1"]
    with pytest.raises(ConfigError, match=r"^callbacks\.robot\.logs: "):
        ASSEMBLY.load_saved_config(config, told)
    assert ASSEMBLY.load_saved_config(config, [*told, "callbacks.robot=null"]).runner.address == "10.0.0.1:6379"
    assert ASSEMBLY.load_saved_config(config, agreed=read_yaml(config)).runner.address == "10.0.0.1:6379"
    assert ASSEMBLY.load_saved_config(config, ["runner={name: dev}", "callbacks=null"]).runner.name == "dev"

    found, left_out, _ = ASSEMBLY.load_config_to_act(config)
    assert found.runner.name == "dev"
    assert left_out == ["runner (ray)", "wrappers.1 (record)", "callbacks.robot (robot)"]
    assert ASSEMBLY.load_config_to_act(config, ["runner=ray"])[0].runner.address is None
    assert ASSEMBLY.load_config_to_act(config, ["runner.address=10.0.0.2:1"])[0].runner.address == "10.0.0.2:1"
    assert ASSEMBLY.load_config_to_act(config, ["runner.workers=3"])[0].runner.address is None
    assert ASSEMBLY.load_config_to_act(config, ["callbacks.robot.logs=[a]"])[1] == [
        "runner (ray)",
        "wrappers.1 (record)",
    ]


def test_a_run_without_a_seed_is_refused(run):
    raw = read_yaml(run / "config.yaml")
    for seed in ({}, {"seed": None}):
        (run / "config.yaml").write_text(to_yaml({k: v for k, v in raw.items() if k != "seed"} | seed))
        for command in ("resume", "rollout"):
            result = maze(command, run)
            assert result.exit_code == 2
            assert result.stderr.startswith("error: seed: is missing in ") or "wrappers.1.folder" in result.stderr
    assert maze("rollout", run, "--set", "seed=3", "-n", "1").exit_code == 0


class Quiet(BaseModel):
    to: Annotated[str, Outside.NOTHING] = ""


class Loud(BaseModel):
    to: Annotated[str, Outside.ADDRESS] = ""
    log: Annotated[str, Outside.FOLDER] = ""


class Whole(BaseModel):
    one: Quiet | Loud = Quiet()
    two: Annotated[Loud | Quiet, Field(union_mode="left_to_right")] | None = None
    folder: Annotated[str, Outside.FOLDER, Field(validation_alias=AliasChoices("dir", AliasPath("at", 0)))] = ""
    again: "Whole | None" = None


def test_marks_under_every_name_and_in_every_model_that_a_value_may_be():
    found = {path: mark.kind for path, mark in marked_fields(Whole).items()}
    assert found == {
        "one.to": Outside.ADDRESS,
        "one.log": Outside.FOLDER,
        "two.to": Outside.ADDRESS,
        "two.log": Outside.FOLDER,
        "folder": Outside.FOLDER,
        "dir": Outside.FOLDER,
        "at": Outside.FOLDER,
        "again": Outside.ARGUMENTS,
    }
