"""A distribution says where to go instead of a name that is no plugin."""

import pytest

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery

OF_THE_FIELD = (
    *("a2c", "a3c", "apex", "bc", "ddpg", "dqn", "es", "impala", "maml", "parametric-dqn"),
    *("pg", "ppo", "appo", "rainbow", "sac", "sacfd", "td3"),
    *("crossq", "redq", "droq", "tqc", "recurrentppo", "maskable-ppo", "mappo", "ippo"),
)
"""What a framework like this one is expected to have."""


@pytest.mark.parametrize("name", OF_THE_FIELD)
def test_every_name_of_the_field_trains_or_is_answered_with_the_command_that_does(name):
    if name in discovery.names("algorithm"):
        assert discovery.load("algorithm", name)
        return
    with pytest.raises(ConfigError, match=r"maze train (\w+)") as told:
        discovery.load("algorithm", name)
    command = str(told.value).partition("maze train ")[2].split()[0].rstrip(",")
    assert command in discovery.names("algorithm")


def test_a_hint_is_shown_for_its_name(installation):
    installation.add("maze-gone", source="TEXT = 'It moved: take good'\n", entry="hint:old = {module}:TEXT")
    done = installation.maze("train", "old", "--env", "CartPole-v1")
    assert done.returncode == 2
    assert "unknown algorithm 'old'" in done.stderr
    assert "It moved: take good" in done.stderr


def test_a_broken_hint_hides_nothing(installation):
    installation.add("maze-gone", source="1 / 0\n", entry="hint:old = {module}:TEXT")
    done = installation.maze("train", "old", "--env", "CartPole-v1")
    assert done.returncode == 2
    assert "unknown algorithm 'old'" in done.stderr
    assert "ZeroDivisionError" not in done.stderr


def test_a_hint_is_no_plugin(installation):
    installation.add("maze-gone", source="TEXT = ''\n", entry="hint:old = {module}:TEXT")
    assert "old" not in installation.maze("train", "--help").stdout
