from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import Field, ValidationError

from maze_core.base.errors import ConfigError
from maze_core.cli.options import placed
from maze_core.plugins.config.base import ConfigModel, PluginConfig
from maze_core.plugins.config.flags import flags


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Nested(ConfigModel):
    x: int = 1


class Config(PluginConfig):
    clip_range: Annotated[float, Field(gt=0, le=1)] = 0.2
    """How far
    it may go."""
    small: float = 2.5e-4
    count: int
    """A count."""
    on: bool = True
    maybe: bool | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    mode: Literal["none", "abs_one"] = "none"
    target: Literal["auto"] | float = "auto"
    layers: tuple[int, ...] = (64, 64)
    names: list[str] = Field(default=[])
    label: str = "3"
    color: Color = Color.RED
    table: dict[str, int] = Field(default={})
    nested: Nested = Nested()


FLAGS = {flag.field: flag for flag in flags(Config)}


def test_every_field_but_the_name_has_a_flag():
    assert list(FLAGS) == [name for name in Config.model_fields if name != "name"]


@pytest.mark.parametrize(
    ("field", "option", "metavar", "help"),
    [
        ("clip_range", "--clip-range", "FLOAT", "How far it may go. [> 0, <= 1; default: 0.2]"),
        ("small", "--small", "FLOAT", "[default: 0.00025]"),
        ("count", "--count", "INT", "A count. [required]"),
        ("on", "--on/--no-on", "BOOL", "[default: true]"),
        ("limit", "--limit", "INT", "[>= 1; default: none]"),
        ("mode", "--mode", "none|abs_one", "[default: none]"),
        ("target", "--target", "auto|FLOAT", "[default: auto]"),
        ("layers", "--layers", "LIST", "[default: 64,64]"),
        ("names", "--names", "LIST", "[default: []]"),
        ("color", "--color", "red|blue", "[default: red]"),
    ],
)
def test_how_a_field_is_described(field, option, metavar, help):
    flag = FLAGS[field]
    assert (flag.option, flag.metavar, flag.help) == (option, metavar, help)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("clip_range", "1e-3", 1e-3),
        ("count", "7", 7),
        ("maybe", "false", False),
        ("maybe", "none", None),
        ("limit", "none", None),
        ("limit", "None", None),
        ("limit", "3", 3),
        ("mode", "none", "none"),
        ("target", "auto", "auto"),
        ("target", "-1.5", -1.5),
        ("layers", "64,32", (64, 32)),
        ("layers", "[64, 32]", (64, 32)),
        ("layers", "64", (64,)),
        ("layers", "[]", ()),
        ("names", "a, b", ["a", "b"]),
        ("label", "12", "12"),
        ("label", "a: b", "a: b"),
        ("color", "blue", Color.BLUE),
        ("table", "{a: 1}", {"a": 1}),
        ("nested", "{x: 5}", Nested(x=5)),
    ],
)
def test_what_is_typed_becomes_the_value(field, text, value):
    config = Config.model_validate({"count": 1, field: FLAGS[field].parse(text)})
    assert getattr(config, field) == value


@pytest.mark.parametrize("field", [name for name in FLAGS if name not in ("count", "on", "nested", "table")])
def test_the_default_as_shown_parses_to_the_default(field):
    parsed = FLAGS[field].parse(FLAGS[field].default)
    assert getattr(Config.model_validate({"count": 1, field: parsed}), field) == getattr(Config(count=1), field)


def test_an_option_that_is_given_nothing_is_a_config_error():
    """As where a variable of the shell is not set."""
    for given in ("", " "):
        with pytest.raises(ConfigError, match=r"^--steps: was given nothing\nNext: leave it out"):
            placed({"steps": given})
    with pytest.raises(ConfigError, match=r"^--limit: was given nothing"):
        FLAGS["limit"].parse("")


def test_true_is_no_number():
    for field in ("count", "clip_range", "limit"):
        with pytest.raises(ValidationError, match="must be a number"):
            Config.model_validate({"count": 1, field: True})
    assert Config(count=1, on=True, maybe=True, limit=None).maybe


def test_a_text_that_is_no_yaml_is_a_config_error():
    with pytest.raises(ConfigError, match="--layers"):
        FLAGS["layers"].parse("[1")


class Tree(PluginConfig):
    depth: int = 1
    below: "Tree | None" = None


class Odd(PluginConfig):
    raw: bytes = b"\xff"
    large: int = 10**5000


def test_models_within_themselves_and_defaults_without_a_text(recwarn):
    assert [flag.option for flag in flags(Tree)] == ["--depth", "--below"]
    assert [flag.default for flag in flags(Odd)] == ["none", "too large"]
    assert not recwarn.list
