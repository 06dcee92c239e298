"""An environment with the wheels of the core and of one bundled plugin, and nothing else of Maze."""

import pytest

from tests.scaffold.clean import ROOT, CleanEnvironment, build_wheel


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """The wheels of the core and of maze-ppo."""
    folder = tmp_path_factory.mktemp("wheels")
    return [build_wheel(source, folder) for source in (ROOT, ROOT / "plugins" / "maze_ppo")]


@pytest.fixture(scope="session")
def clean(wheels, tmp_path_factory):
    """An environment in which both are installed."""
    environment = CleanEnvironment(tmp_path_factory.mktemp("clean"))
    environment.install(*wheels)
    return environment
