"""The pages form a site: navigation, reference of every promised name, equations, pictures, links.

The slow test builds it as `make site` does, with what `make setup-site` installs.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest

import maze_core
from maze_core.base.bundled import LIBRARIES
from maze_core.plugins import discovery
from maze_core.plugins.config.flags import flags
from maze_core.plugins.config.run import EvaluationConfig, RunConfig
from tests.docs.test_search import SEARCHES
from tests.maze_view import browser as browsers
from tests.repository import folder_of, parts

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SECTIONS = [
    *("Equations", "Parameters", "Metrics"),
    *("Implementation details that matter", "Measured", "References"),
]
ALGORITHMS = sorted(page.stem for page in DOCS.glob("algorithms/*.md") if page.stem != "rllib")


@pytest.fixture(scope="module")
def hooks() -> Any:
    return _module("docs_hooks", DOCS / "site" / "hooks.py")


def _module(name: str, file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Navigation and reference


def test_options_and_numbers_are_not_broken(hooks: Any) -> None:
    html = r"<p><code>maze eval RUN --set a=1 -n 3</code></p><td>1 ± 2 <code>a \| b-c</code></td>"
    options = '<span class="option">--set</span> a=1 <span class="option">-n</span> 3'
    cell = "<td>1&nbsp;±&nbsp;2 <code>a | b-c</code></td>"
    assert hooks.on_page_content(html, None, None, None) == f"<p><code>maze eval RUN {options}</code></p>{cell}"


def test_the_navigation_has_every_page_once(hooks: Any) -> None:
    found = list(_leaves(hooks.navigation((DOCS / "index.md").read_text(encoding="utf-8"))))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"index.md"}
    missing = sorted(pages - set(found))
    assert not missing, f"docs/index.md, from which the navigation is made, does not list {', '.join(missing)}"
    assert sorted(found) == sorted(set(found))


def test_headings_of_two_levels_become_sections(hooks: Any) -> None:
    index = "# T\n\n## A\n\n- [One](one.md): text\n\n### B\n\n- [Two](b/two.md): text, [three](three.md)\n\n## C\n"
    assert hooks.navigation(index) == [{"A": [{"One": "one.md"}, {"B": [{"Two": "b/two.md"}]}]}, {"C": []}]


def _leaves(entry: Any) -> Any:
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from _leaves(each)


def test_every_promised_module_and_name_is_in_the_reference(hooks: Any) -> None:
    text = "\n".join(hooks.api_pages().values())
    shown = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    promise = (DOCS / "guide" / "compatibility.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(maze_(?:core|devkit|recordings|sweep)\.[a-z_.]+)`", promise))
    names |= {"maze_devkit", *LIBRARIES}
    missing = []
    for name in sorted(names):
        place = folder_of(name.partition(".")[0]).joinpath(*name.split("."))
        for file in [place.with_suffix(".py")] if place.with_suffix(".py").is_file() else place.rglob("*.py"):
            module = ".".join(file.relative_to(place.parents[name.count(".")]).with_suffix("").parts)
            module = module.removesuffix(".__init__")
            missing += [module] if _documented(file) and module not in shown else []
    assert not missing
    index = hooks.api_index()
    assert sorted(hooks.exported()) == maze_core.__all__
    for name, home in hooks.exported().items():
        assert home in shown or f"{home}.{name}" in shown, name
        assert f"[`{name}`][maze_core." in index


def _documented(file: Path) -> list[str]:
    """The public classes and functions of a file that have a docstring."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    kinds = (ast.ClassDef, ast.FunctionDef)
    found = [node for node in body if isinstance(node, kinds) and ast.get_docstring(node)]
    return [node.name for node in found if not node.name.startswith("_")]


def test_readmes_lead_to_pages_of_the_site(hooks: Any) -> None:
    text = "[a](../../README.md#start) [b](../../docs/index.md)\n```\n[c](../../README.md)\n```\n[d](https://x.org/README.md)"
    page = hooks.relinked(text, ROOT / "plugins" / "maze_view" / "README.md", "plugins/maze_view.md")
    assert page == text.replace("[a](../../README.md", "[a](../overview.md").replace(
        "../../docs/index.md", "../index.md"
    )


# Equations and pictures


