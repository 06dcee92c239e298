"""The distributions of this repository beside the core: the libraries, then the plugins."""

import re
from collections.abc import Iterable, Iterator
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


def parts(page: Path, algorithms: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the text of the page of an algorithm, and of each further one with a section there, by name."""
    by_name = {_plain(name): name for name in algorithms}
    found = {page.stem: ""}
    for text in re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        heading = text.partition("\n")[0].removeprefix("## ")
        name = by_name.get(_plain(heading), page.stem)
        found[name] = found.get(name, "") + text
    yield from found.items()


def _plain(name: str) -> str:
    """Return a name without what names write differently: `TD3+BC` is td3_bc."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
