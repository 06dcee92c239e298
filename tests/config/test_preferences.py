"""What an algorithm prefers for the other parts of a run holds where nothing else is configured."""

from __future__ import annotations

import pytest

from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import Assembly, dump
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.run import AlgorithmConfig
from maze_core.plugins.discovery import overlay
from maze_core.run.callbacks import EarlyStopping


class SourceConfig(PluginConfig):
    id: str


class ModelConfig(PluginConfig):
    critic: str = "separate"
    width: int = 8


def plugin(config, **attributes):
    return type("Fake", (Plugin,), {"Config": config, **attributes})


PREFERRED = {"model": {"critic": "none", "depth": 3}}
LOAD = overlay(
    {
        ("algorithm", "choosy"): plugin(AlgorithmConfig, defaults=PREFERRED),
        ("algorithm", "plain"): plugin(AlgorithmConfig),
        ("env", "gymnasium"): plugin(SourceConfig),
        ("model", "mlp"): plugin(ModelConfig),
        ("model", "bare"): plugin(PluginConfig),
        ("runner", "dev"): plugin(PluginConfig),
        **{
            ("callback", name): plugin(PluginConfig)
            for name in ("console", "tensorboard", "jsonl", "best_checkpoint", "mine")
        },
        ("callback", "early_stopping"): EarlyStopping,
    }
)


def configured(algorithm="choosy", **options):
    return Assembly(LOAD).assemble(algorithm, "Some-v0", **options)


def test_preferences_hold_where_nothing_is_said_and_the_plugin_has_the_field():
    assert (configured().model.critic, configured().model.width) == ("none", 8)
    assert configured("plain").model.critic == "separate"


def test_whatever_the_user_says_wins(tmp_path):
    assert configured(overrides=["model.critic=shared"]).model.critic == "shared"
    file = tmp_path / "a.yaml"
    file.write_text("model: {critic: separate, width: 2}")
    assert configured(files=[file]).model == ModelConfig(name="mlp", critic="separate", width=2)


def test_a_plugin_without_the_fields_is_left_alone():
    assert configured(overrides=["model.name=bare"]).model == PluginConfig(name="bare")


def test_a_saved_configuration_is_read_back_as_it_is(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(dump(configured(overrides=["model.critic=shared"])))
    assert Assembly(LOAD).load_run_config(file).model.critic == "shared"


def test_mistakes_are_still_reported_together():
    with pytest.raises(ConfigError, match="model") as caught:
        configured(overrides=["model.name=nothing", "algorithm.epoch_length=-1"])
    assert "algorithm.epoch_length" in str(caught.value)


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        (
            {"modle": {"critic": "none"}},
            "Fake.defaults: 'modle' is none of the parts with defaults, env, model, runner, callbacks",
        ),
        ({"wrappers": {"0": {}}}, "'wrappers' is none of the parts"),
        ({"callbacks": {"jsonl": 3}}, "callbacks.jsonl must be a mapping"),
        ({"callbacks": {"jsonl": {"name": "x"}}}, "callbacks.jsonl.name cannot be one"),
        ({"callbacks": ["jsonl"]}, "callbacks must be a mapping"),
        ({"algorithm": {"lr": 1}}, "'algorithm' is none of the parts"),
        ({"model": {"name": "cnn"}}, "model.name cannot be one"),
        ({"model": ["critic"]}, "model must be a mapping"),
        ([("model", "critic")], "is none of the parts"),
    ],
)
def test_defaults_that_can_never_apply_are_refused_by_name(defaults, message):
    load = overlay({("algorithm", "wrong"): plugin(AlgorithmConfig, defaults=defaults)}, LOAD)
    with pytest.raises(PluginError, match=message):
        Assembly(load).assemble("wrong", "Some-v0")


CALM = {"callbacks": {"early_stopping": {"patience": 50, "unknown": 1}, "mine": {"patience": 2}}}
CALM_LOAD = overlay({("algorithm", "calm"): plugin(AlgorithmConfig, defaults=CALM)}, LOAD)


@pytest.mark.parametrize(
    ("overrides", "patience"),
    [
        ([], 50),
        (["callbacks.early_stopping.target_return=1"], 50),
        (["callbacks.early_stopping.patience=3"], 3),
        (["steps=9"], 0),
        (["steps=9", "callbacks.early_stopping.patience=3"], 3),
    ],
)
def test_an_algorithm_may_prefer_parameters_of_callbacks(overrides, patience):
    config = Assembly(CALM_LOAD).assemble("calm", "Some-v0", overrides=overrides)
    assert config.callbacks["early_stopping"].patience == patience
    assert "mine" not in config.callbacks


def test_a_callback_that_is_removed_stays_removed():
    config = Assembly(CALM_LOAD).assemble("calm", "Some-v0", overrides=["callbacks.early_stopping=null", "steps=9"])
    assert "early_stopping" not in config.callbacks


def test_early_stopping_under_another_name_is_early_stopping():
    overrides = ["callbacks.early_stopping=null", "callbacks.mine={name: early_stopping}"]
    assert Assembly(CALM_LOAD).assemble("calm", "Some-v0", overrides=overrides).callbacks["mine"].patience == 2
    overrides.append("steps=9")
    assert Assembly(CALM_LOAD).assemble("calm", "Some-v0", overrides=overrides).callbacks["mine"].patience == 0


def test_an_algorithm_with_patience_of_its_own_says_where_it_went():
    class OldConfig(AlgorithmConfig):
        patience: int = 50

    load = overlay({("algorithm", "old"): plugin(OldConfig)}, LOAD)
    with pytest.raises(PluginError, match=r'Fake.Config: patience .* `defaults = {"callbacks": {"early_stopping"'):
        Assembly(load).assemble("old", "Some-v0")
