"""The conformance kit as tests of pytest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from maze_devkit.bench import Bench
from maze_devkit.fresh import Fresh
from maze_devkit.kit import checks, examine, find
from maze_devkit.subject import Subject

_FRESH = pytest.StashKey[Fresh]()


def test_function(kind: str, name: str) -> Callable[..., None]:
    """Return a pytest function with one case per check."""
    by_name = {check.name: check for check in checks(kind)}
    benches: list[Bench] = []

    @pytest.mark.parametrize("check", list(by_name))
    def test_conformance(check: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        """The plugin passes a check of the conformance kit."""
        if not benches:
            benches.append(Bench(_fresh(request.config)))
            request.node.parent.addfinalizer(lambda: benches.pop().close())
        finding = examine(by_name[check], Subject(find(kind, name), tmp_path, benches[0]))
        if finding.state == "not applicable":
            pytest.skip(finding.what)
        if finding.state == "failed":
            pytest.fail(str(finding), pytrace=False)

    return test_conformance


def _fresh(config: pytest.Config) -> Fresh:
    """Return the new processes that all plugins share which these tests are of."""
    if _FRESH not in config.stash:
        config.stash[_FRESH] = fresh = Fresh()
        config.add_cleanup(fresh.close)
    return config.stash[_FRESH]
