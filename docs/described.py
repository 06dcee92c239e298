"""Classes and functions as the reference pages describe them: from their source, signature and docstrings."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise
from typing import Any

from maze_devkit.promise import PROMISED
from pydantic import BaseModel
from typing_extensions import is_protocol


def of_class(record: Any) -> str:
    """A class: its constructor, its docstring, its fields with what is written below each, and its methods."""
    trees = [_tree(each) for each in (record, *_halves(record))]
    signature = _constructor(record)
    lines = [
        f"`{record.__module__}.{record.__name__}`: {inspect.getdoc(record)}",
        "",
        *(["```python", signature, "```", ""] if signature else []),
        "| member | meaning |",
        "|---|---|",
        *(row for tree in trees for row in _set_by_constructor(tree)),
    ]
    for node, following in (pair for tree in trees for pair in zip(tree.body, [*tree.body[1:], None], strict=True)):
        if isinstance(node, ast.AnnAssign) and not _is_private(node):
            value = getattr(following, "value", None)
            meaning = str(value.value) if isinstance(following, ast.Expr) and isinstance(value, ast.Constant) else ""
            lines.append(
                f"| {code(ast.unparse(node.target) + ': ' + ast.unparse(node.annotation))} | {line(meaning)} |"
            )
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
            decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
            is_property = bool(decorators & {"property", "cached_property"})
            shown = (node.name if is_property else f"{node.name}({arguments})") + returns(node)
            lines.append(f"| {code(shown)} | {line(ast.get_docstring(node) or '')} |")
    return "\n".join(
        lines if len(lines) > lines.index("|---|---|") + 1 else lines[: lines.index("| member | meaning |")]
    )


def _halves(record: Any) -> list[Any]:
    """The bases of a class that stand beside it in files of their own, which plugins may not import."""
    room = record.__module__.rpartition(".")[0]
    beside = [each for each in record.__mro__ if each.__module__ != record.__module__]
    return [each for each in beside if each.__module__.rpartition(".")[0] == room and each.__module__ not in PROMISED]


def _tree(record: Any) -> ast.ClassDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(record))).body[0]
    if not isinstance(tree, ast.ClassDef):
        raise TypeError(f"{record} is no class")
    return tree


def _is_private(node: ast.AnnAssign) -> bool:
    return isinstance(node.target, ast.Name) and node.target.id.startswith("_")


def _constructor(record: Any) -> str:
    """How a class is called, as `Name(parameter: type, …)`; empty where nothing says so."""
    if issubclass(record, BaseModel):
        own = [node for node in _tree(record).body if isinstance(node, ast.AnnAssign) and not _is_private(node)]
        return f"{record.__name__}(*, {', '.join(ast.unparse(node) for node in own)})"
    if is_dataclass(record):
        shown = [each for each in fields(record) if each.init and not each.name.startswith("_")]
        named = [_field(each) for each in shown if each.kw_only]
        told = [*(_field(each) for each in shown if not each.kw_only), *(["*"] if named else []), *named]
        return f"{record.__name__}({', '.join(told)})"
    for base in record.__mro__:
        if "__init__" in vars(base) and base.__module__.startswith("maze_"):
            node = next((each for each in _tree(base).body if getattr(each, "name", "") == "__init__"), None)
            if isinstance(node, ast.FunctionDef):  # protocols get one that nobody wrote
                return f"{record.__name__}({ast.unparse(node.args).removeprefix('self').removeprefix(', ')})"
    if hasattr(record, "_fields"):
        kinds = {name: getattr(kind, "__forward_arg__", kind) for name, kind in record.__annotations__.items()}
        return f"{record.__name__}({', '.join(f'{name}: {kind}' for name, kind in kinds.items())})"
    return "" if inspect.isabstract(record) or is_protocol(record) else f"{record.__name__}()"


def _field(each: Field[Any]) -> str:
    shown = f"{each.name}: {each.type}"
    if each.default_factory is not MISSING:
        return f"{shown} = {getattr(each.default_factory, '__name__', '…')}()"
    if each.default is MISSING:
        return shown
    return f"{shown} = {each.default.__name__ if callable(each.default) else repr(each.default)}"


def _set_by_constructor(tree: ast.ClassDef) -> Iterator[str]:
    """Yield the rows of attributes that the constructor sets and describes."""
    init = next((each for each in tree.body if getattr(each, "name", "") == "__init__"), None)
    body = init.body if isinstance(init, ast.FunctionDef) else []
    for node, following in pairwise([*body, ast.Pass()]):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = following.value if isinstance(following, ast.Expr) else None
        described = isinstance(value, ast.Constant) and isinstance(value.value, str)
        if isinstance(target, ast.Attribute) and not target.attr.startswith("_") and described:
            kind = f": {ast.unparse(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
            yield f"| {code(target.attr + kind)} | {line(str(value.value))} |"  # type: ignore[union-attr]


def returns(node: ast.FunctionDef) -> str:
    """What a function returns, as the end of its signature; nothing where it returns None."""
    kind = "None" if node.returns is None else ast.unparse(node.returns)
    return "" if kind == "None" else f" -> {kind}"


def line(text: str) -> str:
    """A text as one line in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """A text as code in a table, nothing where it is empty."""
    return f"`{text}`".replace("|", "\\|") if text else ""
