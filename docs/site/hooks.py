"""What turns docs/ into a site: the navigation, equations, the overview, and the reference of the Python API.

mkdocs calls the functions whose names begin with `on_`; the others need nothing but Python.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OVERVIEW = "overview.md"
"""The README as a page of the site."""
API = "reference/api"
FIRST = "RunContext"
"""The name that the reference of the API begins with."""
BOOSTS = {
    "faq.md": 4.0,
    "install.md": 4.0,
    "which_": 4.0,
    "does_not_learn.md": 4.0,
    "guide/authors.md": 0.5,
    "guide/": 2.0,
    "environments/": 1.0,
    "algorithms/": 1.0,
    "tutorials/": 0.5,
    "plugins/": 0.3,
    "examples/": 0.3,
    "benchmarks/": 0.2,
    "reference/api/RunContext": 0.5,
    "reference/api": 0.02,
    "reference/": 0.1,
}
"""How much a hit of the search counts, by the beginning of its page's path: answers before guides before references."""
_WORDS = re.compile(r"<!-- search: (.+?) -->", re.DOTALL)
_ITEM = re.compile(r"- \[(?P<title>[^\]]+)\]\((?P<page>[^)#]+\.md)\)")
_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#:]+)(?=[)#])")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
_EM = 100
"""Units of a formula's picture in the height of a line."""
_STROKES = {1: ("M", 1), 2: ("L", 1), 3: ("Q", 2), 4: ("C", 3), 79: ("Z", 1)}
"""matplotlib's codes of a path: the letter in SVG, and how many points it takes."""


# Navigation


def navigation(index: str) -> list[dict[str, Any]]:
    """The headings of docs/index.md with the pages that are listed below each, as mkdocs takes them."""
    entries: list[dict[str, Any]] = []
    pages: list[Any] = []
    for line in index.splitlines():
        if line.startswith("## "):
            entries.append({line[3:]: (pages := [])})
        elif line.startswith("### "):
            entries[-1][next(iter(entries[-1]))].append({line[4:]: (pages := [])})
        elif found := _ITEM.match(line):
            pages.append({found["title"]: found["page"]})
    return entries


# Pages from outside of docs/


def outside() -> dict[Path, str]:
    """The READMEs of this repository, with the pages that they become."""
    found = {ROOT / "README.md": OVERVIEW}
    for folder in ("libraries", "plugins", "examples"):
        for file in sorted((ROOT / folder).glob("*/README.md")):
            found[file] = f"{folder}/{file.parent.name}.md"
    return found


def relinked(text: str, file: Path, page: str) -> str:
    """The text of a file as that of a page: its links lead to pages of the site."""
    places = outside()

    def lead(link: re.Match[str]) -> str:
        target = (file.parent / link["target"]).resolve()
        inside = target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else None
        place = places.get(target, inside)
        return link["target"] if place is None else Path(os.path.relpath(place, Path(page).parent)).as_posix()

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(lead, part) for part in parts)


# The Python API


def promised() -> list[str]:
    """The modules that the page on compatibility promises, packages as all of their modules, in its order."""
    page = (DOCS / "guide" / "compatibility.md").read_text(encoding="utf-8")
    lists = page.partition("## Modules that plugins may import")[2].partition("\n## ")[0]
    named = re.findall(r"^- `(maze_\w+(?:\.[a-z]\w*)*)`$", lists, re.MULTILINE)
    kept = [name for name in dict.fromkeys(named) if name != "maze_core"]
    return [module for name in kept for module in _modules(name)]


