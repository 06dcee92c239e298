"""The picture of a family of runs."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from maze_compare.family_picture import family_svg
from maze_compare.records import read_run

from maze_core.plugins.config.record import FORKED_FROM, ID, read_record, write_record


@pytest.fixture
def family(make_run):
    """`family(runs)`: from the name of each run its returns, parent, epoch of the fork and learning rate."""

    def build(runs):
        found = []
        for number, (name, (returns, parent, epoch, lr)) in enumerate(runs.items()):
            folder = make_run(name, returns, lr=lr)
            origin = parent and {"run": parent, "id": f"{list(runs).index(parent):016x}", "checkpoint": "last",
                                 "epoch": epoch, "env_steps": 100 * epoch}  # fmt: skip
            write_record(folder, {**read_record(folder), ID: f"{number:016x}", FORKED_FROM: origin})
            found.append(read_run(folder))
        return found

    return build


def shapes(picture, tag):
    return list(ET.fromstring(picture).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


LINE = {
    "a": ([1.0, 2.0], None, 0, 0.1),
    "b": ([3.0, 4.0], None, 0, 0.001),
    "b2": ([3.0, 4.0, 9.0, 5.0], "b", 2, 0.001),
    "a2": ([3.0, 4.0, 7.0, 6.0], "b", 2, 0.002),
}


def test_a_run_that_goes_on_is_in_the_row_of_its_parent_and_a_copy_in_one_of_its_own(family):
    picture = family_svg(family(LINE))
    bars = {each[0].text.partition(":")[0]: each for each in shapes(picture, "rect")[1:]}
    rows = {name: float(each.get("y")) for name, each in bars.items()}
    assert rows["b"] == rows["b2"]
    assert len(set(rows.values())) == 3
    begins = {name: float(each.get("x")) for name, each in bars.items()}
    assert begins["a"] == begins["b"] < begins["b2"] == begins["a2"]
    assert {name for name, each in bars.items() if each.get("stroke")} == {"b", "b2"}  # the line of the best one
    assert bars["a2"][0].text == "a2: 7"  # of what it did itself


def test_what_forks_changed_is_drawn_over_the_steps(family):
    picture = family_svg(family(LINE))
    texts = [each.text for each in shapes(picture, "text")]
    assert "lr over the steps, logarithmic" in texts
    assert {"0.1", "0.001"} <= set(texts)
    heights = {line.get("y1") for line in shapes(picture, "line") if line.get("stroke") == "#d55e00"}
    assert len(heights) == 1  # the best line kept its learning rate


def test_runs_that_are_no_forks_have_no_picture(family):
    assert family_svg(family({"a": LINE["a"], "b": LINE["b"]})) is None
    assert family_svg([]) is None


@pytest.mark.parametrize("steps", [-5, 1e307, "many", None, [1]])
def test_records_of_strangers_do_no_harm(family, steps):
    runs = family({"a": LINE["a"], "<b>&\x1b": ([None], "a", 2, -1.0), "c": ([], "c", 0, 0.0)})
    origin = dict(runs[1].facts[FORKED_FROM], env_steps=steps, epoch=steps)
    runs[1].facts[FORKED_FROM] = origin
    picture = family_svg(runs)
    assert "nan" not in picture
    assert "\x1b" not in picture
    assert ET.fromstring(picture) is not None
