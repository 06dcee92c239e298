"""The conformance kit finds parameters that may lead outside the run and do not say so."""

from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from maze_devkit.marks import unmarked
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, FilePath, JsonValue
from typing_extensions import TypeAliasType

from maze_core import PluginConfig
from maze_core.plugins.config.external_fields import Outside, marked_fields

Target = TypeAliasType("Target", Path | None)


class Store(BaseModel):
    """A part of a configuration."""

    bucket: str = ""
    size: int = 1


UNMARKED = {
    "folder": str, "log_dir": str, "logdir": str | None, "tracking_uri": str, "base_url": str, "baseURL": str,
    "server": str | None, "hosts": tuple[str, ...], "endpoint": str, "bucket": str, "storage": str, "to": str,
    "entity": str,
    "send_to": str, "database": str, "webhook": str, "where": Path, "a": Path | None, "b": list[Path], "c": AnyUrl,
    "d": dict[str, Path], "e": FilePath, "f": IPv4Address, "g": Target,
    "h": Annotated[str | None, Field(description="URL of x.")],
    "i": dict[str, JsonValue], "j": Any, "k": dict, "mode": Literal["offline", "online"], "upload": bool, "share": bool,
    "output_path": Annotated[str, Field(min_length=1)], "proxies": dict[str, AnyUrl], "m": list[JsonValue] | None,
}  # fmt: skip
FINE = {
    "steps": int, "size": float, "name_of_run": str, "activation": Literal["relu", "tanh"], "tags": dict[str, str],
    "keys": tuple[str, ...], "profile": str, "total": str, "token_count": int, "path_length": int, "file_count": int,
    "running": bool, "share_embeddings": tuple[str, ...], "history": str, "directed": bool, "tool": str,
}  # fmt: skip


def config(**fields):
    """A configuration model with fields of these types; pydantic would look long for the source of such a class."""
    settings = {"__module__": __name__, "model_config": ConfigDict(use_attribute_docstrings=False)}
    return type("Config", (PluginConfig,), {"__annotations__": fields, **dict.fromkeys(fields)} | settings)


@pytest.mark.parametrize("name", UNMARKED)
def test_what_is_found(name):
    assert list(unmarked(config(**{name: UNMARKED[name]}))) == [name]
    for mark in (*Outside, Outside.ADDRESS.but("auto")):
        assert list(unmarked(config(**{name: Annotated[UNMARKED[name], mark]}))) == []


@pytest.mark.parametrize("name", FINE)
def test_what_is_not(name):
    assert list(unmarked(config(**{name: FINE[name]}))) == []


def test_models_within():
    marked = type("Marked", (BaseModel,), {"__annotations__": {"bucket": Annotated[str, Outside.ADDRESS]}})
    assert list(unmarked(config(inner=Store))) == ["inner.bucket"]
    assert list(unmarked(config(inner=Store | None))) == ["inner.bucket"]
    assert list(unmarked(config(inner=marked | None))) == []
    assert set(marked_fields(config(inner=marked | None))) == {"inner.bucket"}
    assert list(unmarked(config(each=list[marked]))) == ["each.bucket"]  # such marks have no effect
    assert list(unmarked(config(each=Annotated[list[marked], Outside.ADDRESS]))) == []


def test_marks_are_found_wherever_they_are_written():
    fields = {
        "a": Annotated[str | None, Outside.FOLDER],
        "b": Annotated[str, Outside.FOLDER] | None,
        "c": tuple[Annotated[str, Outside.FOLDER], ...],
        "d": Annotated[str, Field(alias="theD"), Outside.FOLDER],
    }
    assert marked_fields(config(**fields)).keys() == {"a", "b", "c", "d", "theD"}
