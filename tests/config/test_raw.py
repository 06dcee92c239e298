import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from maze_core.base.errors import ConfigError
from maze_core.plugins.config.assembly import assemble, load_run_config
from maze_core.plugins.config.plain_yaml import parse_mapping, read_yaml, to_yaml
from maze_core.plugins.config.raw import assign, merge, parse_assignment

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DATA = st.dictionaries(
    st.text(), st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=4)
)


@settings(max_examples=50)
@given(DATA)
def test_yaml_round_trip(data):
    assert parse_mapping(to_yaml(data), "here") == data


@pytest.mark.parametrize(
    ("text", "value"),
    [("3e-4", 3e-4), ("1e6", 1e6), ("1.", 1.0), (".5", 0.5), ("-2", -2), ("1_000", 1000), ("no", "no"), ("on", "on"),
     ("1:30", "1:30"), ("0123", "0123"), ("2024-01-01", "2024-01-01"), ("~", None), ("null", None), ("", None),
     ("true", True), ("[1, a]", [1, "a"]), ("{a: 1}", {"a": 1}), (".inf", math.inf), ("'3'", "3"), ("none", "none")],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(text, value):
    path, parsed = parse_assignment(f"a.b={text}")
    assert path == ("a", "b")
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", r"line 3: key 'a' appears twice"),
        ("env: {id: X, id: Y}", r"line 1: key 'id' appears twice"),
        ("a: [1", r"line \d"),
        ("a: 1\n b: 2", r"line 2"),
        ("- a", "must contain a mapping .* not a list"),
        ("just words", "not a string"),
        ("a: !!python/object/apply:os.system ['touch owned']", "line 1: no tag"),
        ("a: !!python/name:os.system", "line 1: no tag"),
        ("a: !!binary aGk=", "no tag"),
        ("a: 1\nb: !!set {x}", "line 2: no tag"),
        ("a: 1\nb: &x [*x]", "line 2: no anchor"),
        ("1: x", "keys must be strings"),
        ("{a: 1}: 2", "keys must be strings"),
        ("a: " + "[" * 60 + "]" * 60, "nested deeper"),
        ("a: \x07", "YAML"),
    ],
)
def test_bad_yaml_is_one_error_that_names_the_file(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        read_yaml(path)
    assert str(path) in str(caught.value)
    assert not (tmp_path / "owned").exists()


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(tmp_path)
    (tmp_path / "latin").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_yaml(tmp_path / "latin")


@pytest.mark.parametrize("text", ["a", "=3", "a..b=3", ".a=3", "a.=3"])
def test_an_assignment_without_a_path_is_refused(text):
    with pytest.raises(ConfigError, match="not of the form path=value"):
        parse_assignment(text)


def test_layers_merge_by_key_and_lists_are_replaced():
    base = {"env": {"id": "A", "kwargs": {"x": 1, "y": 2}}, "wrappers": ["a"]}
    layer = {"env": {"kwargs": {"y": 3}}, "wrappers": ["b", {"name": "c", "n": 1}], "seed": 1}
    assert merge(base, layer) == {
        "env": {"id": "A", "kwargs": {"x": 1, "y": 3}},
        "wrappers": [{"name": "b"}, {"name": "c", "n": 1}],
        "seed": 1,
    }
    assert base["env"]["kwargs"] == {"x": 1, "y": 2}


def test_another_plugin_does_not_inherit_parameters():
    base = {"model": {"name": "mlp", "hidden": [8]}}
    assert merge(base, {"model": "cnn"}) == {"model": {"name": "cnn"}}
    assert merge(base, {"model": {"name": "mlp", "a": 1}}) == {"model": {"name": "mlp", "hidden": [8], "a": 1}}
    assert merge(base, {"model": {"a": 1}}) == {"model": {"name": "mlp", "hidden": [8], "a": 1}}


def test_names_are_set_before_parameters():
    base = {"model": {"name": "mlp", "hidden": [8]}, "env": {"name": "gymnasium"}}
    settings = [(("model", "channels"), [4]), (("model", "name"), "cnn"), (("env",), "CartPole-v1")]
    assert assign(base, settings) == {
        "model": {"name": "cnn", "channels": [4]},
        "env": {"name": "gymnasium", "id": "CartPole-v1"},
    }


def test_list_positions():
    base = {"wrappers": [{"name": "a", "size": 1}, {"name": "b"}]}
    changed = assign(base, [(("wrappers", "0", "size"), 3), (("wrappers", "2"), "c")])
    assert changed == {"wrappers": [{"name": "a", "size": 3}, {"name": "b"}, {"name": "c"}]}
    assert base["wrappers"][0]["size"] == 1
    for path in (("wrappers", "5"), ("wrappers", "x"), ("wrappers", "2", "size"), ("wrappers", "-1")):
        with pytest.raises(ConfigError, match="not an index of a list of length 2"):
            assign(base, [(path, 1)])
    with pytest.raises(ConfigError, match=r"env.id is a string and has no 'x'"):
        assign({"env": {"id": "A"}}, [(("env", "id", "x"), 1)])


def test_a_file_that_pyyaml_wrote_reads_the_same():
    data = {"a": [1, 2.5, None, True, "text", "1e5"], "b": {"c": "yes"}}
    assert parse_mapping(yaml.safe_dump({"a": data["a"][:5], "b": data["b"]}), "here") == {
        "a": data["a"][:5],
        "b": data["b"],
    }


NAMES = {"algorithm.name": "ppo", "model.name": "mlp", "runner.name": "dev", "env.id": "CartPole-v1"}
LATER = {"evaluation": {"n_episodes": 2}, "callbacks": {"console": {"name": "console"}}, "env": {"kwargs": {"a": 1}}}


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"algorithm": 5}, "algorithm"),
        ({"algorithm": []}, "algorithm"),
        ({"algorithm": {"name": 5}}, "algorithm.name"),
        ({"env": 5}, "env"),
        ({"env": {"kwargs": [1]}}, "env.kwargs"),
        ({"model": True}, "model"),
        ({"model": [64, 64]}, "model"),
        ({"model": {"name": 3, "hidden": [4]}}, "model.name"),
        ({"runner": ["local"]}, "runner"),
        ({"runner": 2.5}, "runner"),
        ({"evaluation": 5}, "evaluation"),
        ({"callbacks": 3}, "callbacks"),
        ({"callbacks": ["console"]}, "callbacks"),
        ({"callbacks": {"console": False}}, "callbacks.console"),
        ({"wrappers": {"clip_reward": {}}}, "wrappers"),
        ({"wrappers": 3}, "wrappers"),
        ({"wrappers": "clip_reward"}, "wrappers"),
    ],
)
@pytest.mark.parametrize("later", [(), (LATER,)], ids=["flags", "a later file"])
def test_a_part_of_another_kind_is_refused_although_something_later_replaces_it(wrong, where, later):
    flags = {**NAMES, "wrappers": [], "callbacks.jsonl": None, "evaluation.n_episodes": 3}
    with pytest.raises(ConfigError, match=f"^{where}"):
        assemble(files=[wrong, *later], preset="none", flags=flags)


@pytest.mark.parametrize("part", ["algorithm", "model", "runner", "env"])
def test_a_part_that_is_set_to_a_number_is_refused_although_its_name_is_given_too(part):
    with pytest.raises(ConfigError, match=f"^{part}"):
        assemble(overrides=[f"{part}=5"], preset="none", flags=NAMES)
    with pytest.raises(ConfigError, match=f"^{part}"):
        load_run_config({**assemble(preset="none", flags=NAMES).model_dump(), part: 5}, [f"{part}.name=x"])


def test_names_may_still_become_names_with_parameters_and_nothing_may_become_something():
    files = [{"model": {"memory": "gru"}, "algorithm": None}, {"model": {"memory": {"name": "gru", "size": 7}}}]
    config = assemble(files=files, preset="none", flags=NAMES)
    assert config.model.memory["size"] == 7
