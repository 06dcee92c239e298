"""An environment with the wheels of the core and of one bundled plugin, and nothing else of Maze."""

import pytest

from tests.maze_devkit.scaffold.clean import KIT, PLUGINS, ROOT, CleanEnvironment, shared_wheels


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """The wheels of the core and of maze-ppo."""
    return shared_wheels(tmp_path_factory, ROOT, PLUGINS / "maze_ppo")


@pytest.fixture(scope="session")
def kit_wheels(tmp_path_factory):
    """The wheels of maze-devkit and of what searchers and teachers build on."""
    return shared_wheels(tmp_path_factory, *KIT)


@pytest.fixture(scope="session")
def clean(wheels, tmp_path_factory):
    """An environment in which both are installed."""
    environment = CleanEnvironment(tmp_path_factory.mktemp("clean"))
    environment.install(*wheels)
    return environment


@pytest.fixture(scope="session")
def author(wheels, kit_wheels, tmp_path_factory):
    """The environment of an author of plugins and projects."""
    environment = CleanEnvironment(tmp_path_factory.mktemp("author"))
    environment.install(*wheels, *kit_wheels)
    return environment
