"""The environments that modules of the current folder register, found in their text: nothing is imported."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_FILES, _BYTES = 200, 500_000
"""How many files are read, and how long they may be."""


def registered_here(name: str) -> list[str]:
    """Return up to three ids `module:Id` that someone may mean by `name`: an id, a module, or nearly one of them."""
    spellings: dict[str, str] = {}
    with suppress(OSError):  # the current folder was removed, or may not be read
        for module, env_id in _registrations(Path.cwd()):
            for text in (module, env_id, _without_version(env_id)):
                spellings.setdefault(text.lower(), f"{module}:{env_id}")
    near = difflib.get_close_matches(name.lower(), list(spellings), n=3, cutoff=0.7)
    return list(dict.fromkeys(spellings[text] for text in near))


def _registrations(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield module and id of each call `register("Id", …)` in the modules and packages of a folder."""
    files = sorted([*folder.glob("*.py"), *folder.glob("*/__init__.py")])[:_FILES]
    for file in files:
        module = file.parent.name if file.name == "__init__.py" else file.stem
        with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            if module.isidentifier() and file.is_file() and file.stat().st_size <= _BYTES:  # a pipe would not end
                for env_id in _ids(ast.parse(file.read_bytes())):
                    yield module, env_id


def _ids(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "register":
            named = [each.value for each in node.keywords if each.arg == "id"]
            for each in [*node.args[:1], *named]:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.value


def _without_version(env_id: str) -> str:
    return re.sub(r"-v\d+$", "", env_id)
