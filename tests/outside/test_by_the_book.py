"""The reference for authors is enough: a package built with nothing but the constructors that it prints works."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from maze_devkit.envs import SeededWalk

SOURCE = Path(__file__).with_name("by_the_book.py").read_text(encoding="utf-8")
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "authors.md"
PLUGINS = {"algorithm": {"book": "Book"}, "callback": {"looks": "Looks"}, "env": {"lanterns": "LanternsSource"}}


def printed():
    """The parameters of each class as the reference prints its constructor: all, and those by position."""
    found = {}
    for section in REFERENCE.read_text(encoding="utf-8").split("\n## Class ")[1:]:
        name = re.match(r"`(\w+)`", section)[1]
        if (block := re.search(rf"```python\n({name}\(.*?\))\n```", section, re.DOTALL)) is not None:
            arguments = ast.parse(f"def f{block[1].removeprefix(name)}: ...").body[0].args
            places = [each.arg for each in arguments.args]
            found[name] = (places, {*places, *(each.arg for each in arguments.kwonlyargs)})
    return found


def calls():
    """The calls of Maze's classes in the package: name, number of positions, keywords."""
    tree = ast.parse(SOURCE)
    imported = {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("maze_")
        for name in node.names
        if name.name[0].isupper()
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in imported:
            yield node.func.id, len(node.args), {each.arg for each in node.keywords}


def test_every_constructor_that_the_package_calls_is_printed_as_it_is_called():
    known, called = printed(), list(calls())
    for name, count, keywords in called:
        assert name in known, f"the reference for authors prints no constructor of {name}"
        places, names = known[name]
        assert count <= len(places), name
        assert keywords <= names - set(places[:count]), name
    assert len({name for name, *_ in called}) >= 25


@pytest.fixture
def package(outsider):
    """The package is installed."""
    return outsider("maze_by_the_book", SOURCE, PLUGINS)


@pytest.mark.parametrize(
    ("way", "env", "model"),
    [
        ("rollouts", SeededWalk, {"model.memory": "gru", "model.memory_size": 4}),
        ("priority", SeededWalk, {}),
        ("joint", {"name": "lanterns"}, {}),
        ("sequences", SeededWalk, {"model.memory": "gru", "model.memory_size": 4}),
    ],
)
def test_it_trains_and_resumes_exactly(package, quick, whole_state, assert_same, way, env, model):
    looks = {} if way == "joint" else {"callbacks": {"looks": {}}}
    values = {"algorithm.way": way, "algorithm.n_rollout_steps": 6, "model.hidden": [8], **model}
    whole = quick(env, "book", values, **looks)
    whole.train()
    half = quick(env, "book", values | {"algorithm.n_epochs": 1}, **looks)
    half.train()
    quick(env, "book", values, run_dir=None, **looks).resume(half.run_dir)
    assert_same(whole_state(whole.run_dir), whole_state(half.run_dir))


def test_heads_draw_actions_of_their_spaces(package):
    drawn = package.drawn_from_each_head()
    assert {name: tuple(each.shape) for name, each in drawn.items()} == {
        "choice": (2,), "choices": (2, 2), "bits": (2, 3), "normal": (2, 2), "beta": (2, 2), "middle": (1, 2),
    }  # fmt: skip
    assert drawn["middle"].tolist() == [[0.0, 2.0]]
