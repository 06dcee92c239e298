"""What a benchmark publishes is a page, or the section of one, and leaves the other sections as they are."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MACHINE = {"where": {"processor": "P", "cores": 2}, "when": "2026-11-22T08:54:26+00:00"}
ROWS = {"a: b": MACHINE, "c": {**MACHINE, "when": "2026-11-22T09:00:00+00:00"}, "d": {**MACHINE, "when": "2026-11-23"}}
PAGE = "# bsuite\n\nText.\n\n| x | y |\n| --- | ---: |\n| 1 | 2 |\n\n## Where and when\n\n"
WHERE = "- 2026-11-22, processor P, cores 2: a: b; c\n- 2026-11-23, processor P, cores 2: d\n"


@pytest.fixture
def results(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import results

    monkeypatch.setattr(results, "FOLDER", tmp_path)
    return results


def test_a_result_is_a_page(results, tmp_path):
    results.write_page("speed", PAGE.partition("\n\n|")[0], ["x", "y"], [["1", "2"]], ROWS)
    assert (tmp_path / "speed.md").read_text() == PAGE + WHERE


def test_a_result_is_a_section_between_its_comments(results, tmp_path):
    before, after = "# Exams\n\n<!-- bsuite: begin -->\n", "<!-- bsuite: end -->\n\n<!-- popgym: begin -->\n# kept\n"
    page = tmp_path / "exams.md"
    for old in ("", "old\n\n## Where and when\n"):
        page.write_text(before + old + after)
        results.write_page("bsuite", "# bsuite\n\nText.", ["x", "y"], [["1", "2"]], ROWS)
        section = (
            PAGE.replace("# ", "## ").replace("### Where and when", "### Where and when: bsuite").replace("####", "###")
        )
        assert page.read_text() == f"{before}\n{section}{WHERE}\n{after}"


def test_a_page_without_the_comments_is_left(results, tmp_path):
    (tmp_path / "exams.md").write_text("# Exams\n")
    with pytest.raises(ValueError, match="bsuite: begin"):
        results.write_page("bsuite", "# bsuite", ["x"], [["1"]], ROWS)


def test_every_section_has_its_place(results):
    for page, names in results.SHARED.items():
        text = (ROOT / "docs" / "benchmarks" / f"{page}.md").read_text(encoding="utf-8")
        for name in names:
            assert text.count(f"<!-- {name}: begin -->\n\n## ") == text.count(f"\n\n<!-- {name}: end -->") == 1


@pytest.mark.parametrize("page", ["attack"])
def test_a_page_is_that_of_its_figures(results, tmp_path, page):
    published = ROOT / "docs" / "benchmarks"
    (tmp_path / f"{page}.json").write_bytes((published / f"{page}.json").read_bytes())
    importlib.import_module(page).write_page()
    assert (tmp_path / f"{page}.md").read_text() == (published / f"{page}.md").read_text()


def test_a_report_is_that_of_the_most_whole_runs(results):
    whole = importlib.import_module("five_algorithms").whole
    every = ["classic", "pendulum", "shop", "lake", "grid"]
    assert whole({"a": every, "b": every[:3], "c": every[:1], "d": []}) == (["a", "b"], every[:3])
    assert whole({"a": every, "b": every}) == (["a", "b"], every)
