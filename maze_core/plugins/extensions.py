"""What the core asks of other distributions by entry point: abilities that are neither plugins nor its own."""

from __future__ import annotations

import sys
from typing import Any

from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins import discovery

RECORDINGS = "maze.recordings"
"""The group of `demonstrations`, which loads recorded episodes for a run, and `rollout`, which plays a run's policy."""
NORMALIZERS = "maze.normalizers"
"""The group of `observations`, which normalises leaves by spaces, and `estimate`, its statistics before training."""
VIDEO = "maze.video"
"""The group of `film`, which films an episode of a run, and `studio`, which films any environment."""
NOTEBOOK = "maze.notebook"
"""The group of `output`, where runs are shown, `card`, which draws one, `shorten`, for errors, `frame`, for tables."""


def in_notebook(name: str, *given: Any) -> Any:
    """Return what an entry point of `maze.notebook` makes of arguments where IPython runs the program; else None."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    make = None if shell is None else installed(NOTEBOOK, name)
    return None if make is None else make(*given)


def installed(group: str, name: str) -> Any:
    """Return the object of an entry point that links distributions; None where no installed distribution has it.

    Raises:
        PluginError: two distributions have it, or it cannot be imported.
    """
    claim = the_claim(group, name)
    return None if claim is None else discovery.import_claim(claim)


def the_claim(group: str, name: str) -> discovery.Declaration | None:
    """Return the one claim of such an entry point, which is not imported; None where no distribution has it.

    Raises:
        PluginError: two distributions have it.
    """
    claims = discovery.entries(group, name)
    if len(claims) > 1:
        raise PluginError(discovery.clash(claims))
    return claims[0] if claims else None


def extension(group: str, name: str, what: str, distribution: str, where: str | None = None) -> Any:
    """Return the object of an entry point that links distributions.

    Args:
        group: of the entry point.
        name: of the entry point.
        what: needs it; the beginning of a sentence.
        distribution: the one that is published with the core and has it.
        where: the setting or option that asks for it.

    Raises:
        ConfigError: no installed distribution has it; says which one to install.
        PluginError: two distributions have it, or it cannot be imported.
    """
    found = installed(group, name)
    if found is None:
        raise not_installed(f"{what} needs", distribution, where)
    return found


def not_installed(need: str, distribution: str, where: str | None, otherwise: str = "") -> ConfigError:
    """Return the error about a `need`, such as `filming needs`, of a distribution; `otherwise`: what to do instead."""
    from maze_core.plugins.how_to_install import how_to_install

    problem = f"{need} {distribution}, which is not installed"
    return ConfigError(problem, where, f"Next: {how_to_install(distribution)}{otherwise}")
