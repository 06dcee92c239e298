"""Lines of trials, and the preset that a sweep writes."""

from __future__ import annotations

from itertools import pairwise

import pytest
import yaml
from maze_sweep.lines import BEST, best_line, line_of, stretches, write_best
from maze_sweep.plan import make_plan
from maze_sweep.sweep import Sweep

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.assembly import INSTALLED, assemble
from tests.maze_sweep.fake_pool import FakePool

RAW = {
    "algorithm": "ppo", "env": "CartPole-v1", "over": {"algorithm.lr": "0.1..4"}, "overrides": {"steps": 4000},
    "searcher": {"name": "pbt", "population": 2, "quantile": 0.5, "generations": 4},
}  # fmt: skip


@pytest.fixture
def done(tmp_path, known_plugins):
    made = Sweep(make_plan(RAW), tmp_path / "s")
    made.begin()
    made.carry_out(FakePool(), lambda sweep, end: None)
    made.close()
    return made


def test_a_line_is_told_by_what_changes(done):
    last = done.trials[-1]
    line = line_of(done, last)
    assert [trial.until for trial in line] == [1000, 2000, 3000, 4000]
    parts = stretches(line)
    assert [number for part in parts for number in part.trials] == [trial.number for trial in line]
    assert all(before.point != after.point for before, after in pairwise(parts))
    assert [part.began for part in parts] == [0.0, *(part.until for part in parts[:-1])]


def test_the_best_values_are_a_preset(done, tmp_path):
    assert write_best(done, INSTALLED)
    file = done.folder / BEST
    point, end = best_line(done)[-1].point, best_line(done)[-1].until
    config = assemble("ppo", "CartPole-v1", preset=str(file))
    assert config.algorithm.lr == point["algorithm.lr"]
    assert config.steps == 4000
    assert "budget" not in config.callbacks
    best = next(trial for trial in done.trials if (trial.point, trial.until) == (point, end))
    expected = best.config.model_dump()
    expected["callbacks"].pop("budget")
    assert config.model_dump() == expected
    assert f"{end:,.0f}  algorithm.lr={point['algorithm.lr']:.6g}"[:20] in file.read_text()


@pytest.mark.parametrize("values", [
    {"wrappers": ["monitor"], "callbacks.early_stopping": None},
    {"model": {"name": "mlp", "hidden": [7, 7]}, "model.memory": "gru", "algorithm.n_optimization_epochs": 3},
    {"env.kwargs.sutton_barto_reward": True},
])  # fmt: skip
def test_all_that_the_sweep_set_is_in_it(tmp_path, known_plugins, values):
    made = Sweep(make_plan({**RAW, "overrides": {"steps": 4000, **values}}), tmp_path / "s")
    made.begin()
    made.carry_out(FakePool(), lambda sweep, end: None)
    made.close()
    write_best(made, INSTALLED)
    config = assemble("ppo", "CartPole-v1", preset=str(made.folder / BEST)).model_dump()
    expected = made.trials[best_line(made)[-1].trials[-1]].config.model_dump()
    expected["callbacks"].pop("budget")
    assert config == expected


def test_a_file_is_a_preset_where_it_fits(tmp_path, known_plugins):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"algorithm": {"name": "ppo", "lr": 0.125}}))
    assert assemble("ppo", "CartPole-v1", preset=str(file)).algorithm.lr == 0.125
    with pytest.raises(ConfigError, match=r"preset: .*mine\.yaml is for the algorithm ppo, not for a2c"):
        assemble("a2c", "CartPole-v1", preset=str(file))
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: there is no such file"):
        assemble("a2c", "CartPole-v1", preset=str(tmp_path / "nowhere.yaml"))
    file.write_text(yaml.safe_dump({"algorithm": {"name": "ppo"}, "wrappers": ["os:system"]}))
    with pytest.raises(ConfigError, match="os:system"):
        assemble("ppo", "CartPole-v1", preset=str(file))


def test_a_sweep_without_a_result_writes_none(tmp_path, known_plugins):
    made = Sweep(make_plan(RAW), tmp_path / "s")
    made.begin()
    made.close()
    assert not write_best(made, INSTALLED)
    assert not (made.folder / BEST).exists()
