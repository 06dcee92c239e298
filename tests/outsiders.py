"""Packages that outsiders have published, each in a folder of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from maze_core.plugins.discovery import KINDS

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: maze-core>=0.1,<0.2\n"


def write_package(site: Path, module: str, source: str, plugins: Mapping[str, Mapping[str, str]]) -> None:
    """Write a distribution of one module into a folder; `plugins`: its classes by kind and name."""
    (site / f"{module}.py").write_text(source, encoding="utf-8")
    info = site / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA.format(name=module.replace("_", "-")))
    groups = []
    for kind, classes in plugins.items():
        lines = [f"{name} = {module}:{cls}" for name, cls in classes.items()]
        groups.append("\n".join([f"[{KINDS[kind]}]", *lines, ""]))
    (info / "entry_points.txt").write_text("\n".join(groups))
