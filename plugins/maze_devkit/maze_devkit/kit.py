"""The conformance kit: selects the checks of a plugin and runs them."""

from __future__ import annotations

import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from maze_core.base.errors import ConfigError
from maze_core.plugins import discovery
from maze_devkit.bench import Bench
from maze_devkit.findings import Check, Failed, Finding, NotApplicable, Report
from maze_devkit.process import restored
from maze_devkit.subject import Subject, Trial


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
    with closing(Bench()) as bench:
        for finding in examine_all(wanted, claim, bench):
            findings.append(finding)
            watch(finding)
    return Report(kind, name, claim.origin, tuple(findings))


def examine_all(wanted: Iterable[Check], claim: discovery.Declaration, bench: Bench) -> Iterator[Finding]:
    """Run checks of a plugin one after the other, each in a folder of its own."""
    for check in wanted:
        with tempfile.TemporaryDirectory(prefix="maze-check-") as folder:
            yield examine(check, Subject(claim, Path(folder), bench))


def examine(check: Check, subject: Subject) -> Finding:
    """Run one check and return its finding. An unexpected exception is a failure that names its origin."""
    started, trial = time.perf_counter(), _trial(subject)
    try:
        if reason := trial.waived.get(check.name):
            raise NotApplicable(f"waived by the plugin: {reason}")
        subject.bench.prepare(check, trial)
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
        return subject.walk
    except Exception:  # noqa: BLE001 — the check `builds` reports it
        return Trial()
