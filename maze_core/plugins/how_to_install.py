"""Says what to do about what is missing.

Of a plugin: what installs it, or which name is meant. Of an installed package: what it asks for and does not get, for
errors of environments that cannot be built.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from maze_core.base.blame import causes
from maze_core.base.bundled import distributions
from maze_core.base.errors import ConfigError
from maze_core.base.files import names, read_bytes
from maze_core.base.terminal_text import argument, shown
from maze_core.plugins import discovery
from maze_core.plugins.discovery import declared
from maze_core.plugins.distribution_facts import applies, facts_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet


_ENTRY_POINTS_BYTES = 100_000
_OF_YOUR_OWN = {
    "policy": "\nA class of your own is named module:Class",
    "callback": "\nA class of your own: --callback module:Class",
    "schedule": "\nA class of your own is named module:Class",
    "exploration": "\nA class of your own is named module:Class",
}


def how_to_install(distribution: str) -> str:
    """Return the command that installs a distribution published with the core, and what it needs of those.

    A core that was installed from a folder or a file is accompanied by the others there. An index may have somebody
    else's distribution of the same name, so it is named only where the core came from one.
    """
    came = _came_from()
    place, folder_of_core = Path(unquote(urlsplit(str(came.get("url", ""))).path)), came.get("dir_info")
    found: list[Path] = []
    if isinstance(folder_of_core, dict):
        found = _with_needs(distribution, lambda name: _folder(place, name), _needs_of_folder)
    elif "archive_info" in came:
        found = _with_needs(distribution, lambda name: _wheel(place.parent, name), _needs_of_wheel)
    editable = "-e " if isinstance(folder_of_core, dict) and folder_of_core.get("editable") else ""
    return f"pip install {' '.join(editable + argument(_seen_from_here(path)) for path in found) or distribution}"


def installs_missing(error: BaseException) -> str:
    """Return a line with what installs the package of Maze that an import does not find; empty for another error."""
    name = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
    distribution = str(name or "").partition(".")[0].replace("_", "-")
    known = distribution in distributions() and not _is_installed(distribution)
    return f"\nNext: {how_to_install(distribution)}" if known else ""


def uninstalled(name: str) -> str:
    """Return what to do about a plugin that a distribution in the current folder declares; empty if none does.

    Only installed plugins are looked up. Nothing is imported.
    """
    here = Path.cwd()
    declared = re.compile(rf"^{re.escape(name)}\s*=", re.MULTILINE)
    for folder in names(here, here):
        if folder.endswith((".dist-info", ".egg-info")):
            try:
                path = here / folder / "entry_points.txt"
                text = read_bytes(path, _ENTRY_POINTS_BYTES, here).decode(errors="replace")
            except OSError:
                continue
            if "[maze." in text and declared.search(text):
                return (
                    f"{shown(folder)} in the current folder declares it, but the plugins of a folder are unknown until "
                    "they are installed (docs/guide/trust.md). Next: pip install -e ."
                )
    return ""


def unknown_plugin(kind: str, name: str) -> ConfigError:
    """Return the error for a name that no plugin has."""
    known = discovery.names(kind)
    near = difflib.get_close_matches(name.lower(), [other.lower() for other in known], n=3, cutoff=0.5)
    near = [other for other in known if other.lower() in near]
    own = _OF_YOUR_OWN.get(kind, "")
    if any(name == found.name for found in discovery.declared() if found.kind == kind):
        hint = f"It is installed, but {discovery.DISABLE} turns it off"
    elif own and ":" in name:
        hint = (
            "A file cannot name a class. If you trust it, name it again on the command line, as in --set "
            f"PATH={shown(name)}, or in your program"
        )
    elif advice := _hint(name) or discovery.missing(kind, name) or uninstalled(name):
        hint = advice
    elif near:
        hint = f"Did you mean {' or '.join(near)}?{own}"
    elif kind == "command" and not known:
        hint = f"{discovery.CORE} is not installed, or its installation is outdated. Next: pip install it again"
    elif kind == "command":
        hint = "`maze --help` lists those that are installed"
    else:
        hint = f"Installed: {', '.join(known) or 'none'}; `maze plugins list` shows them all{own}"
    return ConfigError(f"unknown {kind} {shown(name)}", None if kind == "command" else kind, hint)


def _hint(name: str) -> str:
    """Return a distribution's hint for a name that no plugin has; usually empty."""
    plain = name.lower().replace("_", "-")
    exact = discovery.entries(discovery.HINTS, name.lower()) or discovery.entries(discovery.HINTS, plain)
    for found in (*exact, *discovery.entries(discovery.HINTS, plain.partition("-")[0])):
        with suppress(Exception):  # a broken hint must not hide the original error
            hint = found.entry_point.load()
            if callable(hint) or found in exact:
                return str(hint(name) if callable(hint) else hint)
    return ""


def _with_needs(
    distribution: str, find: Callable[[str], Path | None], needs: Callable[[Path], Iterable[str]]
) -> list[Path]:
    """Return where a distribution is, and where those are that it needs and that are not installed."""
    found: dict[str, Path] = {}
    waiting = [distribution]
    while waiting:
        name = waiting.pop(0)
        path = None if name in found else find(name)
        if path is not None:
            found[name] = path
            waiting += [
                each for each in map(_named, needs(path)) if each in distributions() and not _is_installed(each)
            ]
    return list(found.values())


