"""What a saved run's file may reach: nothing but the current folder and its own, unless the caller says it again."""

import re
import shutil
from pathlib import Path
from typing import Annotated

import pytest
from typer.testing import CliRunner

from maze_core import Plugin, PluginConfig, RunContext
from maze_core.cli.main import app
from maze_core.config.outside import Outside, marked_fields
from maze_core.config.plain_yaml import read_yaml, to_yaml
from maze_core.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.configuration import load_config_to_act, load_saved_config

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


ADDRESSES = {
    "10.0.0.1:6379": False, "example.org:6379": False, "ray://10.0.0.1:10001": False, "localhost.example.org:1": False,
    "http://127.0.0.1@example.org/": False, "[2001:db8::1]:6379": False, "[": False, "": False,
    "auto": False, "local": False, "localhost:6379": True, "127.0.0.1:6379": True, "[::1]:6379": True,
    "http://localhost:8000/x": True,
}  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_of_this_machine(address):
    assert Outside.ADDRESS.is_elsewhere(address, ()) is not ADDRESSES[address]


class Robot(Plugin):
    """A callback that reaches out twice."""

    class Config(PluginConfig):
        """Where to."""

        host: Annotated[str | None, Outside.ADDRESS] = None
        """To."""
        logs: Annotated[tuple[str, ...], Outside.FOLDER] = ()
        """Into."""


def load(kind, name):
    return Robot if name == "robot" else discovery.load(kind, name)


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
        load_saved_config(config, (), load)
    told = ["runner.address=10.0.0.1:6379"]
    with pytest.raises(ConfigError, match=r"^runner\.code: .*\n.*--set 'runner.code=\[\.\./src\]'"):
        load_saved_config(config, told, load)
    told += ["runner.code=[../src]", "callbacks.robot.host=10.0.0.1:1"]
    with pytest.raises(ConfigError, match=r"^callbacks\.robot\.logs: "):
        load_saved_config(config, told, load)
    assert load_saved_config(config, [*told, "callbacks.robot=null"], load).runner.address == "10.0.0.1:6379"
    assert load_saved_config(config, (), load, agreed=read_yaml(config)).runner.address == "10.0.0.1:6379"
    assert load_saved_config(config, ["runner={name: dev}", "callbacks=null"], load).runner.name == "dev"

    found, left_out, _ = load_config_to_act(config, (), load)
    assert found.runner.name == "dev"
    assert left_out == ["runner (ray)", "wrappers.1 (record)", "callbacks.robot (robot)"]
    assert load_config_to_act(config, ["runner=ray"], load)[0].runner.address is None
    assert load_config_to_act(config, ["runner.address=10.0.0.2:1"], load)[0].runner.address == "10.0.0.2:1"
    assert load_config_to_act(config, ["runner.workers=3"], load)[0].runner.address is None
    assert load_config_to_act(config, ["callbacks.robot.logs=[a]"], load)[1] == ["runner (ray)", "wrappers.1 (record)"]


def test_a_run_without_a_seed_is_refused(run):
    raw = read_yaml(run / "config.yaml")
    for seed in ({}, {"seed": None}):
        (run / "config.yaml").write_text(to_yaml({k: v for k, v in raw.items() if k != "seed"} | seed))
        for command in ("resume", "rollout"):
            result = maze(command, run)
            assert result.exit_code == 2
            assert result.stderr.startswith("error: seed: is missing in ") or "wrappers.1.folder" in result.stderr
    assert maze("rollout", run, "--set", "seed=3", "-n", "1").exit_code == 0
