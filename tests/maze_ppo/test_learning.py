"""PPO learns, with what a newcomer types."""

import pytest

from maze_core.plugins.config.assembly import assemble
from maze_core.run import api


@pytest.mark.learning
@pytest.mark.slow
def test_cartpole_is_solved_with_its_preset(tmp_path):
    config = assemble("ppo", "CartPole-v1", flags={"seed": 3, "callbacks.console": None})
    assert config.steps == 100_000
    summary = api.train(config, tmp_path / "run")
    assert summary.final_evaluation["eval/return_mean"] >= 475
