"""Which names a new plugin may have."""

import pytest
from maze_devkit.scaffold.kinds import STARTERS
from maze_devkit.scaffold.names import new_names

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery


def test_what_follows_from_a_name():
    names = new_names("wrapper", "my_scale2")
    assert (names.distribution, names.package) == ("maze-my-scale2", "maze_my_scale2")
    assert (names.plugin_class, names.config_class) == ("MyScale2Wrapper", "MyScale2Config")
    assert new_names("wrapper", "scale_wrapper").plugin_class == "ScaleWrapper"


@pytest.mark.parametrize(
    ("name", "better"),
    [("Foo-Bar", "foo_bar"), ("2fast", "fast"), ("myAlgo", "my_algo"), ("a__b", "a_b"), ("maze-x", "x"), ("ü", "")],
)
def test_malformed_names_are_refused_with_a_better_one(name, better):
    with pytest.raises(ConfigError, match="is not a valid plugin name") as refused:
        new_names("callback", name)
    assert (f"Did you mean {better}?" in str(refused.value)) == bool(better)
    assert refused.value.where == "NAME"


@pytest.mark.parametrize("name", ["", "x" * 31, "../evil", "a/b", "a b", "_a", "a_", "a.b", "a\n"])
def test_what_is_no_name_at_all_is_refused(name):
    with pytest.raises(ConfigError, match="is not a valid plugin name"):
        new_names("callback", name)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("callback", "core"),  # maze-core is the core
        ("callback", "class"),  # maze_class.class cannot be imported
        ("callback", "off"),  # a value in YAML
        ("callback", "env"),  # a kind
        ("algorithm", "batch"),  # its class would hide the imported Batch
        ("callback", "plugin"),  # its PluginConfig would hide the imported one
        ("policy", "acting"),  # the same with ActingPolicy
        ("algorithm", "iterator"),
        ("algorithm", "exception"),
    ],
)
def test_reserved_names_are_refused(kind, name):
    with pytest.raises(ConfigError, match="is reserved"):
        new_names(kind, name)


def test_names_that_are_taken_are_refused():
    with pytest.raises(ConfigError, match=r"maze-core \S+ already has callback 'jsonl'"):
        new_names("callback", "jsonl")
    with pytest.raises(ConfigError, match=r"maze-ppo is installed already, which has algorithm 'ppo'"):
        new_names("callback", "ppo")
    with pytest.raises(ConfigError, match="would become maze-maze-x"):
        new_names("callback", "maze_x")
    assert new_names("callback", "mlp").name == "mlp"  # another kind of another distribution does not clash


def test_names_of_plugins_published_here_are_refused_also_where_they_are_not_installed(monkeypatch):
    monkeypatch.setattr(discovery, "declarations", list)
    with pytest.raises(ConfigError, match=r"maze-a2c, which is not installed, has algorithm 'a2c'"):
        new_names("algorithm", "a2c")


def test_unknown_kinds_are_refused_with_those_there_are():
    with pytest.raises(ConfigError, match=", ".join(STARTERS)):
        new_names("algo", "x")
