"""Finds what an installed package asks for and does not get, for errors of environments that cannot be built."""

from __future__ import annotations

from importlib import metadata

from maze_core.plugins.distribution_facts import applies, facts_of

_WATCHED = frozenset({"gymnasium", "gym", "numpy", "mujoco", "pettingzoo", "dm-env", "pygame"})
"""Packages whose versions environments often disagree about."""


def unmet(module: str) -> str | None:
    """Return what to install where the package of a module asks for another version than there is; None: nothing.

    Nothing is imported.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    top = module.partition(".")[0]
    for owner in _owners(top):
        for text in facts_of(owner).requires:
            try:
                asked = Requirement(text)
                there = facts_of(asked.name).version
            except (InvalidRequirement, metadata.PackageNotFoundError):
                continue
            wanted = there and asked.name.lower() in _WATCHED and applies(asked)
            if wanted and not asked.specifier.contains(there, prereleases=True):
                return (
                    f"{owner} asks for {asked.name}{asked.specifier}, and {there} is installed."
                    f' Install it, in an environment of its own: pip install "{asked.name}{asked.specifier}"'
                )
    return None


def _owners(package: str) -> list[str]:
    """Return the distributions that a package of this name is from."""
    try:
        return list(dict.fromkeys(metadata.packages_distributions().get(package, ())))
    except (TypeError, KeyError, OSError, ValueError):  # what some distribution says of itself cannot be read
        return []
