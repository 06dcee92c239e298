"""What IPython is to Maze, without a kernel."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """A notebook: what its places show at last, by their names, in the order of the page."""
    places: dict[str, dict[str, str]] = {}

    def display(bundle: Any, *, raw: bool, display_id: str, update: bool) -> None:
        assert raw
        assert update == (display_id in places)
        places[display_id] = bundle

    shell = SimpleNamespace(kernel=object(), compile=SimpleNamespace(format_code_name=lambda name: None))
    package, shown = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython, shown.display = lambda: shell, display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return places
