"""Algorithms that RLlib gave up are answered with where to go."""

import os
import re

import pytest

pytest.importorskip("maze_rllib")

from maze_rllib.removed import REMOVED

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from tests.forked import Forked

NAMED = {name: f"rllib-{name}" for name in REMOVED}
WRITTEN = {
    **NAMED,
    "alphazero": "rllib-alpha-zero",
    "apexddpg": "rllib_apex_ddpg",
    "bandit": "rllib-bandit-neural",
    "banditlinucb": "rllib-bandit-lin-ucb",
    "dt": "RLLIB-DT",
    "leelachesszero": "RLlib-Leela_Chess_Zero",
    "qmix": "rllib_QMIX",
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_removed_algorithm_is_answered_with_what_there_is(name):
    with pytest.raises(ConfigError, match=f"unknown algorithm {WRITTEN[name]!r}") as caught:
        discovery.load("algorithm", WRITTEN[name])
    assert str(caught.value).endswith(f"RLlib removed {REMOVED[name][0]}. {REMOVED[name][1]}")


@pytest.mark.parametrize(
    "name", ["es", "ars", "qmix", "dt", "alphazero", "r2d2", "crr", "td3", "ddpg", "apex", "slateq"]
)
def test_no_former_algorithm_is_left_out(name):
    assert name in REMOVED


def test_what_an_answer_names_is_there():
    said = " ".join(text for _, text in REMOVED.values())
    names = {*re.findall(r"maze train ([\w-]+)", said), *re.findall(r"rllib-\w+", said)}
    assert names <= set(discovery.names("algorithm"))
    assert len(names) > 12


@pytest.mark.parametrize("name", ["rllib_ppo", "RLLIB-PPO", "rllib-P_P_O"])
def test_another_spelling_is_answered_with_the_name(name):
    with pytest.raises(ConfigError, match=r"Did you mean rllib-ppo\?"):
        discovery.load("algorithm", name)


@pytest.mark.parametrize("name", ["rllib", "rllib-mcts", "RLLIB_"])
def test_a_name_that_rllib_never_had_is_answered_with_its_algorithms(name):
    with pytest.raises(ConfigError, match=r"RLlib's algorithms are rllib-appo, rllib-bc, .*rllib-tqc"):
        discovery.load("algorithm", name)


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
    done = Forked([], tmp_path, os.environ, code)
    said, wrong = done.communicate(100)
    assert done.returncode == 0, wrong
    assert "ConfigError algorithm.name: RLlib runs on Ray" in said
    assert "make setup-ray" in said
