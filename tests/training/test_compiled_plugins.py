"""Compiled steps of algorithms that other files examine: each ends where the code itself does."""

import pytest
import torch

from tests.agents import TeamSource
from tests.interpreted import interpreted as interpreted
from tests.maze_imitation.test_imitation import imitation
from tests.maze_impala.conftest import SMALL as ACTORS
from tests.maze_marl.test_marl import SMALL as TEAM
from tests.maze_safety.hazards import Hazards
from tests.maze_search.games import NimSource
from tests.maze_search.test_alphazero import SMALL as SEARCH
from tests.recorded import BOX, OBSERVATION
from tests.recorded import record as record

OVERRIDES = {"evaluation.n_episodes": 0}

PASSES = {"algorithm.num_envs": 3, "algorithm.batch_size": 8, "algorithm.n_optimization_epochs": 2}
RUNS = {
    "pqn": ("CartPole-v1", PASSES),
    "ppo": (Hazards, {**PASSES, "constraints.cost.at_most": 1.0}),
    "alphazero": (NimSource, SEARCH),
    "qmix": (TeamSource, TEAM),
    "appo": ("CartPole-v1", {**ACTORS, "algorithm.critic_burn_in_epochs": 1}),
    "pg": ("CartPole-v1", {"algorithm.num_envs": 3}),
}


@pytest.mark.parametrize("algorithm", RUNS)
def test_a_run_is_that_of_the_code(interpreted, quick, algorithm, capfd):
    env, settings = RUNS[algorithm]
    plain, ours = (quick(env, algorithm, {**settings, "compile": setting}) for setting in ("off", "on"))
    check(plain, ours, capfd)


def test_imitation_is_that_of_the_code(interpreted, quick, record, capfd):
    demonstrations = record(OBSERVATION, BOX)
    check(*(imitation(quick, demonstrations, more={"compile": setting}) for setting in ("off", "on")), capfd)


def check(plain, ours, capfd):
    for context in (plain, ours):
        context.train()
    said = capfd.readouterr().err
    assert "are compiled from step 1 on" in said
    assert "the run goes on" not in said
    for mine, theirs in zip(ours.policy.parameters(), plain.policy.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)
