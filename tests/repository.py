"""The distributions of this repository beside the core: the libraries, then the plugins."""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def folders() -> list[Path]:
    """Return the folder of each."""
    return [path.parent for kind in ("libraries", "plugins") for path in sorted(ROOT.glob(f"{kind}/*/pyproject.toml"))]


def folder_of(package: str) -> Path:
    """Return the folder of the distribution with a package."""
    return ROOT if package == "maze_core" else next(folder for folder in folders() if folder.name == package)


def files(pattern: str) -> list[Path]:
    """Return the files of all that match a pattern, from their folders on."""
    return [path for folder in folders() for path in sorted(folder.glob(pattern))]
