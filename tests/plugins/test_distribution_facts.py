"""What distributions say of themselves is read once, and again where it has changed."""

from importlib import metadata

import pytest
from packaging.requirements import Requirement

from maze_core.plugins.distribution_facts import applies, facts_of, requirements_on


def write(folder, version, *requires):
    info = folder / "maze_foo-0.0.dist-info"
    info.mkdir(exist_ok=True)
    lines = ["Metadata-Version: 2.1", "Name: maze-foo", *([f"Version: {version}"] if version else [])]
    (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {each}" for each in requires)]) + "\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_they_are_read_again_only_where_the_file_has_changed(folder, monkeypatch):
    read, seen = metadata.PathDistribution.read_text, []
    monkeypatch.setattr(metadata.PathDistribution, "read_text", lambda *asked: seen.append(asked) or read(*asked))
    write(folder, "1.2", "maze-core>=1")
    assert facts_of("maze-foo").version == "1.2"
    once = len(seen)
    assert [facts_of("maze-foo").version for _ in range(2)] == ["1.2"] * 2
    assert len(seen) == once > 0
    write(folder, "1.3", "maze-core>=1", "numpy")
    assert facts_of("maze-foo") == ("1.3", ("maze-core>=1", "numpy"))
    assert len(seen) == 2 * once


@pytest.mark.parametrize(
    ("line", "is_on_it"),
    [
        ("maze-core", True),
        ("Maze_Core >=0.1,<2", True),
        ("maze.core[box2d]; python_version > '3'", True),
        ("maze-core (>=1)", True),
        ("maze-core-extras", False),
        ("numpy", False),
        ("my-maze-core", False),
    ],
)
def test_requirements_on_another_distribution(folder, line, is_on_it):
    write(folder, "1", line, "torch>=2")
    assert requirements_on("maze-foo", "maze-core") == [line] * is_on_it


def test_what_is_not_there_has_none(folder):
    assert requirements_on("maze-nothing", "maze-core") == []
    with pytest.raises(metadata.PackageNotFoundError):
        facts_of("maze-nothing")


def test_metadata_without_a_version(folder):
    write(folder, "")
    assert facts_of("maze-foo") == ("", ())


def test_metadata_that_is_no_text_says_nothing(folder):
    write(folder, "1")
    (folder / "maze_foo-0.0.dist-info" / "METADATA").write_bytes("Name: maze-foo\nAuthor: Jörg\n".encode("latin-1"))
    assert facts_of("maze-foo") == ("", ())


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("", True),
        ("; python_version >= '3'", True),
        ("; python_version < '3'", False),
        ("; extra == 'fast'", False),
        ("; sys_platform ~= '1.x'", False),
        ("; python_version ~= 'x'", False),
    ],
)
def test_a_condition_without_a_meaning_does_not_hold(condition, holds):
    assert applies(Requirement(f"maze-core>=0.1{condition}")) is holds
