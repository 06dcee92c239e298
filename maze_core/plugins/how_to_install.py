"""Says how to install a distribution that is published with the core: from where the core came from."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from maze_core.base.terminal_text import argument


def how_to_install(distribution: str) -> str:
    """Return the command that installs a distribution published with the core.

    A core that was installed from a folder or a file is accompanied by the others there. An index may have somebody
    else's distribution of the same name, so it is named only where the core came from one.
    """
    package = distribution.replace("-", "_")
    came = _came_from()
    place, folder_of_core = Path(unquote(urlsplit(str(came.get("url", ""))).path)), came.get("dir_info")
    folder = place / "plugins" / package
    if isinstance(folder_of_core, dict) and (folder / "pyproject.toml").is_file():
        editable = "-e " if folder_of_core.get("editable") else ""
        return f"pip install {editable}{argument(_seen_from_here(folder))}"
    if "archive_info" in came and (files := list(place.parent.glob(f"{package}-*.whl"))):
        return f"pip install {argument(_seen_from_here(max(files, key=_version)))}"
    return f"pip install {distribution}"


def _version(wheel: Path) -> tuple[int, ...]:
    """Return the numbers of a wheel's version."""
    return tuple(int(part) for part in wheel.name.split("-")[1].split(".") if part.isdigit())


def _came_from() -> dict[str, Any]:
    """Return where pip found the core, as PEP 610 says it; nothing for one that came from an index."""
    try:
        said = json.loads(metadata.distribution("maze-core").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return {}
    local = isinstance(said, dict) and str(said.get("url", "")).startswith("file:")
    return said if local else {}


def _seen_from_here(path: Path) -> str:
    """Return a path, relative where it is below the current folder; never like the name of a distribution."""
    here = Path.cwd()
    return f"./{path.relative_to(here).as_posix()}" if path.is_relative_to(here) else str(path)
