"""Keys of earlier versions: saved ones are read under their new names, typed ones are refused with them."""

from __future__ import annotations

import pytest

from maze_core.config.renamed import updated
from maze_core.config.sealed import sealed
from maze_core.errors import ConfigError
from maze_core.plugins.configuration import assemble, dump, load_saved_config


def test_the_number_of_environments_moved_from_the_runner_to_the_algorithm():
    old = {
        "algorithm": {"name": "a2c"},
        "runner": {"name": "local", "concurrency": 5, "workers": 2},
        "evaluation": {"concurrency": None, "n_episodes": 3},
    }
    new = updated(old)
    assert new["algorithm"] == {"name": "a2c", "num_envs": 5}
    assert new["runner"] == {"name": "local", "workers": 2}
    assert new["evaluation"] == {"n_episodes": 3, "num_envs": 5}
    assert old["runner"]["concurrency"] == 5, "the original was changed"


def test_actors_of_sac_are_its_environments_and_those_of_others_are_not():
    for name, key in (("sac", "num_envs"), ("sacfd", "num_envs"), ("impala", "num_actors")):
        new = updated({"algorithm": {"name": name, "num_actors": 3}, "runner": {"name": "dev", "concurrency": 8}})
        assert new["algorithm"] == {"name": name, key: 3}


@pytest.mark.parametrize(
    "odd", [{}, {"algorithm": "ppo"}, {"algorithm": None, "runner": []}, {"runner": {"name": "dev"}}]
)
def test_files_of_any_shape_pass_unchanged(odd):
    assert updated(odd) == odd


def test_a_run_of_an_earlier_version_opens(tmp_path):
    now = assemble("ppo", "CartPole-v1", overrides=["seed=1", "algorithm.num_envs=3"])
    text = dump(now).replace("  num_envs: 3\n", "").replace("  name: dev\n", "  name: dev\n  concurrency: 3\n")
    text = text.replace("  num_envs: 8\n", "  concurrency: null\n")
    assert text.count("concurrency") == 2
    (tmp_path / "config.yaml").write_text(sealed(text))
    loaded = load_saved_config(tmp_path / "config.yaml")
    assert loaded.algorithm == now.algorithm
    assert loaded.evaluation.num_envs == 3


@pytest.mark.parametrize(
    ("setting", "now"),
    [("runner.concurrency=4", "algorithm.num_envs"), ("evaluation.concurrency=4", "evaluation.num_envs")],
)
def test_a_typed_setting_says_its_new_name(setting, now):
    path = setting.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^{path}: is now .*{now}"):
        assemble("ppo", "CartPole-v1", overrides=[setting])
