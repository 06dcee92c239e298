"""What the pages say of defaults is what the program has."""

import re
from functools import cache
from pathlib import Path

import pytest

from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import assemble
from maze_core.plugins.config.flags import flags
from tests.repository import files, parts

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"^\| parameter \| default \| meaning \|\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)
PAGES = sorted(
    page
    for page in [*ROOT.glob("docs/**/*.md"), *files("README.md")]
    if "reference" not in page.parts and page.stem != "rllib" and TABLE.search(page.read_text())
)
"""That of RLlib gives the defaults of several algorithms in one cell."""
PROSE = re.compile(r"[^.]*defaults? (?:for|of) the model (?:is|are)(?:[^.`]|`[^`]*`)*\.")
NAMES = {"TD3+BC": "td3_bc", "FastTD3": "fast_td3"}
"""Names of algorithms in prose."""


def rows(text):
    """The parameters of the tables of a text with their defaults, as texts."""
    for table in TABLE.finditer(text):
        for line in table[1].splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            names, defaults = re.findall(r"`([\w.]+)`", cells[0]), plain(cells[1])
            if len(names) == 1:
                yield names[0], defaults
            else:
                yield from zip(names, divided(defaults, len(names)), strict=False)


def plain(cell):
    """A default without its remarks in brackets, and without the marks of code."""
    return re.sub(r"\s*\([^)]*\)", "", cell).replace("`", "").strip()


def divided(defaults, count):
    """Several defaults in one cell; one counts for all."""
    parts = re.split(r",\s+", defaults)
    return parts * count if len(parts) == 1 else parts


KINDS = ("algorithm", "env", "callback", "wrapper", "searcher", "memory", "runner")


@cache
def flags_of(kind, name):
    return flags(discovery.load(kind, name).Config)


def known_of(page, own):
    """The defaults of the plugins that a page may speak of, those of its package or all; its own ones are marked."""
    packages = {package_of(each) for each in discovery.declarations() if each.name == own and each.kind in KINDS}
    packages |= {page.parent.name} if page.name == "README.md" else set()
    packages |= {"maze_core", "maze_local"} if packages else set()
    found = {}
    for each in discovery.declarations():
        package = package_of(each)
        if each.kind in KINDS and package != "maze_rllib" and (not packages or package in packages):
            for flag in flags_of(each.kind, each.name):
                found.setdefault(flag.field, []).append((each.name == own, each.name, flag.default))
    return {field: sorted(given, reverse=True) for field, given in found.items()}


def package_of(declaration):
    return declaration.entry_point.module.partition(".")[0]


def same(said, default):
    """True where a page's default is the program's; for none, a page may say in words what that means."""
    if said in ("", "required", "-") or default == "" or (default in ("none", "[]") and re.search("[a-z]", said)):
        return True
    if default.startswith("{schedule"):
        return said == " to ".join(re.findall(r"(?:from|to): ([\d.]+)", default))
    try:
        return float(said.replace(",", "").replace("\N{MINUS SIGN}", "-")) == float(default.replace(",", ""))
    except ValueError:
        return said.strip("[]").replace(", ", ",") == default.strip("[]").replace(", ", ",")


@pytest.mark.usefixtures("known_plugins")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_of_parameters_have_the_defaults_of_the_program(page):
    wrong = []
    for own, text in of_algorithms(page) if page.parts[-2] == "algorithms" else [(page.parent.name, page.read_text())]:
        known = known_of(page, own)
        for name, said in rows(text):
            given = known.get(name.rpartition(".")[2], [])
            named = [each for each in given if each[0]] or given
            if not any(same(said, default) for _, _, default in named):
                wrong.append((own, name, said, named[:3]))
    assert wrong == []


def of_algorithms(page):
    """The algorithms of a page, with what is said of each."""
    return parts(page, discovery.names("algorithm"))


@pytest.mark.usefixtures("known_plugins")
def test_the_algorithms_that_normalise_observations_are_those_that_the_page_names():
    said = re.search(r"It is the default of ([^;]*);", (ROOT / "docs/guide/models.md").read_text())[1]
    named = {NAMES.get(name, name.lower()) for name in re.split(r",\s+|\s+and\s+", said)}
    assert {name for name in trainable() if assemble(name, "Pendulum-v1", "none").model.normalize_observations} == named


def trainable():
    """The algorithms that need no further settings to be configured."""
    return set(discovery.names("algorithm")) - {"sacfd"}


@pytest.mark.usefixtures("known_plugins")
@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/algorithms/*.md")), ids=lambda page: page.stem)
def test_defaults_of_the_model_in_prose(page):
    for name, text in of_algorithms(page):
        for sentence in re.findall(PROSE, " ".join(text.split())):
            model = assemble(name, "Pendulum-v1", "none").model.model_dump(mode="json")
            for field, value in re.findall(r"`(?:model\.)?(\w+): ([^`]+)`", sentence):
                assert same(value, str(model[field]).lower()), (name, field, value, model[field])


@pytest.mark.usefixtures("known_plugins")
def test_defaults_of_wrappers():
    """`parameter` (default) in the tables of wrappers."""
    checked = 0
    for line in (ROOT / "docs/guide/wrappers.md").read_text().splitlines():
        name = re.match(r"\| `(\w+)` \|", line)
        if name is None or name[1] not in discovery.names("wrapper"):
            continue
        known = {flag.field: flag.default for flag in flags(discovery.load("wrapper", name[1]).Config)}
        for field, value in re.findall(r"`(\w+)` \(([^)]+)\)", line):
            if field in known:
                checked += 1
                value = value.split("`")[1] if value.startswith("`") else value
                assert same(plain(value), known[field]), (name[1], field, value, known[field])
    assert checked > 20
