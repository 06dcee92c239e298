"""The heuristic: the smallest piece that fits, the largest remainder, and better than chance."""

import json

import numpy as np
import pytest
from gymnasium import spaces
from maze_cutting_2d.best_fit import BestFit, best_fit
from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.flat import Cutting
from maze_cutting_2d.geometry import WAYS, cut
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app


def by_hand(shop):
    """The same rule from whole numbers and real cuts."""
    options = []
    for slot, piece in enumerate(shop.pieces):
        for number, way in enumerate(WAYS):
            if shop.fits(slot, way):
                left = cut(piece, shop.orders[0], way).remainders
                largest = max((each.size.area for each in left), default=0)
                options.append((slot == 0, piece.size.area, -largest, 4 * slot + number))
    return min(options)[-1]


@pytest.mark.parametrize("instances", ["static", "random"])
def test_it_follows_its_rule(instances):
    env = Cutting(CuttingConfig(name="cutting_2d", instances=instances))
    observation, _ = env.reset(seed=2)
    over = False
    while not over:
        action = best_fit(observation["pieces"], observation["pieces_present"], observation["order"])
        assert action == by_hand(env.episode.shop)
        observation, _, over, *_ = env.step(action)


def rolled_out(policy, *options):
    command = ["rollout", "--policy", policy, "--env-source", "cutting_2d", "--episodes", "6", "--seed", "1", "--json"]
    result = CliRunner().invoke(app, [*command, "--workers", "1", *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["return_mean"]


def test_it_beats_chance_in_both_forms():
    masked, flat = rolled_out("cutting_best_fit"), rolled_out("cutting_best_fit", "--set", "env.form=flat")
    assert masked == flat
    assert masked > rolled_out("random") + 1
    assert rolled_out("random") > rolled_out("random", "--set", "env.form=flat") + 10


def test_other_environments_are_refused():
    with pytest.raises(ConfigError, match="does not support"):
        BestFit(None).setup(spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(200))
    env = Cutting(CuttingConfig(name="cutting_2d"))
    with pytest.raises(ConfigError, match="in its forms flat and masked"):
        BestFit(None).setup(env.observation_space, spaces.Discrete(50))
