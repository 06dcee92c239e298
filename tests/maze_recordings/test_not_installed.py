"""Where the distribution is not installed, what needs it says what to install, and everything else works."""

import pytest
from maze_devkit.envs import SeededWalk

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install


@pytest.fixture
def _uninstalled(monkeypatch):
    others = tuple(each for each in discovery.declared() if each.distribution != "maze-recordings")
    monkeypatch.setattr(discovery, "declared", lambda: others)


@pytest.mark.usefixtures("_uninstalled")
def test_a_run_trains_and_is_evaluated_but_plays_no_episodes(quick):
    context = quick(SeededWalk)
    context.train()
    assert context.evaluate()["eval/episodes"] == 1
    with pytest.raises(ConfigError) as refusal:
        context.rollout(1)
    assert str(refusal.value).splitlines() == [
        "playing whole episodes needs maze-recordings, which is not installed",
        f"Next: {how_to_install('maze-recordings')}",
    ]


@pytest.mark.usefixtures("_uninstalled")
def test_demonstrations_are_refused_before_the_first_step(quick, tmp_path):
    with pytest.raises(ConfigError) as refusal:
        _ = quick(SeededWalk, "sacfd", {"algorithm.initial_demonstrations": str(tmp_path)}).run
    assert str(refusal.value).splitlines() == [
        "algorithm.initial_demonstrations: loading recorded episodes needs maze-recordings, which is not installed",
        f"Next: {how_to_install('maze-recordings')}",
    ]
