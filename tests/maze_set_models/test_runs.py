"""A run with sets, pointers and masks resumes exactly, and normalises what can be normalised."""

from maze_cutting_2d.config import CuttingConfig
from maze_cutting_2d.flat import Cutting

OVERRIDES = {"evaluation.n_episodes": 0}

MODEL = {"model.pointers": {"action": "pieces"}, "model.embedding": 8, "model.critic": "shared"}


def env():
    return Cutting(CuttingConfig(name="cutting_2d", orders=7, inventory=5, known=2))


def test_a_resumed_run_ends_where_an_unbroken_one_does(quick, whole_state, tmp_path):
    algorithm = "a2c"
    overrides = {**MODEL, "model.normalize_observations": True}
    whole = quick(env, algorithm, overrides, model="set_template")
    whole.train()
    part = quick(env, algorithm, {**overrides, "algorithm.n_epochs": 1}, model="set_template")
    part.train()
    quick(env, algorithm, overrides, model="set_template").resume(part.run_dir)
    assert whole_state(part.run_dir) == whole_state(whole.run_dir)
    assert whole.policy.normalizer.keys == ("order", "orders_left")
