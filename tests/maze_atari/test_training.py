"""The presets train, and what they train is saved, evaluated and shown."""

import pytest

from maze_core.plugins.config.assembly import assemble
from maze_core.run.context import RunContext

pytest.importorskip("ale_py", reason="the games need ale-py, which is under the GPL")

TINY = {
    "env.height": 40,
    "env.width": 40,
    "env.max_frames": 160,
    "model.image_features": 16,
    "algorithm.batch_size": 8,
    "algorithm.epoch_length": 1,
    "algorithm.n_rollout_steps": 4,
    "evaluation.n_episodes": 1,
    "callbacks.tensorboard": None,
}
DQN = {"algorithm.replay_buffer_size": 200, "algorithm.initial_buffer_size": 40}
IMPALA = {"algorithm.num_actors": 2, "algorithm.envs_per_actor": 2, "algorithm.actors_batch_size": 4}


CASES = [
    ("dqn", "Pong", DQN),
    pytest.param("impala", "Breakout", IMPALA, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("game", ["Breakout", "Pong"])
@pytest.mark.parametrize("algorithm", ["dqn", "ppo", "pqn", "impala"])
def test_a_preset_applies_by_the_games_name(algorithm, game, known_plugins):
    config = assemble(algorithm, f"ALE/{game}-v5")
    assert config.algorithm.lr in (2.5e-4, 1e-4)
    assert config.model.image_precision == "auto"
    assert config.env.life_loss


@pytest.mark.parametrize(("algorithm", "game", "more"), CASES)
def test_a_preset_trains(algorithm, game, more, tmp_path, known_plugins):
    sizes = {key: value for key, value in TINY.items() if algorithm != "impala" or key != "algorithm.batch_size"}
    sizes |= more
    with RunContext(
        {"name": "atari", "id": f"ALE/{game}-v5"},
        algorithm,
        overrides=sizes,
        preset=f"ALE-{game}-v5",
        steps=64,
        run_dir=tmp_path / "run",
        silent=True,
        seed=1,
    ) as context:
        assert context.train().outcome == "finished"
    with RunContext.open(tmp_path / "run") as opened:
        assert opened.config.env.life_loss
        assert -21 <= opened.evaluate()["eval/return_mean"] <= 21
        env = opened.make_env()
        assert env.reset(seed=0)[0].shape == (4, 40, 40)
        assert env.render().shape == (40, 40, 3)
