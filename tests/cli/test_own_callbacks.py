"""Callbacks that the user names as `module:Class`: run where the command line says so, never because a file does."""

import sys

import pytest
import yaml
from typer.testing import CliRunner

from maze_core import ConfigError, RunContext
from maze_core.cli.main import app

SOURCE = '''
from maze_core import ActingPolicy, Plugin, PluginConfig, hookimpl


class AlertConfig(PluginConfig):
    limit: int = 5
    """Epochs."""


class Alert(Plugin):
    """Ends a run."""

    Config = AlertConfig

    @hookimpl
    def on_epoch_end(self, run, epoch):
        if run.epoch >= self.config.limit:
            run.stop("enough")


class Plain:
    pass


class Acts(ActingPolicy):
    """Acts."""
'''
CALLED = ["--callback", "its_rules:Alert", "--set", "callbacks.Alert.limit=1"]


@pytest.fixture
def maze(tmp_path, monkeypatch, known_plugins):
    """`maze(*words)`: a command in a folder with `its_rules.py`; its result."""
    (tmp_path / "its_rules.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "its_rules", raising=False)
    yield lambda *words: CliRunner().invoke(app, [*map(str, words)])
    sys.modules.pop("its_rules", None)


@pytest.fixture
def train(maze):
    quick = "--env CartPole-v1 --preset none --epoch-length 2 --n-rollout-steps 8 --epochs 3 --seed 1 --run-dir run"
    sets = ("--set", "callbacks.tensorboard=null", "--set", "evaluation.n_episodes=1")
    return lambda *words: maze("train", "a2c", *quick.split(), *sets, *words)


def test_it_takes_part_with_its_parameters_and_only_where_it_is_named(train, maze, tmp_path):
    done = train(*CALLED)
    assert done.exit_code == 0, done.output
    assert "stopped  enough" in done.output
    saved = yaml.safe_load((tmp_path / "run/config.yaml").read_text())["callbacks"]["Alert"]
    assert saved == {"name": "its_rules:Alert", "limit": 1}
    assert maze("eval", "run").exit_code == 0
    for command in ("resume", "fork"):
        refused = maze(command, "run", "--set", "callbacks.Alert.limit=2")
        assert refused.exit_code == 2
        assert "run/config.yaml would import and run the class 'its_rules:Alert'" in refused.output
        assert "--set callbacks.Alert.name=its_rules:Alert" in refused.output
    again = maze("resume", "run", "--set", "callbacks.Alert.name=its_rules:Alert", "--set", "callbacks.Alert.limit=2")
    assert again.exit_code == 0, again.output
    without = maze("fork", "run", "--set", "callbacks.Alert=null")
    assert without.exit_code == 0, without.output
    assert "all 3 epochs are done" in without.output
    assert "Alert" not in (tmp_path / "run-fork/config.yaml").read_text()


def test_a_file_names_none(train, maze, tmp_path):
    for content in ({"Alert": {"name": "its_rules:Alert"}}, {"its_rules:Alert": {}}):
        (tmp_path / "x.yaml").write_text(yaml.safe_dump({"callbacks": content}))
        refused = train("--config", "x.yaml")
        assert refused.exit_code == 2, refused.output
        assert "its_rules" not in sys.modules
    (tmp_path / "x.yaml").write_text(yaml.safe_dump({"callbacks": {"Alert": {"name": "its_rules:Alert"}}}))
    assert train("--config", "x.yaml", *CALLED).exit_code == 0


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("its_rules:Alrt", "has no 'Alrt'"),
        ("its_rules:Plain", "does not derive|derives from maze_core.Plugin"),
        ("its_rules:Acts", "callback"),
        ("other_rules:Alert", "cannot be imported"),
        ("alert", "A class of your own: --callback module:Class"),
    ],
)
def test_what_is_none_is_refused(train, tmp_path, named, words):
    refused = train("--callback", named)
    assert refused.exit_code == 2
    assert any(each in refused.output for each in words.split("|"))
    assert not (tmp_path / "run").exists()


def test_two_of_one_name_and_plugins(train):
    assert "would have the name Alert" in train("--callback", "a:Alert", "--callback", "b:Alert").output
    done = train(*CALLED, "--callback", "best_checkpoint", "--set", "callbacks.second.name=its_rules:Alert")
    assert done.exit_code == 0, done.output


def test_python_names_it_as_well(maze):
    values = {"callbacks.Alert.name": "its_rules:Alert", "callbacks.Alert.limit": 2, "callbacks.tensorboard": None}
    values |= {"algorithm.n_rollout_steps": 8, "algorithm.epoch_length": 2, "evaluation.n_episodes": 1}
    with RunContext("CartPole-v1", "a2c", preset="none", epochs=3, overrides=values, silent=True) as context:
        assert context.train().epochs == 2
    with pytest.raises(ConfigError, match="needs your permission"):
        RunContext.reopen(context.run_dir)
