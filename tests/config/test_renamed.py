"""Keys of earlier versions: saved ones are read under their new names, typed ones are refused with them."""

from __future__ import annotations

import pytest

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.assembly import assemble, dump, load_config_to_act, load_run_config, load_saved_config
from maze_core.plugins.config.checksummed_yaml import checksummed
from maze_core.plugins.config.renamed_keys import updated


def test_the_number_of_environments_moved_from_the_runner_to_the_algorithm():
    old = {
        "algorithm": {"name": "a2c"},
        "runner": {"name": "local", "concurrency": 5, "workers": 2},
        "evaluation": {"concurrency": None, "n_episodes": 3},
    }
    new = updated(old)
    assert new["algorithm"]["num_envs"] == 5
    assert new["runner"] == {"name": "local", "workers": 2}
    assert new["evaluation"] == {"n_episodes": 3, "num_envs": 5}
    assert old["runner"]["concurrency"] == 5, "the original was changed"


def test_actors_of_sac_are_its_environments_and_those_of_others_are_not():
    for name, key in (("sac", "num_envs"), ("sacfd", "num_envs"), ("impala", "num_actors")):
        new = updated({"algorithm": {"name": name, "num_actors": 3}, "runner": {"name": "dev", "concurrency": 8}})
        assert {"num_actors", "num_envs"} & new["algorithm"].keys() == {key}
        assert new["algorithm"][key] == 3


def test_a_run_of_a2c_without_newer_parameters_does_what_it_did(tmp_path):
    then = ["seed=1", "algorithm.normalize_rewards=false", "algorithm.beta1=0.9", "algorithm.beta2=0.999"]
    config = assemble("a2c", "CartPole-v1", overrides=then)
    lines = dump(config).splitlines(keepends=True)
    text = "".join(line for line in lines if line.split(":")[0].strip() not in ("normalize_rewards", "beta1", "beta2"))
    assert len(text.splitlines()) == len(lines) - 3
    (tmp_path / "config.yaml").write_text(checksummed(text))
    assert load_saved_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    "odd", [{}, {"algorithm": "ppo"}, {"algorithm": None, "runner": []}, {"runner": {"name": "dev"}}]
)
def test_files_of_any_shape_pass_unchanged(odd):
    assert updated(odd) == odd


def test_a_run_of_an_earlier_version_opens(tmp_path):
    now = assemble("ppo", "CartPole-v1", overrides=["seed=1", "algorithm.num_envs=3"])
    text = dump(now).replace("  num_envs: 3\n", "").replace("  name: dev\n", "  name: dev\n  concurrency: 3\n")
    text = text.replace("  num_envs: 16\n", "  concurrency: null\n")
    assert text.count("concurrency") == 2
    (tmp_path / "config.yaml").write_text(checksummed(text))
    loaded = load_saved_config(tmp_path / "config.yaml")
    assert loaded.algorithm == now.algorithm
    assert loaded.evaluation.num_envs == 3


OLD = "algorithm: {name: ppo, patience: 4}\n"
NOTE = "algorithm.patience is now callbacks.early_stopping.patience"


@pytest.mark.parametrize(
    ("callbacks", "patience"),
    [("", 4), ("callbacks:\n", 4), ("callbacks: {early_stopping: {patience: 2}}\n", 2),
     ("callbacks: {early_stopping: {target_return: 1}}\n", 4), ("callbacks: {early_stopping: null}\n", None),
     ("callbacks: {jsonl: null}\nsteps: 9\n", 4)],
)  # fmt: skip
def test_patience_moved_to_early_stopping(callbacks, patience, tmp_path, capsys):
    """Also where the file says the run's end: it asks for patience too."""
    file = tmp_path / "old.yaml"
    file.write_text(OLD + callbacks)
    found = assemble(None, "CartPole-v1", files=[file]).callbacks.get("early_stopping")
    assert (found and found.patience) == patience
    assert capsys.readouterr().err == f"note: {file}: {NOTE}\n"


def test_a_preset_of_an_earlier_version_applies(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "presets" / "ppo").mkdir(parents=True)
    (tmp_path / "presets" / "ppo" / "old.yaml").write_text("algorithm: {patience: 4}")
    assert assemble("ppo", "CartPole-v1", preset="old").callbacks["early_stopping"].patience == 4
    assert NOTE in capsys.readouterr().err
    config = assemble("ppo", "CartPole-v1", preset="old", overrides=["callbacks.early_stopping.patience=3"])
    assert config.callbacks["early_stopping"].patience == 3


@pytest.mark.parametrize("load", [load_saved_config, load_run_config, lambda path: load_config_to_act(path)[0]])
def test_a_run_with_patience_of_the_algorithm_opens(load, tmp_path, capsys):
    now = assemble("sac", "Pendulum-v1", overrides=["seed=1", "callbacks.early_stopping.patience=7"])
    text = dump(now).replace("    patience: 7\n", "").replace("  name: sac\n", "  name: sac\n  patience: 7\n")
    assert "    patience" not in text
    file = tmp_path / "config.yaml"
    file.write_text(checksummed(text))
    assert load(file) == now
    assert capsys.readouterr().err == f"note: {file}: {NOTE}\n"


@pytest.mark.parametrize(
    ("setting", "now"),
    [("algorithm.patience=4", "callbacks.early_stopping.patience"), ("runner.concurrency=4", "algorithm.num_envs"),
     ("evaluation.concurrency=4", "evaluation.num_envs")],
)  # fmt: skip
def test_a_typed_setting_says_its_new_name(setting, now):
    path = setting.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"^{path}: is now .*{now}"):
        assemble("ppo", "CartPole-v1", overrides=[setting])
