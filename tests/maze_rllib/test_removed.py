"""Algorithms that RLlib gave up are answered with where to go."""

import subprocess
import sys

import pytest

pytest.importorskip("maze_rllib")

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("rllib-a2c", "maze train a2c"),
        ("rllib-a3c", "maze train a2c"),
        ("rllib-ddpg", "maze train ddpg"),
        ("rllib-td3", "maze train td3"),
        ("rllib-apex", "maze train apex"),
        ("rllib-pg", "maze train pg"),
        ("rllib-maml", "maze train maml"),
    ],
)
def test_a_removed_algorithm_is_answered_with_where_to_go(name, instead):
    with pytest.raises(ConfigError, match=f"unknown algorithm {name!r}") as caught:
        discovery.load("algorithm", name)
    assert instead in str(caught.value)
    assert "RLlib removed" in str(caught.value)


def test_what_an_answer_names_is_there():
    known = discovery.names("algorithm")
    assert {"a2c", "apex", "ddpg", "impala", "maml", "pg", "td3"} <= set(known)


def test_a_trained_policy_opens_without_ray(tmp_path):
    code = """
import sys
from maze_core.plugins.config.assembly import assemble
from maze_core.run.building import build
from maze_core.run.run import Run

sys.modules["ray"] = None  # as if it were not installed
run = Run(assemble("rllib-ppo", "CartPole-v1", overrides=["seed=1"]))
run.build_policy()
run.close()
try:
    build(run)
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ConfigError algorithm.name: RLlib runs on Ray" in done.stdout
    assert "make setup-ray" in done.stdout
