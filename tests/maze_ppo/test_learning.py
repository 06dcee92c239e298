"""PPO learns, with what a newcomer types."""

import pytest

from maze_core.plugins.config.assembly import assemble
from maze_core.run import api


@pytest.mark.learning
@pytest.mark.slow
def test_cartpole_is_solved_with_its_preset(tmp_path):
    """The run ends as soon as all episodes of an evaluation last to their limit."""
    flags = {"seed": 3, "callbacks.console": None, "callbacks.early_stopping.target_return": 500}
    config = assemble("ppo", "CartPole-v1", flags=flags)
    assert config.steps == 100_000
    summary = api.train(config, tmp_path / "run")
    assert summary.final_evaluation["eval/return_mean"] >= 475
