"""Every bundled plugin passes the conformance kit."""

import re
from importlib import metadata
from importlib.util import find_spec

import pytest
from maze_devkit.kit import Shared, checks, examine
from maze_devkit.subject import Subject

from maze_core.plugins import discovery

EXTRAS = ("ray", "optuna")
"""Packages that an installation may do without."""
BEHIND_PPO = ("rllib-appo", "rllib-bc", "rllib-dqn", "rllib-impala", "rllib-marwil", "rllib-sac")
"""These share module and Ray session with rllib-ppo, which is asked for them what such things do to a process: a Ray of
its own for each takes many seconds. `maze plugins check` asks them that as well."""


IN_PROCESSES = ("import", "help", "refuses")
"""Checks of commands that start a process each: asked of one command of each distribution."""


def _bundled():
    """The plugins of this repository that are installed."""
    for claim in discovery.declarations():
        if metadata.metadata(claim.distribution)["Name"].startswith("maze-"):
            yield claim


def _missing(claim):
    """What a plugin needs and is not installed."""
    requires = {re.split(r"[^\w-]", line)[0] for line in metadata.requires(claim.distribution) or []}
    if claim.distribution == discovery.CORE:
        return []
    return [name for name in EXTRAS if name in requires and find_spec(name) is None]


def _asked(claim):
    """The checks that it is given here."""
    if claim.kind == "command" and claim.name not in ("eval", "runs", "sweep", "plugins.new", "trajectories.export"):
        return [check for check in checks(claim.kind) if check.name not in IN_PROCESSES]
    if claim.name not in BEHIND_PPO:
        return checks(claim.kind)
    return [check for check in checks(claim.kind) if check.name not in ("import", "global_state")]


BUNDLED = {f"{claim.kind} {claim.name}": claim for claim in _bundled()}
CASES = [(title, check) for title, claim in sorted(BUNDLED.items()) for check in _asked(claim)]


@pytest.fixture(scope="module")
def shared():
    """What plugins share among checks, such as a Ray."""
    shared = Shared()
    yield shared
    shared.close()


def test_the_bundled_plugins_are_all_here():
    names = {claim.name for claim in BUNDLED.values()}
    assert names >= {"ppo", "a2c", "sac", "sacfd", "impala", "bc", "es", "lunar_lander_heuristics", "random", "mlp"}


@pytest.mark.parametrize(("title", "check"), CASES, ids=[f"{title}-{check.name}" for title, check in CASES])
def test_it_conforms(title, check, tmp_path, known_plugins, shared):
    claim = BUNDLED[title]
    if missing := _missing(claim):
        pytest.skip(f"{', '.join(missing)} is not installed")
    finding = examine(check, Subject(claim, tmp_path), shared)
    if finding.state == "not applicable":
        pytest.skip(finding.what)
    assert finding.state == "passed", str(finding)
