"""The kit for plugin authors: conformance checks, small environments with known answers, and package templates.

from maze_devkit import conformance

test_conformance = conformance("algorithm", "my_algorithm")   # a test for each check
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from maze_devkit.findings import Report
    from maze_devkit.subject import Case as Case
    from maze_devkit.subject import Trial as Trial

__all__ = ["Case", "Trial", "check_plugin", "conformance"]


def conformance(kind: str, name: str) -> Callable[..., None]:
    """Return a parametrised pytest function with one case per check of an installed plugin.

    Args:
        kind: `algorithm`, `env`, `wrapper`, `model`, `runner`, `callback`, `policy`, `searcher`, `teacher` or
            `command`.
        name: its entry-point name.
    """
    from maze_devkit.testing import test_function

    return test_function(kind, name)


def check_plugin(kind: str, name: str) -> Report:
    """Run every check of an installed plugin; needs no pytest.

    Raises:
        ConfigError: no plugin of that kind has that name.
    """
    from maze_devkit.kit import check_plugin

    return check_plugin(kind, name)


def __getattr__(name: str) -> Any:
    if name not in ("Case", "Trial"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from maze_devkit import subject

    return getattr(subject, name)
