"""The conformance kit: which checks a plugin is given, and what they find."""

from __future__ import annotations

import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from maze_core.errors import ConfigError
from maze_core.plugins import discovery
from maze_core.testing.findings import Check, Failed, Finding, NotApplicable, Report
from maze_core.testing.process import restored
from maze_core.testing.subject import Subject


def checks(kind: str) -> tuple[Check, ...]:
    """The checks of a kind of plugin, in order.

    Raises:
        ConfigError: there is no such kind.
    """
    from maze_core.testing import general

    if kind not in discovery.KINDS:
        raise ConfigError(f"there is no kind {kind!r}; kinds: {', '.join(discovery.KINDS)}", "--kind")
    return general.CHECKS + _own()[kind]


def _own() -> Mapping[str, tuple[Check, ...]]:
    from maze_core.testing import algorithms, callbacks, models, policies, runners, searchers, sources, wrappers

    return {
        "algorithm": algorithms.CHECKS,
        "env": sources.CHECKS,
        "wrapper": wrappers.CHECKS,
        "model": models.CHECKS,
        "runner": runners.CHECKS,
        "callback": callbacks.CHECKS,
        "policy": policies.CHECKS,
        "searcher": searchers.CHECKS,
    }


def find(kind: str, name: str) -> discovery.Declaration:
    """The claim of a plugin name.

    Raises:
        ConfigError: nobody claims it.
    """
    claims = [claim for claim in discovery.declarations() if (claim.kind, claim.name) == (kind, name)]
    if not claims:
        discovery.load(kind, name)  # says what is known instead
    return claims[0]


def check_plugin(kind: str, name: str, watch: Callable[[Finding], object] = lambda finding: None) -> Report:
    """Run every check of an installed plugin; `watch` is given each finding as it comes.

    Raises:
        ConfigError: there is no such plugin or kind.
    """
    wanted, claim = checks(kind), find(kind, name)
    findings = []
    for check in wanted:
        with tempfile.TemporaryDirectory(prefix="maze-check-") as folder:
            findings.append(examine(check, Subject(claim, Path(folder))))
        watch(findings[-1])
    return Report(kind, name, claim.origin, tuple(findings))


def examine(check: Check, subject: Subject) -> Finding:
    """What one check finds. An exception that nobody foresaw is a failure that names where it came from."""
    started = time.perf_counter()
    try:
        with restored(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if reason := _waived(check, subject):
                raise NotApplicable(f"waived by the plugin: {reason}")
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


def _waived(check: Check, subject: Subject) -> str:
    try:
        return subject.walk.waived.get(check.name, "")
    except Exception:  # noqa: BLE001 — the check `builds` reports it
        return ""


def test_function(kind: str, name: str) -> Callable[..., None]:
    """A pytest function with a case for each check."""
    import pytest

    by_name = {check.name: check for check in checks(kind)}

    @pytest.mark.parametrize("check", list(by_name))
    def test_conformance(check: str, tmp_path: Path) -> None:
        """The plugin passes a check of the conformance kit."""
        finding = examine(by_name[check], Subject(find(kind, name), tmp_path))
        if finding.state == "not applicable":
            pytest.skip(finding.what)
        if finding.state == "failed":
            pytest.fail(str(finding), pytrace=False)

    return test_conformance
