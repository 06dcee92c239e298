"""Defaults for parameters that no plugin has are found."""

import pytest

from tests.maze_devkit.sources import ALGORITHM


def checked(publish, findings, declared):
    from maze_devkit.kit import checks

    source = ALGORITHM.replace("    needs_critic = True\n", f"    needs_critic = True\n    defaults = {declared!r}\n")
    others = [check.name for check in checks("algorithm") if check.name != "defaults"]
    return findings(*publish("algorithm", source), others)["defaults"]


@pytest.mark.parametrize(
    ("declared", "state", "what"),
    [
        ({"model": {"critic": "shared", "hidden": [8]}}, "passed", ""),
        ({"model": {"hiden": [8]}}, "failed", "no model that is installed has the parameter hiden"),
        ({"modle": {"hidden": [8]}}, "failed", "'modle' is none of the parts"),
    ],
)
def test_a_default_for_a_parameter_that_nothing_has(publish, findings, declared, state, what):
    found = checked(publish, findings, declared)
    assert (found.state, what in found.what) == (state, True), found
