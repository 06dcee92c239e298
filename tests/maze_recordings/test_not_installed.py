"""Where the distribution is not installed, what needs it says what to install, and everything else works."""

import pytest
from maze_devkit.envs import SeededWalk
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins import discovery


@pytest.fixture
def _uninstalled(monkeypatch):
    gone = ("maze-recordings", "maze-minari")  # the other one needs it
    others = tuple(each for each in discovery._declared() if each.distribution not in gone)
    monkeypatch.setattr(discovery, "_declared", lambda: others)


@pytest.mark.usefixtures("_uninstalled")
def test_a_run_trains_and_is_evaluated_but_plays_no_episodes(quick):
    context = quick(SeededWalk)
    context.train()
    assert context.evaluate()["eval/episodes"] == 2
    with pytest.raises(ConfigError) as refusal:
        context.rollout(1)
    assert str(refusal.value).splitlines() == [
        "playing whole episodes needs maze-recordings, which is not installed",
        "Next: pip install maze-recordings",
    ]


@pytest.mark.usefixtures("_uninstalled")
def test_demonstrations_are_refused_before_the_first_step(quick, tmp_path):
    with pytest.raises(ConfigError) as refusal:
        _ = quick(SeededWalk, "sacfd", {"algorithm.initial_demonstrations": str(tmp_path)}).run
    assert str(refusal.value).splitlines() == [
        "algorithm.initial_demonstrations: loading recorded episodes needs maze-recordings, which is not installed",
        "Next: pip install maze-recordings",
    ]


@pytest.mark.usefixtures("_uninstalled")
@pytest.mark.parametrize("command", [["rollout", "runs/first"], ["trajectories", "info", "demos"]])
def test_the_commands_are_known_by_name(command):
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert "maze-recordings, which is not installed. Next: pip install maze-recordings" in result.stderr