def _folder(place: Path, distribution: str) -> Path | None:
    folders = (place / kind / distribution.replace("-", "_") for kind in ("libraries", "plugins"))
    return next((folder for folder in folders if (folder / "pyproject.toml").is_file()), None)


def _needs_of_folder(folder: Path) -> list[str]:
    import tomllib  # here, as this module is imported whenever plugins are looked for

    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return []
    return [str(each) for each in project.get("dependencies", [])]


def _wheel(place: Path, distribution: str) -> Path | None:
    return max(place.glob(f"{distribution.replace('-', '_')}-*.whl"), key=_version, default=None)


def _needs_of_wheel(wheel: Path) -> list[str]:
    import email
    import zipfile

    try:
        with zipfile.ZipFile(wheel) as archive:
            about = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            return email.message_from_bytes(archive.read(about)).get_all("Requires-Dist", [])
    except (OSError, zipfile.BadZipFile, StopIteration):
        return []


def _named(requirement: str) -> str:
    """Return the distribution that a requirement names; empty for one of an extra."""
    return "" if "extra ==" in requirement else re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


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


_WATCHED = frozenset({"gymnasium", "gym", "numpy", "mujoco", "pettingzoo", "dm-env", "pygame"})
"""Packages whose versions environments often disagree about."""


class Unmet(NamedTuple):
    """A package in another version than an environment's package asks for."""

    text: str
    """What to do about it, if the error names the package; else that it may be the reason."""
    is_named: bool


def unmet(module: str, error: BaseException) -> Unmet | None:
    """Return which version the package of a module asks for and does not get; None: it gets all.

    The one that the error names counts first: only for that is a command said. Nothing is imported.
    """
    found = list(_unmet(module.partition(".")[0]))
    texts = "\n".join(f"{each} {getattr(each, 'name', '')}" for each in causes(error))
    named = [each for each in found if _names(texts, each[1].name)]
    likely = [each for each in found if each[1].name.lower() in _WATCHED]
    if not (named or likely):
        return None
    owner, asked, there = (named or likely)[0]
    fact = f"{owner} asks for {asked.name}{asked.specifier}, and {there} is installed"
    if (ours := _excluded(asked)) is not None:
        fact += f", as {ours}: both do not go into one environment. A newer release of {owner} may"
    elif named:
        fact += f'. Install it, in an environment of its own: pip install "{asked.name}{asked.specifier}"'
    return Unmet(fact if named else f"It may be that versions do not fit: {fact}", bool(named))


def _unmet(package: str) -> Iterator[tuple[str, Requirement, str]]:
    """Yield the requirements of a package's distributions that are not met: whose, what, and the version there is."""
    from packaging.requirements import InvalidRequirement, Requirement

    for owner in _owners(package):
        for text in facts_of(owner).requires:
            try:
                asked = Requirement(text)
                there = facts_of(asked.name).version
            except (InvalidRequirement, metadata.PackageNotFoundError):
                continue
            if there and applies(asked) and not asked.specifier.contains(there, prereleases=True):
                yield owner, asked, there


def _names(text: str, package: str) -> bool:
    """Return True where a text has the name of a package as a word."""
    parts = "[-_.]".join(map(re.escape, re.split(r"[-_.]+", package)))
    return re.search(rf"(?<![\w-]){parts}(?![\w-])", text, re.IGNORECASE) is not None


def _excluded(asked: Requirement) -> str | None:
    """Return which distribution of Maze's asks for versions that exclude all those that are asked for; None: none."""
    from packaging.requirements import InvalidRequirement, Requirement

    for owner in sorted({each.distribution for each in declared()}):
        for text in facts_of(owner).requires:
            try:
                ours = Requirement(text)
            except InvalidRequirement:
                continue
            same = ours.name.lower() == asked.name.lower() and applies(ours)
            if same and _are_apart(ours.specifier, asked.specifier):
                return f"{owner} needs {ours.name}{ours.specifier}"
    return None


def _are_apart(first: SpecifierSet, second: SpecifierSet) -> bool:
    """Return True where no version fits both: none at, just below or just above one that they name."""
    tried = [near for each in (*first, *second) for near in _around(each.version)]
    return not any(first.contains(each, prereleases=True) and second.contains(each, prereleases=True) for each in tried)


def _around(version: str) -> Iterator[str]:
    """Yield a version and its neighbours."""
    if "*" not in version:
        yield version
    parts = [int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3]]
    parts += [0] * (3 - len(parts))
    major, minor, patch = parts
    yield f"{major}.{minor}.{patch}"
    yield f"{major}.{minor}.{patch + 1}"
    below = (major, minor, patch - 1) if patch else (major, minor - 1, 999) if minor else (max(major - 1, 0), 999, 0)
    yield ".".join(map(str, below))


def _owners(package: str) -> list[str]:
    """Return the distributions that a package of this name is from."""
    try:
        return list(dict.fromkeys(each.metadata["Name"] for each in metadata.distributions() if _has(each, package)))
    except (TypeError, KeyError, OSError, ValueError):  # what some distribution says of itself cannot be read
        return []


def _has(distribution: metadata.Distribution, package: str) -> bool:
    """Return whether a package is in a distribution, from the text of its files: to parse them takes half a second."""
    if listed := (distribution.read_text("top_level.txt") or "").split():
        return package in listed
    if record := distribution.read_text("RECORD"):
        return re.search(rf"^{re.escape(package)}(/.*)?\.py,", record, re.MULTILINE) is not None
    files = distribution.files or ()
    return any(each.suffix == ".py" and each.parts[0].removesuffix(".py") == package for each in files)
