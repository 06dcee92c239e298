"""A package of distributions that an outsider has published, in a folder of its own."""

import sys
from pathlib import Path

import pytest

from maze_core.plugins import discovery

NAMES = {
    "mixture": "MixtureFamily",
    "truncated_logistic": "TruncatedLogisticFamily",
    "epsilon_softmax": "EpsilonSoftmaxFamily",
}
METADATA = "Metadata-Version: 2.1\nName: maze-outside\nVersion: 1.0\nRequires-Dist: maze-core>=0.1,<0.2\n"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder with the package `maze_outside`."""
    site = tmp_path_factory.mktemp("site")
    source = Path(__file__).with_name("outsider.py").read_text(encoding="utf-8")
    (site / "maze_outside.py").write_text(f"{source}", encoding="utf-8")
    info = site / "maze_outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    lines = [f"{name} = maze_outside:{cls}" for name, cls in NAMES.items()]
    (info / "entry_points.txt").write_text("\n".join(["[maze.distributions]", *lines, ""]))
    return site


@pytest.fixture
def outside(site, monkeypatch, known_plugins):
    """The package is installed."""
    monkeypatch.undo()
    monkeypatch.syspath_prepend(site)
    found = discovery.declarations()
    monkeypatch.setattr(discovery, "declarations", lambda: found)
    yield
    sys.modules.pop("maze_outside", None)