def exported() -> dict[str, str]:
    """The names in `maze_core`, with the module that defines each."""
    tree = ast.parse((ROOT / "maze_core" / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            homes: dict[str, str] = ast.literal_eval(node.value)
            return homes
    raise LookupError("maze_core/__init__.py has no _HOMES")


def path_of(module: str) -> Path:
    """The file of a module; the `__init__.py` of a package."""
    top = module.partition(".")[0]
    base = ROOT if top == "maze_core" else next(ROOT.glob(f"*/{top}/pyproject.toml")).parent
    path = base.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _modules(name: str) -> Iterator[str]:
    file = path_of(name)
    if file.name != "__init__.py":
        yield name
        return
    for each in sorted(file.parent.rglob("*.py")):
        parts = each.relative_to(file.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") or "template" in part for part in parts[:-1]):
            yield ".".join((name, *parts))


@cache
def documented(module: str) -> list[str]:
    """The public names with a docstring that a module defines: classes, functions, values with a text below."""
    body = ast.parse(path_of(module).read_text(encoding="utf-8")).body
    found = []
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names, text = [node.name], ast.get_docstring(node)
        else:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            text = (
                getattr(getattr(following, "value", None), "value", None) if isinstance(following, ast.Expr) else None
            )
        found += [name for name in names if text and not name.startswith("_")]
    return found


def api_pages() -> dict[str, str]:
    """The pages of the API reference by path: one for each package, with all that its modules document."""
    homes = exported()
    pages: dict[str, list[str]] = {}
    modules = promised()
    for module in modules:
        if documented(module):
            pages.setdefault(_group(module), []).append(f"## `{module}`\n\n::: {module}")
    for name, home in homes.items():
        if home not in modules:
            block = (
                f"## `{home}`\n\n::: {home}.{name}\n    options: {{show_root_heading: true, show_root_toc_entry: true}}"
            )
            pages.setdefault(_group(home), []).append(block)
    return {
        f"{API}/{group}.md": f"# `{group}`\n\n" + "\n\n".join(parts) + "\n" for group, parts in sorted(pages.items())
    }


def _group(module: str) -> str:
    """The page that a module is on: that of its package; the modules right in `maze_core` share one.

    What programs begin with has its own, which is the first.
    """
    if module == exported()[FIRST]:
        return FIRST
    top, *rest = module.split(".")
    return ".".join((top, rest[0])) if top == "maze_core" and len(rest) > 1 else top


def api_index() -> str:
    """What the page of the API lists on the site: every name of `maze_core`, and the packages."""
    names = [f"- [`{name}`][{home}.{name}]" for name, home in sorted(exported().items(), key=_place)]
    packages = [f"- [`{Path(page).stem}`](api/{Path(page).name})" for page in api_pages()]
    return "\n".join(["## Names in `maze_core`", "", *names, "", "## Packages and modules", "", *packages, ""])


def _place(item: tuple[str, str]) -> tuple[bool, str]:
    """Where a name stands in the list."""
    return item[0] != FIRST, item[0]


# Equations


def equation(source: str, *_: Any, **__: Any) -> str:
    r"""A `math` block as pictures without fonts: lines of LaTeX that end with `\\\\`, in columns parted by `&`."""
    text = re.sub(r"\\(begin|end)\{aligned\}", "", source)
    rows = [row.split("&") for row in text.split(r"\\") if row.strip()]
    cells = ["".join(f"<span>{drawn(' '.join(cell.split()))}</span>" for cell in row) for row in rows]
    return f'<div class="equation"><div>{"".join(f"<div>{row}</div>" for row in cells)}</div></div>'


def drawn(formula: str) -> str:
    """A formula of LaTeX as an SVG in the colour and size of the text around it; its bottom hangs below the line."""
    from matplotlib import rc_context
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    if not formula:
        return ""
    with rc_context({"mathtext.fontset": "cm"}):
        painter, size = TextToPath(), FontProperties(size=_EM)
        width, height, depth = painter.get_text_width_height_descent(f"${formula}$", size, ismath=True)
        points, codes = painter.get_text_path(size, f"${formula}$", ismath=True)
    outline, at = [], 0
    while at < len(codes):
        letter, used = _STROKES[int(codes[at])]
        where = (
            "" if letter == "Z" else " ".join(f"{x:.0f} {height - depth - y:.0f}" for x, y in points[at : at + used])
        )
        outline.append(letter + where)
        at += used
    place = f"height:{height / _EM:.2f}em;vertical-align:{-depth / _EM:.2f}em"
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" style="{place}"'
    return f'<svg {box} role="img" aria-label="{escape(formula)}"><path d="{"".join(outline)}"/></svg>'


# mkdocs


def on_config(config: Any) -> Any:
    """Set the navigation, and how headings become anchors and equations MathML."""
    entries = navigation((DOCS / "index.md").read_text(encoding="utf-8"))
    readmes = [{Path(page).stem: page} for page in outside().values() if page != OVERVIEW]
    api = [{"All names": f"{API}.md"}, *({Path(page).stem: page} for page in api_pages())]
    for entry in entries:
        for pages in entry.values():
            pages[:] = [{"Python API": api} if page == {"Python API": f"{API}.md"} else page for page in pages]
    next(iter(entries[0].values())).insert(0, {"Overview": OVERVIEW})
    config.nav = [{"Home": "index.md"}, *entries, {"Packages": readmes}]
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    fences = [{"name": "math", "class": "equation", "format": equation}]
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = fences
    return config


def slug(heading: str, separator: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    readmes = {page: relinked(file.read_text(encoding="utf-8"), file, page) for file, page in outside().items()}
    for path, text in {**readmes, **api_pages()}.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links to READMEs to their pages, list the API on its page, and tell the search of a page what it needs."""
    path = page.file.src_uri
    page.meta["search"] = {"boost": boost(path)}
    if asked := words(markdown):
        page.meta["tags"] = asked
    text = relinked(markdown, DOCS / path, path) if (DOCS / path).is_file() else markdown
    return text + "\n" + api_index() if path == f"{API}.md" else text


def boost(path: str) -> float:
    """How much a hit on a page counts."""
    return next((factor for beginning, factor in BOOSTS.items() if path.startswith(beginning)), 1.0)


def words(markdown: str) -> list[str]:
    """What people search who mean this page, where it says it otherwise: `<!-- search: one, two words -->`."""
    return [each.strip() for found in _WORDS.findall(markdown) for each in found.split(",")]


_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
_PICTURE = re.compile(r'(?<=<p>)(<img [^>]*?src="([^"]+)"[^>]*>)(?=</p>)')
"""A picture that stands alone, with its address."""


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Show `|` in the code of tables, where Markdown needs a backslash before it; keep a number with its `±`, and the
    hyphens of an option in the text with its name; lead pictures to their files, where a phone can enlarge them."""
    html = re.sub(
        r"<td.*?</td>", lambda cell: cell[0].replace(r"\|", "|").replace(" ± ", "&nbsp;±&nbsp;"), html, flags=re.DOTALL
    )
    html = _PICTURE.sub(r'<a href="\2" title="The whole picture">\1</a>', html)
    return re.sub(r"<code>[^<]*</code>", lambda code: _OPTION.sub(r'<span class="option">\g<0></span>', code[0]), html)
