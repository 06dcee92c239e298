"""Where the distribution is not installed, what needs it says what to install, and everything else works."""

import numpy as np
import pytest

from maze_core.base.errors import ConfigError
from maze_core.base.seeding import EpisodePlan, EpisodeSeeds, Purpose
from maze_core.envs.serial import SerialVectorEnv
from maze_core.envs.spaces import allocate, space_specs
from maze_core.plugins import discovery
from maze_core.plugins.how_to_install import how_to_install
from tests.corridors import Corridor


@pytest.mark.parametrize("planned", [True, False])
def test_parameters_of_episodes_name_the_distribution_that_sets_them(monkeypatch, planned):
    others = tuple(each for each in discovery.declared() if each.distribution != "maze-environments")
    monkeypatch.setattr(discovery, "declared", lambda: others)
    env = SerialVectorEnv(lambda _: Corridor(), 1)
    obs = allocate(space_specs(env.observation_space, "observation"), (1,))
    plan = EpisodePlan(({"size": 5},), 1) if planned else None
    seeds = EpisodeSeeds(1, Purpose.TRAIN_EPISODES, plan=plan)
    if not planned:
        env.reset(seeds, obs)
        np.testing.assert_array_equal(obs["observation"], [[0, 3, 0, 0]])
        return
    with pytest.raises(ConfigError) as refusal:
        env.reset(seeds, obs)
    assert str(refusal.value).splitlines() == [
        "env: an environment whose parameters change needs maze-environments, which is not installed",
        f"Next: {how_to_install('maze-environments')}",
    ]
