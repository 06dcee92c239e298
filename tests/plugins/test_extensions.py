"""What the core finds of other distributions by entry point: of each there may be one."""

import dataclasses

import pytest

from maze_core.base.errors import PluginError
from maze_core.plugins import discovery
from maze_core.plugins.extensions import installed


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("maze.repeated_steps", "steps"),
        ("maze.planning", "run"),
        ("maze.interfaces", "converted"),
        ("maze.learners", "processes"),
        ("maze.normalizers", "observations"),
        ("maze.parameters", "setter"),
        ("maze.recordings", "rollout"),
        ("maze.video", "film"),
        ("maze.pictures", "network"),
    ],
)
def test_two_distributions_cannot_have_the_same(monkeypatch, group, name):
    assert installed(group, name) is not None
    everything = [*discovery.declared()]
    (first,) = [each for each in everything if (each.kind, each.name) == (group, name)]
    second = dataclasses.replace(first, distribution="maze-other", version="1.0")
    monkeypatch.setattr(discovery, "declared", lambda: [*everything, second])
    with pytest.raises(PluginError) as clash:
        installed(group, name)
    owners = " and ".join(sorted([first.origin, "maze-other 1.0"]))
    problem = f"{group} entry {name!r} is claimed by {owners}: uninstall one, or set MAZE_DISABLE_PLUGINS"
    assert str(clash.value) == problem
    monkeypatch.setenv("MAZE_DISABLE_PLUGINS", "maze-other")
    assert installed(group, name) is not None
