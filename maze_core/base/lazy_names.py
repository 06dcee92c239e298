"""The names at the top of a package: each loads its module when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    Args:
        package: its name, which is that of its distribution, too.
        homes: the modules of its names.
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(homes[name]), name)
        if name == "__version__":
            return importlib.import_module("importlib.metadata").version(package.replace("_", "-"))
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find, lambda: [*sorted(homes), "__version__"]
