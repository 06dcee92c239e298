"""The reference of the libraries: every public class and function of each module, from its source."""

from __future__ import annotations

import ast
import importlib
import tomllib
from collections.abc import Iterator
from pathlib import Path

from described import code, line, returns

ROOT = Path(__file__).resolve().parents[1]
MARK = "maze-library"
"""The keyword by which a distribution says that others may import it."""


def libraries() -> dict[str, str]:
    """A section for each library, by its package: what it is, and its modules."""
    return {folder.name: _section(folder) for folder in folders()}


def folders() -> list[Path]:
    """The folders of the libraries, those without plugins first."""
    paths = [path for kind in ("libraries", "plugins") for path in sorted(ROOT.glob(f"{kind}/*/pyproject.toml"))]
    return [path.parent for path in paths if MARK in _project(path.parent)["keywords"]]


def _project(folder: Path) -> dict[str, list[str]]:
    project: dict[str, list[str]] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def _section(folder: Path) -> str:
    asked = [each.partition(">")[0] for each in _project(folder)["dependencies"]]
    needs = [each for each in asked if each.startswith("maze-")] or [*asked, "nothing of Maze"]
    head = f"{_project(folder)['description']}. `{folder.name.replace('_', '-')}` needs {', '.join(needs)}."
    return "\n\n".join([head, *_top(folder.name), *_modules(folder / folder.name)])


def _top(package: str) -> Iterator[str]:
    """Yield what says which names are at the top of a package, if any are."""
    names = getattr(importlib.import_module(package), "__all__", ())
    if names:
        yield f"At the top, as in `from {package} import {names[0]}`: {', '.join(map(code, names))}."


def _modules(package: Path) -> Iterator[str]:
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        rows = list(_rows(tree))
        if rows:
            module = ".".join((*path.parent.relative_to(package.parent).parts, path.stem))
            yield "\n".join(
                [f"### {module}", "", ast.get_docstring(tree) or "", "", "| name | meaning |", "|---|---|", *rows]
            )


def _rows(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            meaning = line((ast.get_docstring(node) or "").partition("\n\n")[0])
            shown = node.name
            if isinstance(node, ast.FunctionDef):
                shown = f"{node.name}({ast.unparse(node.args)}){returns(node)}"
            yield f"| {code(shown)} | {meaning} |"
