"""The runner passes the conformance kit."""

from __future__ import annotations

import pytest

from maze_core.plugins import discovery
from maze_core.testing.kit import checks, examine
from maze_core.testing.subject import Subject

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.usefixtures("local_ray")


@pytest.mark.parametrize("check", checks("runner"), ids=lambda check: check.name)
def test_it_conforms(check, tmp_path, known_plugins):
    (claim,) = [each for each in discovery.declarations() if (each.kind, each.name) == ("runner", "ray")]
    finding = examine(check, Subject(claim, tmp_path))
    if finding.state == "not applicable":
        pytest.skip(finding.what)
    assert finding.state == "passed", str(finding)
