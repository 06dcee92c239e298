"""A configuration that `config.yaml` would not keep is refused before the run, not by whoever resumes it."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BeforeValidator, ConfigDict, Field, SecretStr, computed_field, field_serializer

from maze_core.base.errors import ConfigError
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import Assembly, dump
from maze_core.plugins.config.base import PluginConfig
from maze_core.plugins.config.validation import unrestorable
from maze_core.plugins.discovery import load, overlay


class Kept(PluginConfig):
    chosen: set[int] = Field(default={1, 2})
    by_number: dict[int, complex] = Field(default={1: 1j})
    keyword: int = Field(3, alias="lambda")
    earlier: int = Field(4, validation_alias="later")


class Computed(PluginConfig):
    low: int = 1

    @computed_field
    @property
    def high(self) -> int:
        return self.low + 1


class Raises(PluginConfig):
    value: int = 1

    @field_serializer("value")
    def _written(self, value):
        raise RuntimeError("not today")


class Bytes(PluginConfig):
    value: bytes = b"\xff"


class Object(PluginConfig):
    value: Any = object()


class Function(PluginConfig):
    value: Callable[[], int] = lambda: 1


class Surrogate(PluginConfig):
    value: str = "\ud800"


class PairKeys(PluginConfig):
    value: dict[tuple[int, int], float] = Field(default={(1, 2): 3.0})


class Doubled(PluginConfig):
    value: Annotated[int, BeforeValidator(lambda value: 2 * int(value))] = 1


class Secret(PluginConfig):
    value: SecretStr = SecretStr("hush")


def plugin(config):
    return type("Odd", (Plugin,), {"Config": config, "__doc__": "Odd."})


def assembled(config):
    assembly = Assembly(overlay({("callback", "odd"): plugin(config)}, load))
    return assembly.assemble("ppo", "CartPole-v1", preset="none", overrides=["callbacks.odd={}"])


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (Bytes, "odd.value: cannot be written to config.yaml: 'utf-8' codec"),
        (Object, "odd.value: cannot be written to config.yaml: Unable to serialize unknown type"),
        (Function, "odd.value: cannot be written to config.yaml"),
        (Surrogate, "odd.value: cannot be written to config.yaml"),
        (Raises, "odd.value: cannot be written to config.yaml: .*not today"),
        (PairKeys, "odd.value.1,2: is written to config.yaml, but cannot be read from there: must be a list"),
        (Computed, "odd.high: is written to config.yaml, but cannot be read from there: unknown key"),
        (Doubled, "odd.value: written to config.yaml and read again, 2 is 4"),
        (Secret, "odd.value: written to config.yaml and read again"),
    ],
)
def test_what_a_file_does_not_keep_is_refused(config, says):
    with pytest.raises(ConfigError, match=f"^callbacks.{says}") as caught:
        assembled(config)
    assert "hush" not in str(caught.value)


def test_what_it_keeps_is_read_again_whatever_its_aliases(tmp_path):
    config = assembled(Kept)
    (tmp_path / "config.yaml").write_text(dump(config))
    assembly = Assembly(overlay({("callback", "odd"): plugin(Kept)}, load))
    found = assembly.load_run_config(tmp_path / "config.yaml")
    assert found == config
    assert Kept.model_validate({"lambda": 5}).keyword == 5


def test_values_that_no_type_tells_apart_are_compared_as_written():
    class Thing:
        def __init__(self, text):
            self.text = text

    class Own(PluginConfig):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        value: Annotated[Thing, BeforeValidator(lambda each: each if isinstance(each, Thing) else Thing(each))]

        @field_serializer("value")
        def _written(self, value):
            return value.text

    assert unrestorable(Own(value="a"), "callbacks.odd", Own.model_validate) == []
