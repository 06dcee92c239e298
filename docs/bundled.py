"""The plugins of this repository, as their projects declare them."""

from __future__ import annotations

import importlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maze_core.plugins.discovery import KINDS

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Entry:
    """One plugin of this repository, as its pyproject.toml declares it."""

    kind: str
    name: str
    target: str
    distribution: str

    @property
    def heading(self) -> str:
        """The heading of its section in the configuration reference."""
        return f"{self.kind.capitalize()} `{self.name}`"

    def load(self) -> Any:
        """Its class, or None where it cannot be imported."""
        module, _, name = self.target.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            return None


def projects() -> list[dict[str, Any]]:
    """The pyproject tables of the core, of the libraries and of the bundled plugins, in this order."""
    folders = [*sorted(ROOT.glob("libraries/*")), *sorted(ROOT.glob("plugins/*"))]
    files = [ROOT / "pyproject.toml", *(path for each in folders if (path := each / "pyproject.toml").is_file())]
    return [tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in files]


def entries() -> list[Entry]:
    """Every plugin of this repository, by kind."""
    kinds = {group: kind for kind, group in KINDS.items()}
    found = [
        Entry(kinds[group], name, target, project["name"])
        for project in projects()
        for group, members in project.get("entry-points", {}).items()
        if group in kinds
        for name, target in members.items()
    ]
    return sorted(found, key=lambda entry: (list(KINDS).index(entry.kind), entry.name))


def missing() -> list[Entry]:
    """The plugins that cannot be imported here, because they are not installed."""
    return [entry for entry in entries() if entry.load() is None]
