"""Whoever asks for a plugin that is published with the core, and is not installed, is told what to install."""

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from maze_core.base.bundled import _PUBLISHED, packages, publisher
from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins import discovery

PLUGINS = Path(__file__).parents[1] / "plugins"


def test_the_table_holds_what_the_distributions_say():
    kinds = {group: kind for kind, group in discovery.KINDS.items()}
    declared = {}
    for path in PLUGINS.glob("*/pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for group, names in project["entry-points"].items():
            declared |= {(kinds[group], name): project["name"] for name in names if group in kinds}
    assert len(declared) > 30
    assert declared == {each: publisher(*each) for each in declared}
    told = {(kind, name) for each in _PUBLISHED.values() for kind, names in each.items() for name in names.split()}
    assert told == set(declared)


def test_errors_in_any_published_package_are_not_blamed_on_strangers():
    assert packages() == {"maze_core", *(path.parent.name for path in PLUGINS.glob("*/pyproject.toml"))}


@pytest.fixture
def nothing_but_the_core(monkeypatch):
    core = tuple(each for each in discovery.declared() if each.distribution == discovery.CORE)
    monkeypatch.setattr(discovery, "declared", lambda: core)


@pytest.mark.parametrize(
    ("kind", "name", "distribution"),
    [
        ("algorithm", "rllib-ppo", "maze-rllib"),
        ("algorithm", "PPO", "maze-ppo"),
        ("runner", "ray", "maze-ray"),
        ("wrapper", "stack", "maze-wrappers"),
        ("searcher", "optuna", "maze-optuna"),
    ],
)
def test_what_is_missing_is_named(nothing_but_the_core, kind, name, distribution):
    with pytest.raises(ConfigError, match=f"unknown {kind} {name!r}") as caught:
        discovery.load(kind, name)
    assert f"pip install {distribution}" in str(caught.value)
    assert "Did you mean" not in str(caught.value)


def test_from_the_command_line(nothing_but_the_core):
    for command in (["train", "rllib-ppo", "--env", "CartPole-v1"], ["plugins", "info", "rllib-ppo"]):
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2
        assert "It comes with maze-rllib, which is not installed. Next: pip install maze-rllib" in result.stderr


def test_a_name_of_another_kind_and_one_of_nobody_are_only_unknown(nothing_but_the_core):
    for kind, name in [("runner", "ppo"), ("algorithm", "ppu"), ("model", "stack")]:
        with pytest.raises(ConfigError) as caught:
            discovery.load(kind, name)
        assert "pip install" not in str(caught.value)


def test_of_an_installed_distribution_nobody_says_that_it_is_missing(monkeypatch):
    """As with a version of it that does not have the name yet."""
    monkeypatch.setattr(discovery, "publisher", lambda kind, name: "maze-ppo")
    with pytest.raises(ConfigError) as caught:
        discovery.load("algorithm", "ppo2")
    assert "pip install" not in str(caught.value)
    assert "Did you mean appo or ppo or trpo?" in str(caught.value)
