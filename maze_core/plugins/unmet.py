"""Finds what an installed package asks for and does not get, for errors of environments that cannot be built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

from maze_core.base.blame import causes
from maze_core.plugins.discovery import declared
from maze_core.plugins.distribution_facts import applies, facts_of

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

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