@pytest.mark.parametrize("page", [page for page in DOCS.rglob("*.md") if "```math" in page.read_text()], ids=str)
def test_every_equation_can_be_drawn(page: Path, hooks: Any) -> None:
    for source in re.findall(r"^```math\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        picture = hooks.equation(source)
        assert picture.count("<svg") >= source.count("&") + 1
        assert "begin" not in picture


def test_an_equation_is_drawn_as_it_is_written(hooks: Any) -> None:
    one, two = hooks.equation("x"), hooks.equation("\\begin{aligned}\nx &= y \\\\\n  &= z < 1\n\\end{aligned}\n")
    assert (one.count("<svg"), two.count("<svg")) == (1, 3)
    assert 'aria-label="= z &lt; 1"' in two
    height = float(re.search(r"height:([\d.]+)em", one)[1])  # type: ignore[index]
    assert 0.3 < height < 0.7  # the x-height of a font


def test_pictures_are_small_and_ask_for_nothing() -> None:
    shown = DOCS / "pictures"
    pages = [page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *DOCS.rglob("*.md")]]
    named = {name for page in pages for name in re.findall(r"\((?:\.\./|docs/)?pictures/([\w./-]+)\)", page)}
    pictures = {file.relative_to(shown).as_posix(): file for file in shown.rglob("*.*") if file.suffix != ".json"}
    assert named == set(pictures)
    assert all(file.stat().st_size < (500_000 if file.suffix == ".gif" else 150_000) for file in pictures.values())
    for name in named:
        if name.endswith(".svg"):
            assert not re.findall(r"(?:href|url|src)\W+https?:|@font-face|@import", pictures[name].read_text()), name


# Pages of algorithms, and of other libraries


@pytest.mark.parametrize("page", ALGORITHMS)
def test_pages_of_algorithms_are_alike(page: str) -> None:
    for name, text in _described(page):
        headings = re.findall(r"^##+ (.+)$", text, re.MULTILINE)
        assert [each for each in headings if each in SECTIONS] == (SECTIONS if name == page else []), name
        for each in SECTIONS[:-1] if name != page else ():
            wanted = rf"({each.partition(' that')[0]} of .+|.+, {each.lower()})"
            assert any(re.fullmatch(wanted, heading) for heading in headings), (name, each)
        assert f"../reference/configuration.md#algorithm-{name}" in text


@pytest.mark.parametrize("page", ALGORITHMS)
def test_parameters_on_pages_of_algorithms_exist(page: str) -> None:
    for name, text in _described(page):
        section = re.split(r"^##+ Parameters.*\n", text, flags=re.MULTILINE)[1]
        section = re.split(r"^##", section, flags=re.MULTILINE)[0]
        cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
        named = {each for cell in cells for each in re.findall(r"`([\w.]+)`", cell)}
        assert named, name
        known = _fields(name) | {f"runner.{each}" for each in _fields_of("runner", "local")}
        assert not named - known, name


def _described(page: str) -> Iterator[tuple[str, str]]:
    """Yield the algorithms of a page with what is said of each."""
    return parts(DOCS / "algorithms" / f"{page}.md", discovery.names("algorithm"))


def test_our_names_beside_those_of_other_libraries_exist() -> None:
    page = (DOCS / "coming_from.md").read_text(encoding="utf-8")
    last = [row.rsplit("|", 2)[1] for row in page.splitlines() if row.startswith("|")]
    named = {each for cell in last for each in re.findall(r"`((?:algorithm|model|evaluation)\.\w+)`", cell)}
    algorithms = {each for name in ("ppo", "sac", "td3", "dqn") for each in _fields(name)}
    known = {f"algorithm.{each}" for each in algorithms} | {f"model.{each}" for each in _fields_of("model", "mlp")}
    known |= {f"evaluation.{flag.field}" for flag in flags(EvaluationConfig)}
    assert len(named) > 30
    assert not named - known
    assert {"steps", "seed"} <= {flag.field for flag in flags(RunConfig)}


def _fields(algorithm: str) -> set[str]:
    return _fields_of("algorithm", algorithm)


def _fields_of(kind: str, name: str) -> set[str]:
    plugin: Any = discovery.load(kind, name)
    assert inspect.isclass(plugin)
    return {flag.field for flag in flags(plugin.Config)}


# The site


