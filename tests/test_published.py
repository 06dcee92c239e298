"""What is published: the distribution of all, bounds of other packages, descriptions without links into nowhere."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.maze_devkit.scaffold.clean import ROOT
from tools import versions
from tools.dist import description, projects
from tools.versions import SUITE, TOOLS, constraints, dependencies, lower_bounds, pinned

CALENDAR = ("packaging", "pillow")
"""Versions of these name years, or a major version only drops an old Python."""
ALL = ROOT / "tools" / "maze_all"


def project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_maze_all_has_every_distribution_and_names_their_extras():
    said = project(ALL)
    extras = [line for lines in said["optional-dependencies"].values() for line in lines]
    asked = [Requirement(line) for line in (*said["dependencies"], *extras)]
    names = {project(folder)["name"]: project(folder) for folder in projects() if folder != ALL}
    assert {each.name for each in asked} == set(names)
    for each in asked:
        assert each.extras <= set(names[each.name].get("optional-dependencies", {})), each
        assert each.specifier.contains(names[each.name]["version"]), each
    readme = (ALL / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE) == list(said["optional-dependencies"])


def test_what_is_needed_of_others_has_bounds_that_hold_for_the_tried_versions():
    known = pinned()
    for each in dependencies():
        assert known.get(each.name) is None or each.specifier.contains(known[each.name]), each
        if each.specifier:
            assert each.name in CALENDAR or "<" in str(each.specifier), f"{each} has no upper bound"
            assert ">=" in str(each.specifier), f"{each} has no lower bound"


def test_lowest_versions_are_those_that_all_bounds_allow():
    found = lower_bounds(map(Requirement, ["a>=1.2,<2", "A>=1.10", "b[more]>=3; python_version>'3'", "c<4", "d"]))
    assert found == {"a": Version("1.10"), "b": Version("3")}
    lowest, newest = constraints("lowest", None), constraints("newest", "2.9.1")
    assert newest == ["torch==2.9.1"]
    assert {f"torch=={pinned()['torch']}", "gymnasium==1.2.1", "numpy==2.0", "onnxscript==0.6"} < set(lowest)


def test_maze_all_is_installed_by_its_file_and_those_of_all_that_it_needs(tmp_path, monkeypatch):
    for folder in projects():
        (tmp_path / f"{project(folder)['name'].replace('-', '_')}-0.1.0-py3-none-any.whl").touch()
    monkeypatch.setattr(versions, "OUT", tmp_path)
    few, more = versions.files_of_all([]), versions.files_of_all(["loggers", "agents"])
    assert len(few) == len(project(ALL)["dependencies"]) + 1
    assert {*more} - {*few} == {
        f"{tmp_path}/maze_{name}-0.1.0-py3-none-any.whl{extras}"
        for name, extras in (
            ("all", "[agents,loggers]"),
            ("wandb", ""),
            ("mlflow", ""),
            ("pettingzoo", "[classic,mpe]"),
        )
    }


def test_the_part_of_the_tests_that_is_run_with_other_versions_exists():
    assert not [each for each in SUITE if not (ROOT / "tests" / each).exists()]
    assert set(TOOLS) <= set(pinned())


TEXT = "![p](docs/p.svg) [a](docs/a.md#b) [c](https://x.org) [d](#e)\n```\n[f](g.md)\n```\n[h](../maze_b/README.md)"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (None, " a [c](https://x.org) [d](#e)\n```\n[f](g.md)\n```\nh"),
        (
            "https://y.org/",
            "![p](https://y.org/raw/main/plugins/maze_a/docs/p.svg) "
            "[a](https://y.org/blob/main/plugins/maze_a/docs/a.md#b) [c](https://x.org) [d](#e)\n```\n[f](g.md)\n```\n[h](https://y.org/blob/main/plugins/maze_b/README.md)",
        ),
    ],
)
def test_a_description_has_no_links_into_the_repository(address, expected):
    assert description(TEXT, "plugins/maze_a", address) == expected


def test_no_description_has_links_into_the_repository():
    for folder in projects():
        text = description((folder / "README.md").read_text(encoding="utf-8"), "plugins/x", None)
        assert text.startswith("# ")
        assert "](../" not in text
        assert "](docs/" not in text
