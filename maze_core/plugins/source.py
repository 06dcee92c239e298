"""Reading about a plugin in its source file, without importing it."""

from __future__ import annotations

import ast
import importlib.util
from importlib.metadata import EntryPoint
from pathlib import Path

_MAX_HOPS = 4


def locate(entry_point: EntryPoint) -> Path | None:
    """The source file of the module that an entry point names, or None. Imports nothing."""
    try:
        return _module_file(entry_point.module)
    except AttributeError:  # a malformed value
        return None


def summarise(entry_point: EntryPoint, file: Path | None) -> str:
    """The first line of the docstring of the class that an entry point names, or an empty string."""
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
    for node in ast.parse(file.read_bytes()).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0].strip()
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    origin = _absolute(module, node, file)
                    return _first_line(origin, alias.name, _module_file(origin), hops - 1)
    return ""


def _absolute(module: str, node: ast.ImportFrom, file: Path) -> str:
    """The full name of the module that a `from … import` in `module` takes from."""
    if not node.level:
        return node.module or ""
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    base = package[: len(package) - (node.level - 1)]
    return ".".join([*base, *([node.module] if node.module else [])])
