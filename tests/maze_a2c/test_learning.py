"""A2C learns, with what a newcomer types."""

import pytest

from maze_core.plugins.config.assembly import assemble
from maze_core.run import api


@pytest.mark.learning
@pytest.mark.slow
def test_cartpole_gets_better_with_its_preset(tmp_path):
    """A fifth of the preset's steps: an untrained policy reaches about 20, a solved one 500."""
    config = assemble("a2c", "CartPole-v1", flags={"seed": 3, "steps": 100_000, "callbacks.console": None})
    summary = api.train(config, tmp_path / "run")
    assert summary.final_evaluation["eval/return_mean"] >= 120
