"""The conformance kit: selects the checks of a plugin and runs them."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from maze_core import ConfigError
from maze_core.plugins import discovery
from maze_devkit.bench import Bench
from maze_devkit.findings import Check, Failed, Finding, NotApplicable, Report, State
from maze_devkit.limits import SECONDS, ending_process, limited, seconds_for
from maze_devkit.process import restored
from maze_devkit.subject import Subject, Trial, trial_of
from maze_devkit.whose import told


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


def check_plugin(
    kind: str, name: str, watch: Callable[[Finding], object] = lambda finding: None, ends_process: bool = False
) -> Report:
    """Run every check of an installed plugin; `watch` is called with each finding, `ends_process` as for `Bench`.

    Raises:
        ConfigError: there is no such plugin or kind.
    """
    wanted, claim = checks(kind), find(kind, name)
    findings = []
    with closing(Bench(ends_process=ends_process)) as bench:
        for finding in examine_all(wanted, claim, bench):
            findings.append(finding)
            watch(finding)
    return Report(kind, name, claim.origin, tuple(findings))


def examine_all(wanted: Iterable[Check], claim: discovery.Declaration, bench: Bench) -> Iterator[Finding]:
    """Run checks of a plugin one after the other, each in a folder of its own."""
    for check in wanted:
        with tempfile.TemporaryDirectory(prefix="maze-check-", ignore_cleanup_errors=True) as folder:
            yield examine(check, Subject(claim, Path(folder), bench))


def examine(check: Check, subject: Subject) -> Finding:
    """Run one check and return its finding. An unexpected exception is a failure that names its origin."""
    started, trial = time.perf_counter(), Trial()
    with limited(SECONDS, subject.claim.entry_point.module) as limit:
        trial = _trial(subject)
    if limit.struck:
        subject.bench.give_up(trial_of)
    found: tuple[State, str] = ("failed", limit.told) if limit.struck else _outcome(check, subject, trial)
    (state, what), seconds = found, time.perf_counter() - started
    if state == "failed":
        return Finding(check.name, state, what, check.why, check.mend, seconds)
    return Finding(check.name, state, what, seconds=seconds)


def _outcome(check: Check, subject: Subject, trial: Trial) -> tuple[State, str]:
    """Run a check and return the state of its finding, and what it found."""
    if reason := trial.waived.get(check.name):
        return "not applicable", f"waived by the plugin: {reason}"
    module, bench = subject.claim.entry_point.module, subject.bench
    seconds = (0.1 if bench.hangs else 1.0) * seconds_for(check, trial.seconds)
    found: tuple[State, str] = "passed", ""
    ending = ending_process(subject.claim.title, seconds) if bench.ends_process else nullcontext()
    with ending, limited(seconds, module) as limit:
        try:
            bench.prepare(check, trial)
            with restored(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check.run(subject)
        except NotApplicable as reason:
            found = "not applicable", str(reason)
        except Failed as problem:
            found = "failed", str(problem)
        except Exception as error:  # noqa: BLE001 — the plugin's own error is what the check found
            found = "failed", told(error, module, _class(subject))
    if not limit.struck:
        return found
    bench.hangs = True
    return "failed", limit.told  # code on the way may have turned the interruption into an error of its own


def _class(subject: Subject) -> Any:
    try:
        return subject.plugin
    except NotApplicable:
        return None


def _trial(subject: Subject) -> Trial:
    try:
        return subject.walk
    except Exception:  # noqa: BLE001 — the check `builds` reports it
        return Trial()
