"""`maze plugins check`: runs the conformance kit on an installed plugin."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import count
from typing import TYPE_CHECKING, Annotated

import typer

from maze_core.base.terminal_text import counted
from maze_core.cli import output

if TYPE_CHECKING:
    from maze_devkit.findings import Report


def check(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A plugin's name, or that of a distribution.", show_default=False)
    ],
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Its kind, where several have the name.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that a plugin meets Maze's requirements for its kind; exit code 1 if it does not.

    Checks packaging and configuration, then runs it briefly; that may take a minute. With the name of a distribution
    it checks every plugin that the distribution has.

    \b
    Examples:
      maze plugins check ppo
      maze plugins check mlp --kind model --json
      maze plugins check maze-ppo
    """
    reports = [_report(*each, shown=not as_json) for each in _plugins(name, kind)]
    if as_json:
        output.print_json([_as_data(report) for report in reports])
    else:
        for report in reports:
            _print(report)
    if any(report.failed for report in reports):
        raise typer.Exit(1)


def _report(kind: str, name: str, shown: bool) -> Report:
    from maze_recordings.progress import progress_bar

    from maze_devkit.kit import check_plugin, checks

    total, done = len(checks(kind)), count(1)
    with progress_bar(f"checking {kind} {name}", shown) as report:
        return check_plugin(kind, name, lambda finding: report(next(done), total), ends_process=True)


def _plugins(name: str, kind: str | None) -> list[tuple[str, str]]:
    """Return kind and name of the plugins with this name, else of those in the distribution with this name."""
    from maze_core import ConfigError
    from maze_core.plugins import discovery

    found = {(claim.kind, claim.name) for claim in discovery.declarations() if claim.name == name}
    if kind is not None and (found or kind not in discovery.KINDS):
        return [(kind, name)]
    if not found:
        normal = re.sub(r"[-_.]+", "-", name).lower()
        all_of_it = {(each.kind, each.name) for each in discovery.declarations() if each.distribution == normal}
        found = {each for each in all_of_it if kind in (None, each[0])}
    if not found and kind is not None:
        return [(kind, name)]
    if not found:
        from maze_core.plugins.config.explain import nearest
        from maze_core.plugins.how_to_install import uninstalled

        known = sorted({each for claim in discovery.declarations() for each in (claim.name, claim.distribution)})
        advice = uninstalled(name)
        told = f"no plugin is called {name!r}"
        raise ConfigError(told if advice else f"{told}; {nearest(name, known)}", hint=advice)
    order = list(discovery.KINDS)
    return sorted(found, key=lambda each: (order.index(each[0]), each[1]))


def _as_data(report: Report) -> dict[str, object]:
    return {**asdict(report), "ok": not report.failed}


def _print(report: Report) -> None:
    rows = []
    for finding in report.findings:
        note = finding.what if finding.state == "not applicable" else ""
        rows.append((finding.check, finding.state, f"{finding.seconds:.1f} s", note))
    output.print_table((f"{report.kind} {report.name}", "state", "time", "note"), rows)
    for finding in report.failed:
        typer.echo(f"\n{finding}")
    checked = counted(len(report.findings), "check")
    verdict = f"{len(report.failed) or 'none'} of {checked} failed"
    typer.echo(f"\n{report.distribution}: {verdict}")
