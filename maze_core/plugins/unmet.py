"""Finds what an installed package asks for and does not get, for errors of environments that cannot be built."""

from __future__ import annotations

from importlib import metadata

_WATCHED = frozenset({"gymnasium", "gym", "numpy", "mujoco", "pettingzoo", "dm-env", "pygame"})
"""Packages whose versions environments often disagree about."""


def unmet(module: str) -> str | None:
    """Return what to install where the package of a module asks for another version than there is; None: nothing.

    Nothing is imported.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    top = module.partition(".")[0]
    for owner in dict.fromkeys(metadata.packages_distributions().get(top, ())):
        for text in metadata.requires(owner) or ():
            try:
                asked = Requirement(text)
                there = metadata.version(asked.name)
            except (InvalidRequirement, metadata.PackageNotFoundError):
                continue
            wanted = asked.marker is None or asked.marker.evaluate({"extra": ""})
            if wanted and asked.name.lower() in _WATCHED and not asked.specifier.contains(there, prereleases=True):
                return (
                    f"{owner} asks for {asked.name}{asked.specifier}, and {there} is installed."
                    f' Install it, in an environment of its own: pip install "{asked.name}{asked.specifier}"'
                )
    return None
