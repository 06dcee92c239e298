"""The conformance kit: selects the checks of a plugin and runs them."""

from __future__ import annotations

import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

from maze_core.errors import ConfigError
from maze_core.plugins import discovery
from maze_devkit.findings import Check, Failed, Finding, NotApplicable, Report
from maze_devkit.process import restored
from maze_devkit.subject import Share, Subject, Trial


def checks(kind: str) -> tuple[Check, ...]:
    """Return the checks of a kind of plugin, in order.

    Raises:
        ConfigError: there is no such kind.
    """
    from maze_devkit import general

    if kind not in discovery.KINDS:
        raise ConfigError(f"there is no kind {kind!r}; kinds: {', '.join(discovery.KINDS)}", "--kind")
    return general.CHECKS + _own(kind)


CHECKS = "maze.checks"
"""The entry-point group of checks, each a tuple by the kind of plugin that it is for."""


def _own(kind: str) -> tuple[Check, ...]:
    """Return the checks specific to one kind, from the distribution with the kind's base class."""
    claims = discovery.entries(CHECKS, kind)
    if not claims:
        raise ConfigError(f"no distribution that is installed has checks for the kind {kind!r}", "--kind")
    own: tuple[Check, ...] = discovery.import_claim(claims[0])
    return own


def find(kind: str, name: str) -> discovery.Declaration:
    """Return the claim of a plugin name.

    Raises:
        ConfigError: no distribution claims it.
    """
    claims = [claim for claim in discovery.declarations() if (claim.kind, claim.name) == (kind, name)]
    if not claims:
        discovery.load(kind, name)  # lists the known names instead
    return claims[0]


def check_plugin(kind: str, name: str, watch: Callable[[Finding], object] = lambda finding: None) -> Report:
    """Run every check of an installed plugin; `watch` is called with each finding.

    Raises:
        ConfigError: there is no such plugin or kind.
    """
    wanted, claim = checks(kind), find(kind, name)
    findings = []
    with closing(Shared()) as shared:
        for check in wanted:
            with tempfile.TemporaryDirectory(prefix="maze-check-") as folder:
                findings.append(examine(check, Subject(claim, Path(folder)), shared))
            watch(findings[-1])
    return Report(kind, name, claim.origin, tuple(findings))


class Shared:
    """What a plugin shares among its checks: started by the first that needs it. Close it after the last."""

    def __init__(self) -> None:
        self._start: Share | None = None
        self._started = ExitStack()

    def prepare(self, check: Check, trial: Trial) -> None:
        """Start what the plugin shares, if the check needs it and it is not running yet."""
        from maze_devkit import general

        if check.alone:
            self.close()
        elif check not in general.CHECKS and trial.shared != self._start:
            self.close()
            if trial.shared is not None:
                self._started.enter_context(restored())
                self._started.enter_context(trial.shared())
            self._start = trial.shared

    def close(self) -> None:
        """End it; safe to call twice."""
        self._start = None
        self._started.close()


def examine(check: Check, subject: Subject, shared: Shared | None = None) -> Finding:
    """Run one check and return its finding. An unexpected exception is a failure that names its origin."""
    started, trial = time.perf_counter(), _trial(subject)
    try:
        if reason := trial.waived.get(check.name):
            raise NotApplicable(f"waived by the plugin: {reason}")
        if shared is not None:
            shared.prepare(check, trial)
        with restored(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check.run(subject)
    except NotApplicable as reason:
        return Finding(check.name, "not applicable", str(reason), seconds=time.perf_counter() - started)
    except Failed as problem:
        what = str(problem)
    except Exception as error:  # noqa: BLE001 — the plugin's own error is what the check found
        where = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{discovery.describe(error)} ({where.filename}:{where.lineno})"
    else:
        return Finding(check.name, "passed", seconds=time.perf_counter() - started)
    return Finding(check.name, "failed", what, check.why, check.mend, time.perf_counter() - started)


def _trial(subject: Subject) -> Trial:
    try:
        with restored():
            return subject.walk
    except Exception:  # noqa: BLE001 — the check `builds` reports it
        return Trial()


def test_function(kind: str, name: str) -> Callable[..., None]:
    """Return a pytest function with one case per check."""
    import pytest

    by_name = {check.name: check for check in checks(kind)}
    shared = Shared()

    @pytest.mark.parametrize("check", list(by_name))
    def test_conformance(check: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        """The plugin passes a check of the conformance kit."""
        request.node.parent.addfinalizer(shared.close)
        finding = examine(by_name[check], Subject(find(kind, name), tmp_path), shared)
        if finding.state == "not applicable":
            pytest.skip(finding.what)
        if finding.state == "failed":
            pytest.fail(str(finding), pytrace=False)

    return test_conformance
