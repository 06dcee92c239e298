"""Reads a plugin's summary from its source file without importing it."""

from __future__ import annotations

import ast
import importlib.util
from importlib.metadata import EntryPoint
from pathlib import Path

from maze_core.base.terminal_text import first_sentence

_MAX_HOPS = 4


def locate(entry_point: EntryPoint) -> Path | None:
    """Return the source file of an entry point's module, or None. Imports nothing."""
    try:
        return _module_file(entry_point.module)
    except (AttributeError, ValueError):  # a malformed value
        return None


def summarise(entry_point: EntryPoint, file: Path | None) -> str:
    """Return the first line of the docstring of an entry point's class or function, or an empty string.

    For a Typer app, the first line of its help: `help=…`, else the docstring of its callback, else the module's.
    """
    try:
        return _first_line(entry_point.module, entry_point.attr, file, _MAX_HOPS)
    except (OSError, SyntaxError, ValueError, AttributeError, RecursionError):
        return ""


def _module_file(module: str) -> Path | None:
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except Exception:  # noqa: BLE001 — finders of other packages run here
        return None
    if spec is None:
        return None
    folders = [Path(place).joinpath(*rest) for place in spec.submodule_search_locations or ()]
    candidates = [place for folder in folders for place in (folder / "__init__.py", folder.with_suffix(".py"))]
    if not rest and spec.origin:
        candidates.insert(0, Path(spec.origin))
    return next((place for place in candidates if place.is_file()), None)


def _first_line(module: str, name: str, file: Path | None, hops: int) -> str:
    if file is None or not hops:
        return ""
    tree = ast.parse(file.read_bytes())
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return _first(ast.get_docstring(node))
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in node.targets):
            return _first(_help(node.value) or _callback(tree, name) or ast.get_docstring(tree))
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    origin = _absolute(module, node, file)
                    return _first_line(origin, alias.name, _module_file(origin), hops - 1)
    return ""


def _first(text: str | None) -> str:
    """Return the first line, to the end of a sentence that goes on in the next ones."""
    line = (text or "").strip().partition("\n")[0].strip()
    sentence = first_sentence(text or "")
    return sentence if len(sentence) > len(line) else line


def _help(call: ast.expr) -> str:
    """Return the argument `help` of a call, if it is a literal."""
    words = call.keywords if isinstance(call, ast.Call) else []
    found = [each.value.value for each in words if each.arg == "help" and isinstance(each.value, ast.Constant)]
    return str(found[0]) if found else ""


def _callback(tree: ast.Module, name: str) -> str:
    """Return the docstring of the function decorated with `@NAME.callback()`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(
            ast.unparse(each).partition("(")[0] == f"{name}.callback" for each in node.decorator_list
        ):
            return ast.get_docstring(node) or ""
    return ""


def _absolute(module: str, node: ast.ImportFrom, file: Path) -> str:
    """Return the full name of the module that a `from … import` in `module` imports from."""
    if not node.level:
        return node.module or ""
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    base = package[: len(package) - (node.level - 1)]
    return ".".join([*base, *([node.module] if node.module else [])])