class _Page(HTMLParser):
    """Anchors of a page, what it links to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value for key, value in attrs if value}
        self.ids |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag != "meta":
            self.loads += [given[key] for key in ("src", "href", "srcset", "data") if key in given]


def build(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as `make site` does. Not with `--quiet`: it hides warnings from `--strict`."""
    settings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(command, cwd=root, env=settings, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("mkdocs", "material", "mkdocstrings_handlers.python"):
        pytest.importorskip(package, reason="make setup-site installs it")
    folder: Path = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {file: _Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}


@pytest.mark.slow
def test_the_site_is_whole(site: Path, pages: dict[Path, _Page], hooks: Any) -> None:
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    wrong = []
    for file, page in pages.items():
        for link in [*page.links, *page.loads]:
            if re.match(r"(https?|mailto|data|javascript):", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (file.parent / path).resolve() if path else file
            if file.name == "404.html":  # it stands at any address, so its links begin at the root
                target = site / path.lstrip("/")
            if not target.is_file():
                wrong.append(f"{file.name}: {link}")
            elif anchor and target in pages and anchor not in pages[target].ids | {"__tabbed", "__skip"}:
                wrong.append(f"{file.name}: no anchor {link}")
    assert not wrong
    foreign = {load for page in pages.values() for load in page.loads if re.match(r"(https?:)?//", load)}
    assert not foreign, "loaded from the network"
    assert not [file.name for file in pages if re.search(r"<td[^>]*>[^<]*<code>[^<]*\\\|", file.read_text())]


@pytest.mark.slow
def test_mistakes_end_the_build(site: Path, tmp_path: Path) -> None:
    for name in ("maze_core", "libraries", "plugins", "examples", "README.md", "mkdocs.yml"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(DOCS, tmp_path / "docs")
    for page in (tmp_path / "docs").rglob("*.md"):  # what is on them, and the reference that one asks for, takes time
        if page.name not in ("index.md", "runs.md"):
            page.write_text("# A page\n", encoding="utf-8")
    mistakes = "[a](runs.md#nowhere) [b](nothing.md) [c](../../nothing/README.md)"
    (tmp_path / "docs" / "guide" / "more.md").write_text(f"# More\n\n{mistakes}\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING") or "guide/more.md" in line]
    for wanted in ("#nowhere", "nothing.md", "nothing/README.md", "  - guide/more.md"):
        assert any(wanted in line for line in warnings), (wanted, done.stderr)


@pytest.mark.slow
def test_the_site_documents_every_promised_name(pages: dict[Path, _Page], hooks: Any) -> None:
    ids = set().union(*(page.ids for page in pages.values()))
    wanted = {f"{module}.{name}" for module in hooks.promised() for name in _documented(hooks.path_of(module))}
    wanted |= {f"{home}.{name}" for name, home in hooks.exported().items()}
    assert len(wanted) > 300
    assert not wanted - ids


QUESTIONS = {
    "new learning rate": "--lr 1e-4",
    "set learning rate": "--lr 1e-4",
    "own network": "torch.nn.Module",
    "custom policy network": "torch.nn.Module",
    "W&B": "callbacks.wandb",
    "wandb": "callbacks.wandb",
    "which algorithm": "begin with",
    "which parameters": "gamma",
    "hyperparameters": "gamma",
    "does not learn": "look at",
    "docker": "Dockerfile",
    "cluster": "runner ray",
    "docker or cluster": "--runner ray",
    "action masks": "action_mask",
    "invalid actions": "action_mask",
    "frame stack": "--wrappers stack",
    "stack frames": "--wrappers stack",
    "install": "make setup",
    "pip install": "make setup",
}
"""What users type, and what the section of the first hit must have."""
ANSWERS = ("faq", "install", "which_", "does_not_learn", "guide/")


@pytest.fixture(scope="module")
def browser(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    program = browsers.find()
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    browser = browsers.Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def search(browser: Any) -> None:
    """Open the search of a page."""
    for act in ("querySelector('#__search').click()", "querySelector('.md-search__input').focus()"):
        browser.run(f"document.{act}")


def found(browser: Any, words: str) -> list[str]:
    """Where the hits of a search lead to, the best first."""
    shown = "[...document.querySelectorAll('.md-search-result__link')].map(each => each.href)"
    for typed in ("", words):
        browser.run(
            f"(() => {{ const field = document.querySelector('.md-search__input'); field.value = {json.dumps(typed)};"
            "for (const kind of ['input', 'keyup']) field.dispatchEvent(new Event(kind, {bubbles: true})); })()"
        )
        deadline = time.monotonic() + 120
        while bool(hits := browser.run(shown)) != bool(typed) and time.monotonic() < deadline:
            time.sleep(0.05)
    return list(hits)


@pytest.mark.slow
def test_the_site_opens_from_disk_without_a_network(site: Path, browser: Any) -> None:
    browser.open(site / "algorithms" / "ppo.html")
    assert browser.run("document.querySelector('.equation svg').getBoundingClientRect().height") > 5
    search(browser)
    assert len(found(browser, "clip_range")) > 1
    assert not browser.problems()
    assert {url.partition(":")[0] for url in browser.requests()} <= {"file", "about", "blob"}


@pytest.mark.slow
def test_the_browser_finds_what_people_search_among_the_first_three(site: Path, browser: Any) -> None:
    browser.open(site / "index.html")
    search(browser)
    wrong = {}
    for page, asked in SEARCHES.items():
        for words in asked:
            places = [unquote(hit.partition("#")[0].partition("?")[0]) for hit in found(browser, words)]
            pages = [Path(place.removeprefix("file://")).relative_to(site).as_posix() for place in places]
            first = list(dict.fromkeys(pages))[:3]
            if page.replace(".md", ".html") not in first:
                wrong[words] = first
    assert not wrong


@pytest.mark.slow
def test_the_first_hit_answers_what_users_ask(site: Path, browser: Any) -> None:
    browser.open(site / "index.html")
    search(browser)
    wrong = []
    for words, answer in QUESTIONS.items():
        place, _, anchor = next(iter(found(browser, words)), "").partition("#")
        file = Path(unquote(place.removeprefix("file://").partition("?")[0]))
        text = file.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
        text = text.partition(f'id="{anchor}"')[2].partition("<h2")[0] if anchor else text
        page = file.relative_to(site).as_posix()
        if not page.startswith(ANSWERS) or answer not in unescape(re.sub(r"<[^>]+>", "", text)):
            wrong.append(f"{words}: {page}#{anchor}")
    assert not wrong


FITS = """(() => {
    const wide = document.documentElement.clientWidth, wrong = [];
    const scrolls = (each) => ["auto", "scroll"].includes(getComputedStyle(each).overflowX);
    const cut = (each) => {
        const right = each.getBoundingClientRect().right;
        for (let box = each.parentElement; box !== document.documentElement; box = box.parentElement) {
            if (right > box.getBoundingClientRect().right + 1 && getComputedStyle(box).overflowX !== "visible")
                return !scrolls(box);
        }
        return right > wide + 1;
    };
    const all = (what) => [...document.querySelectorAll(".md-content " + what)];
    for (const each of all("table")) if (cut(each)) wrong.push("table " + each.innerText.slice(0, 40));
    for (const each of all("pre > code"))
        if (cut(each) || (each.scrollWidth > each.clientWidth + 1 && !scrolls(each)))
            wrong.push("code " + each.innerText.slice(0, 40));
    for (const each of all("img"))
        if (each.getBoundingClientRect().right > each.closest("article").getBoundingClientRect().right + 1)
            wrong.push("picture " + each.getAttribute("src"));
    if (document.documentElement.scrollWidth > wide + 1) wrong.push("the page scrolls sideways");
    return wrong;
})()"""
"""Which tables, code and pictures are cut; wide tables and code scroll in their boxes, pictures shrink."""
WIDE = (
    "index",
    "gallery",
    "install",
    "guide/runs",
    "guide/sweeps",
    "guide/python",
    "algorithms/sac",
    "reference/hooks",
)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut(site: Path, browser: Any, width: int) -> None:
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
    wrong = {}
    figures = [f"benchmarks/{page.stem}" for page in sorted(DOCS.glob("benchmarks/*.md"))]
    for name in (*WIDE, *figures) if width < 500 else WIDE[:4]:  # what fits a telephone fits a screen
        browser.open(site / f"{name}.html")
        wrong[name] = browser.run(FITS)
    browser.ask("Emulation.clearDeviceMetricsOverride")
    assert {name: each for name, each in wrong.items() if each} == {}


def test_a_picture_leads_to_its_file(hooks: Any) -> None:
    html = '<p><img alt="A" src="../pictures/a.svg" /></p><p>Text <img src="b.svg"></p>'
    shown = hooks.on_page_content(html, None, None, None)
    assert '<p><a href="../pictures/a.svg"' in shown
    assert 'Text <img src="b.svg"></p>' in shown
