"""Plugins of the current folder are not looked up; where a name is unknown for that reason, the message says so."""

import os

import pytest

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import uninstalled


@pytest.fixture
def declare(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(folder, text):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "entry_points.txt").write_text(text)

    return write


@pytest.mark.parametrize("folder", ["maze_twin.egg-info", "maze_twin-1.0.dist-info"])
def test_a_distribution_that_is_not_installed_is_named(declare, folder):
    declare(folder, "[maze.algorithms]\nanother = a:B\ntwin = maze_twin.twin:Twin\n")
    with pytest.raises(ConfigError, match=rf"(?s)unknown algorithm 'twin'.*{folder}.*pip install -e"):
        discovery.load("algorithm", "twin")
    assert not uninstalled("twi")


def test_other_folders_say_nothing(declare, tmp_path):
    declare("other.egg-info", "[console_scripts]\ntwin = a:b\n")
    declare("folder", "[maze.algorithms]\ntwin = a:b\n")
    (tmp_path / "empty.egg-info").mkdir()
    (tmp_path / "linked.egg-info").symlink_to(tmp_path / "folder")
    (tmp_path / "waiting.egg-info").mkdir()
    os.mkfifo(tmp_path / "waiting.egg-info" / "entry_points.txt")
    assert not uninstalled("twin")
