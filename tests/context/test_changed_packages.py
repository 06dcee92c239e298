"""A saved run whose packages have another version by now, take other parameters, or are gone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from maze_core import ConfigError, PluginConfig, RunContext
from maze_core.plugins import discovery

SOURCE = """
import gymnasium
from maze_core import Plugin, PluginConfig, hookimpl

class HalfConfig(PluginConfig):
    factor: float = 0.5

class Half(Plugin):
    Config = HalfConfig

    @hookimpl(wrapper=True)
    def make_env(self, config, seed, index):
        env = yield
        return gymnasium.wrappers.TransformReward(env, lambda reward: reward * self.config.factor)

class Note(Plugin):
    Config = HalfConfig

    @hookimpl
    def on_epoch_end(self, run, epoch):
        pass
"""
WRITTEN = "the run was written with maze-half 1.0"
MORE = {"algorithm.n_epochs": 3}


class Other(PluginConfig):
    """Parameters of a later version."""

    name: str = "half"
    share: float = 0.5


@pytest.fixture
def package(outsider):
    return outsider("maze_half", SOURCE, {"wrapper": {"half": "Half"}, "callback": {"note": "Note"}})


@pytest.fixture
def trained(quick, package):
    context = quick("CartPole-v1", overrides={"wrappers": ["half"], "callbacks.note": {}})
    context.train(1)
    context.close()
    return context.run_dir


@pytest.fixture
def upgrade(package):
    """Install version 2.0 in the place of the package."""

    def install():
        metadata = next(Path(package.__file__).parent.glob("*.dist-info")) / "METADATA"
        metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 2.0"))

    return install


def test_another_version_is_told_since_its_numbers_may_be_others(trained, upgrade, capsys):
    for opened in (RunContext.open, RunContext.reopen):
        with opened(trained):
            assert capsys.readouterr().err == ""
    upgrade()
    for opened in (RunContext.open, RunContext.reopen):
        with opened(trained):
            assert f"note: results may differ: {WRITTEN} (here 2.0)\n" in capsys.readouterr().err


def test_parameters_that_are_gone_are_told_with_the_version_that_had_them(trained, upgrade, package, monkeypatch):
    upgrade()
    monkeypatch.setattr(package.Half, "Config", Other)
    for opened in (RunContext.open, RunContext.reopen):
        with pytest.raises(ConfigError) as caught:
            opened(trained)
        assert str(caught.value) == (
            "wrappers.0.factor: unknown key; known: name, share\n"
            f"T{WRITTEN[1:]} (here 2.0). Next: install what it was written with."
        )


def test_a_value_that_the_user_sets_is_no_matter_of_versions(trained, upgrade):
    upgrade()
    with pytest.raises(ConfigError) as caught:
        RunContext.reopen(trained, {"wrappers.0.factor": "x"})
    assert "written" not in str(caught.value)


def test_an_observer_that_takes_other_parameters_is_left_out_of_an_evaluation(trained, package, monkeypatch, capsys):
    monkeypatch.setattr(package.Note, "Config", Other)
    with RunContext.open(trained) as context:
        assert "note" not in context.config.callbacks
    assert "cannot be used here: callbacks.note (note)" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"callbacks\.note\.factor: unknown key"):
        RunContext.reopen(trained, MORE)


def test_of_a_package_that_is_gone_the_name_is_told_with_every_plugin(trained, package, monkeypatch):
    here = [each for each in discovery.declarations() if each.distribution != "maze-half"]
    monkeypatch.setattr(discovery, "declarations", lambda: here)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(Path(package.__file__).parent)])
    with pytest.raises(ConfigError) as caught:
        RunContext.reopen(trained, MORE)
    first, second, last = str(caught.value).splitlines()
    assert first.startswith("wrappers.0.name: unknown wrapper 'half'")
    assert second.startswith("callbacks.note.name: unknown callback 'note'")
    assert last == f"T{WRITTEN[1:]} (not installed here). Next: install what it was written with."
