"""The reference pages are those of the code, and every link leads somewhere."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from maze_core import Plugin, RunContext, hookimpl
from tests.repository import files

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    str(page.relative_to(ROOT)) for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *files("README.md")]
)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@pytest.fixture(scope="module")
def generate() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))  # it imports its neighbours late, too
        yield _script("generate")


@pytest.fixture(scope="module")
def page_of(generate: ModuleType) -> Callable[[str], str]:
    """`page_of(name)`: a page of the reference as the code has it, made once."""
    return cache(generate.render)


@pytest.mark.parametrize("script", ["structure", "charts", "diagrams"])
def test_drawn_pictures_are_up_to_date_and_on_a_page(script: str) -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("docs/**/*.md"))
    for name, drawn in _script(script).pictures().items():
        committed = (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8")
        assert committed == drawn, f"docs/pictures/{name} shows neither code nor figures of today: run `make docs`"
        assert f"pictures/{name})" in shown, f"no page shows docs/pictures/{name}"


def test_every_algorithm_with_figures_shows_its_picture() -> None:
    charts = _script("charts")
    for page in ROOT.glob("docs/algorithms/*.md"):
        text = page.read_text(encoding="utf-8")
        assert text == charts.with_pictures(page.stem, text), f"{page}: run `make docs`"


def test_the_gallery_is_not_older_than_what_it_shows() -> None:
    made = json.loads((ROOT / "docs" / "pictures" / "made.json").read_text(encoding="utf-8"))
    assert _script("gallery").shown() == made, "commands, presets or columns have changed: run `make gallery`"


def test_a_run_calls_its_hooks_in_the_order_of_the_picture(tmp_path: Path) -> None:
    called: list[str] = []  # in the order of the last calls: the best checkpoint is written within on_epoch_end

    def note(name: str) -> None:
        called[:] = [*(each for each in called if each != name), name]

    class Notes(Plugin):
        """Notes which hooks are called."""

        @hookimpl
        def build_modules(self, run: Any) -> None:
            note("build_modules")

        @hookimpl
        def wrap_agent(self, run: Any, agent: Any, env: Any) -> None:
            note("wrap_agent")

        @hookimpl
        def on_run_start(self, run: Any) -> None:
            note("on_run_start")

        @hookimpl
        def change_rollout(self, run: Any, rollout: Any) -> None:
            note("change_rollout")

        @hookimpl(wrapper=True)
        def compute_loss(self, policy: Any, batch: Any) -> Any:
            note("compute_loss")
            return (yield)

        @hookimpl
        def on_metrics(self, run: Any, metrics: Any) -> None:
            note("on_metrics")

        @hookimpl
        def on_epoch_end(self, run: Any, epoch: Any) -> None:
            note("on_epoch_end")

        @hookimpl
        def on_checkpoint(self, run: Any, path: Path) -> None:
            note("on_checkpoint")

        @hookimpl
        def on_run_end(self, run: Any, summary: Any) -> None:
            note("on_run_end")

    quick = {"algorithm.epoch_length": 1, "algorithm.n_rollout_steps": 8, "evaluation.n_episodes": 1}
    settings = {"callbacks": {"notes": Notes}, "overrides": quick, "preset": "none", "silent": True}
    with RunContext("CartPole-v1", "ppo", epochs=1, run_dir=tmp_path / "run", **settings) as context:
        context.train()
    drawn = [name for hooks in _script("structure").TIMELINE.values() for name in hooks]
    assert called == [name for name in drawn if name in called]
    assert len(called) == 9


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))  # as for a script: it imports its neighbours
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "page", ["configuration.md", "cli.md", "hooks.md", "authors.md", "conformance.md", "abilities.md"]
)
def test_reference_pages_are_up_to_date(page: str, generate: Any, page_of: Callable[[str], str]) -> None:
    committed = _sections((ROOT / "docs" / "reference" / page).read_text(encoding="utf-8"))
    generated = _sections(page_of(page))
    for entry in generate.missing():  # a plugin that is not installed cannot be compared
        for heading in (entry.heading, "maze train", f"maze train {entry.name}"):
            committed.pop(heading, None)
            generated.pop(heading, None)
    wrong = [heading for heading in {**committed, **generated} if committed.get(heading) != generated.get(heading)]
    assert not wrong, f"docs/reference/{page} does not tell what the code says: run `make docs` ({', '.join(wrong)})"


@pytest.mark.parametrize("page", ["docs/index.md"])
def test_the_table_of_algorithms_is_up_to_date(page: str, generate: Any) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == generate.with_table(page), "run `make docs`"
    assert "[`ppo`]" in generate.overview("")


SHOWN = {
    "maze_core.data.sequences.Sequences": "Sequences(lengths: np.ndarray, state: TensorTree, order:",
    "maze_core.envs.vector.Episode": "Episode(",
    "maze_actors.agents.Round": "Round(acting: Mapping[str, Any], rewards:",
    "maze_core.envs.builder.EnvBuilder": "EnvBuilder(",
    "maze_core.models.distributions.continuous.BoxScale": "BoxScale(space: Box)",
    "maze_core.run.episodes.statistics.EpochStatistics": "EpochStatistics()",
    "maze_core.data.batch.OwnStep": "OwnStep(take: Callable[[], Mapping[str, Tensor]], parameters: Sequence[Tensor])",
    "maze_core.collect.agents.agent.Choice": "Choice(samples: Tree, actions: Tree)",
    "maze_sweep.searchers.base.Wait": "Wait()",
}
"""Classes that authors build, and how their constructors are shown to begin."""
FAMILIES = (
    ("*", r"^class (\w+)\(Collector\)"),
    ("*", r"^class (\w+)\(Selector\)"),
    ("families.py", r"^class (\w+Head)\("),
)


def test_authors_find_the_constructor_of_what_they_build() -> None:
    sections = _sections((ROOT / "docs" / "reference" / "authors.md").read_text(encoding="utf-8"))
    for place, beginning in SHOWN.items():
        body = sections[f"Class `{place.rpartition('.')[2]}`"]
        assert body.startswith(f"`{place}`"), place
        assert f"```python\n{beginning}" in body, place


@pytest.mark.parametrize(("place", "pattern"), FAMILIES)
def test_every_collector_selector_and_head_is_there_with_its_constructor(place: str, pattern: str) -> None:
    sections = _sections((ROOT / "docs" / "reference" / "authors.md").read_text(encoding="utf-8"))
    sources = [path for top in ("maze_core", "libraries") for path in (ROOT / top).rglob("*.py") if path.match(place)]
    names = [name for file in sources for name in re.findall(pattern, file.read_text(), re.MULTILINE)]
    assert len(names) >= 2
    for name in names:
        assert f"```python\n{name}(" in sections[f"Class `{name}`"], name


def test_reference_pages_do_not_depend_on_the_terminal(
    generate: Any, page_of: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = page_of("cli.md")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert generate.render("cli.md") == before
    assert "\x1b" not in before


def test_links_lead_somewhere() -> None:
    links = [(page, target) for page in PAGES for target in LINK.findall(_without_code(ROOT / page))]
    assert len(links) > 1000
    for page, target in links:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent.joinpath(path).resolve() if path else ROOT / page
        assert file.exists(), f"{page}: {target} does not exist"
        assert not anchor or anchor in _anchors(file), f"{page}: {target} is no heading of {file.name}"


def test_the_index_lists_every_page() -> None:
    listed = set(LINK.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")} - {"index.md"}
    assert not pages - listed, f"docs/index.md does not list {', '.join(sorted(pages - listed))}"


def _sections(page: str) -> dict[str, str]:
    first, *others = page.split("\n## ")
    return {"": first, **{part.partition("\n")[0]: part.partition("\n")[2].strip() for part in others}}


def _without_code(file: Path) -> str:
    return FENCED.sub("", file.read_text(encoding="utf-8"))


@cache
def _anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _without_code(file), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_reference_for_authors_has_what_tutorials_and_templates_import() -> None:
    page = (ROOT / "docs" / "reference" / "authors.md").read_text(encoding="utf-8")
    sources = [ROOT / "docs" / "tutorials" / "off_policy.md", ROOT / "docs" / "guide" / "authors.md"]
    sources += (ROOT / "plugins" / "maze_devkit" / "maze_devkit" / "scaffold" / "templates").glob("*algorithm.py.txt")
    texts = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    imported = re.findall(r"^from (maze_core[\w.]*) import (?:\(([^)]+)\)|([^(#\n]+))", texts, re.MULTILINE)
    found = {(module, name) for module, lines, line in imported for name in re.split(r"[\s,]+", lines or line) if name}
    rooms = re.compile(r"maze_core\.(base\.seeding|collect|learn|models|run)\b")
    homes = {name: getattr(getattr(import_module(module), name), "__module__", "") for module, name in found}
    names = {name for name, home in homes.items() if rooms.match(home)} - {"Purpose", "Adam", "RunContext"}
    assert len(names) > 8
    types = {f"`{name}`" for name in re.findall(r"\bparams\.(\w+)", texts)}
    assert types
    wanted = types | {f"## Class `{name}`" if name[0].isupper() else f"`{name}(" for name in names}
    assert not {name for name in wanted if name not in page}


def test_the_reading_order_names_functions_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    places = re.findall(r"`([\w/]+\.py):([\w.]+)`", page)
    assert len(places) >= 10
    for file, name in places:
        text = (ROOT / file).read_text(encoding="utf-8")
        for part in name.split("."):
            assert re.search(rf"^ *(def|class) {part}\b", text, re.MULTILINE), f"{file}:{name}"
