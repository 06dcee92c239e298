"""YAML of strangers: what would hang, fill the memory or build something is refused at once, with its line."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from maze_core.base.errors import ConfigError
from maze_core.cli.main import app
from maze_core.plugins.config import plain_yaml
from maze_core.plugins.config.plain_yaml import MAX_BYTES, parse_value, read_yaml, to_yaml

_LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
)
BOMBS = {
    "aliases": (_LAUGHS, "line 1: no anchor is allowed"),
    "an alias": ("seed: 1\nsteps: *seed\n", "line 2: no alias is allowed"),
    "an anchor": ("env:\n  id: &id X\n", "line 2: no anchor is allowed"),
    "an anchored mapping": ("env: &env\n  id: X\n", "line 1: no anchor is allowed"),
    "a merged mapping": ("a: &a {b: 1}\nc: {<<: *a}\n", "no anchor is allowed"),
    "depth in brackets": ("a: " + "[" * 90_000, "line 1: nested deeper than 40 levels"),
    "depth in braces": ("{a: " * 20_000, "nested deeper"),
    "depth in dashes": ("- " * 40_000, "nested deeper"),
    "depth in questions": ("? " * 40_000, "nested deeper"),
    "depth in lines": ("".join(" " * i + "a:\n" for i in range(400)), "line 41: nested deeper"),
    "length": ("a: 1\n" + "# nothing\n" * 20_000, "the limit is 100,000"),
    "a number of many digits": ("seed: " + "9" * 90_000, "not valid YAML: "),
    "sixties": ("seed: !!int " + "1:" * 40_000 + "1", "no tag is allowed"),
    "a tag without a name": ("seed: ! 1", "no tag is allowed"),
    "a tagged mapping": ("env: !!map {id: X}", "no tag is allowed"),
    "a key of another type": ("true: 1", "keys must be strings; quote 'true'"),
    "a key that is a list": ("? [a]\n: 1", "keys must be strings"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_at_once(name, tmp_path):
    text, message = BOMBS[name]
    (tmp_path / "bomb.yaml").write_text(text)
    began = time.monotonic()
    with pytest.raises(ConfigError, match=message) as caught:
        read_yaml(tmp_path / "bomb.yaml")
    assert time.monotonic() - began < 30
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "ppo", "--config", "bomb.yaml"),
        ("sweep", "--plan", "bomb.yaml"),
        ("config", "show", "bomb.yaml"),
        ("eval", "runs/bomb"),
        ("resume", "runs/bomb"),
        ("rollout", "runs/bomb"),
        ("train", "ppo", "--init-from", "runs/bomb"),
    ],
    ids=" ".join,
)
def test_every_command_refuses_them(arguments, tmp_path, monkeypatch, known_plugins):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bomb.yaml").write_text(_LAUGHS)
    (tmp_path / "runs" / "bomb").mkdir(parents=True)
    (tmp_path / "runs" / "bomb" / "config.yaml").write_text(_LAUGHS)
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    assert "line 1: no anchor is allowed here" in result.stderr


def test_what_a_run_writes_it_can_read():
    assert parse_value(to_yaml({"a": "\x1b[31m\u202e", "b": ["no", "1e3", "*x", "&y", "!z", "<<"]}), "") == {
        "a": "\x1b[31m\u202e",
        "b": ["no", "1e3", "*x", "&y", "!z", "<<"],
    }
    with pytest.raises(ConfigError, match="longer than"):
        to_yaml({"a": "x" * MAX_BYTES})


def outcome(text):
    try:
        return repr(parse_value(text, "it"))
    except ConfigError as error:
        return str(error)


# PyYAML's own parser refuses a "? " inside a key of braces, which libyaml reads.
PIECES = [
    "a",
    "b: ",
    "- ",
    "\n",
    "\n  ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    ":",
    '"',
    "'",
    "|\n ",
    ">-\n ",
    "#",
    "&x ",
    "*x",
    "!t ",
]
PIECES += ["~", "1e3", ".inf", "%", "---\n", "\t", "\ufeff", "é", "\x85", "\\n", "<<: "]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_the_parser_of_libyaml_changes_nothing_but_the_time(text):
    if plain_yaml._FastLoader is None:
        pytest.skip("PyYAML was built without libyaml")
    found = outcome(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_yaml, "_FastLoader", None)
        assert outcome(text) == found


def test_what_a_run_writes_is_read_by_the_parser_of_libyaml(monkeypatch):
    """A list of thousands of runs would take minutes otherwise."""
    if plain_yaml._FastLoader is None:
        pytest.skip("PyYAML was built without libyaml")
    values = {"é\t": "\u263a\x85", "a": [{"b": "x" * 300}, None, True, -1e-7, "%", "1e3", " # "], "c": {"d": {}}}
    monkeypatch.delattr(plain_yaml, "_Loader")
    assert parse_value(to_yaml(values), "") == values
