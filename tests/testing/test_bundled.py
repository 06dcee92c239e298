"""Every bundled plugin passes the conformance kit."""

import re
from importlib import metadata

import pytest

from maze_core.plugins import discovery
from maze_core.testing.kit import checks, examine
from maze_core.testing.subject import Subject

ELSEWHERE = ("ray", "optuna")
"""Packages whose plugins start servers or studies: their own tests run the kit."""


def _bundled():
    """The plugins of this repository that are installed."""
    for claim in discovery.declarations():
        requires = {re.split(r"[^\w-]", line)[0] for line in metadata.requires(claim.distribution) or []}
        author = metadata.metadata(claim.distribution)["Name"]
        if author.startswith("maze-") and (author == "maze-core" or not requires & set(ELSEWHERE)):
            yield claim


BUNDLED = {f"{claim.kind} {claim.name}": claim for claim in _bundled()}
CASES = [(title, check) for title, claim in sorted(BUNDLED.items()) for check in checks(claim.kind)]


def test_the_bundled_plugins_are_all_here():
    names = {claim.name for claim in BUNDLED.values()}
    assert names >= {"ppo", "a2c", "sac", "sacfd", "impala", "bc", "es", "lunar_lander_heuristics", "random", "mlp"}


@pytest.mark.parametrize(("title", "check"), CASES, ids=[f"{title}-{check.name}" for title, check in CASES])
def test_it_conforms(title, check, tmp_path, known_plugins):
    finding = examine(check, Subject(BUNDLED[title], tmp_path))
    if finding.state == "not applicable":
        pytest.skip(finding.what)
    assert finding.state == "passed", str(finding)
