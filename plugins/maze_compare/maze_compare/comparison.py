"""Groups of runs side by side: a table of results, and what their differences mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from maze_compare.groups import MISSING, Spread, short, spread, text, versions
from maze_compare.significance import aggregate, estimate_text, improvement, verdict
from maze_core.cli import output

if TYPE_CHECKING:
    from maze_statistics import Estimate

    from maze_compare.groups import Group
    from maze_compare.rivals import Rival

_NAMED = 5
"""Most runs of a group that are named below the table."""
_JUDGED = 10
"""Most groups that are compared with the best one in a sentence."""


def ranked(groups: list[Group], metric: str, minimize: bool) -> list[Group]:
    """Return groups, that with the best mean first."""

    def place(each: Group) -> tuple[bool, float]:
        found = spread(run.value(metric, minimize=minimize) for run in each.runs)
        return (found is None, 0.0 if found is None else found.mean if minimize else -found.mean)

    return sorted(groups, key=place)


def _results(each: Group, metric: str, minimize: bool) -> dict[str, Any]:
    """Return the results of a group: statistics of its runs, by column."""
    return {
        "best": spread(run.value(metric, minimize=minimize) for run in each.runs),
        "final": spread(run.value(metric, "last") for run in each.runs),
        "final IQM": aggregate(_final(each, metric)),
        "env_steps": spread(run.count("env_steps") for run in each.runs),
        "seconds": spread(run.count("seconds") for run in each.runs),
    }


def _shown(found: Any) -> str:
    """Return a statistic as a cell of the table."""
    return MISSING if found is None else str(found) if isinstance(found, Spread) else estimate_text(found)


def _final(each: Group, metric: str) -> list[float]:
    """Return the final values of the runs that have one."""
    return [value for run in each.runs if (value := run.value(metric, "last")) is not None]


def _improvement(best: Group, each: Group, metric: str, minimize: bool) -> Estimate | None:
    """Return how often the final value of the best group is better than another's; None if too few runs tell."""
    pair = [_final(best, metric), _final(each, metric)]
    return improvement(*(pair[::-1] if minimize else pair))


def _first_of(groups: Sequence[Group], each: Group) -> Group:
    """Return the best group in the same environment."""
    return next(other for other in groups if other.runs[0].env == each.runs[0].env)


def group_facts(
    each: Group, groups: Sequence[Group], paths: Sequence[str], metric: str, minimize: bool
) -> dict[str, Any]:
    """Return the settings, runs and results of a group as plain data."""
    results = _results(each, metric, minimize)
    best = _first_of(groups, each)
    results |= {"beaten_by_best": None if best is each else _improvement(best, each, metric, minimize)}
    return {
        "settings": {path: each.settings[path] for path in paths if path in each.settings},
        "runs": [run.overview() for run in each.runs],
        "metric": metric,
        **{name.replace(" ", "_").lower(): found and asdict(found) for name, found in results.items()},
    }


def print_groups(
    groups: Sequence[Group], paths: Sequence[str], metric: str, minimize: bool, rivals: Sequence[Rival]
) -> None:
    """Print a row for each group, or a column if there are more settings than groups; and a line for each rival."""
    shared = paths or ["algorithm.name", "env.id"]
    letters = [chr(ord("A") + index) if index < 26 else str(index) for index in range(len(groups))]
    columns = [
        [
            letter,
            *(text(each.settings[path]) if path in each.settings else MISSING for path in shared),
            str(len(each.runs)),
            *map(_shown, _results(each, metric, minimize).values()),
        ]
        for letter, each in zip(letters, groups, strict=True)
    ]
    headers = ["", *map(short, shared), "runs", "best", "final", "final IQM", "env_steps", "seconds"]
    if len(groups) >= len(paths):
        count = len(headers)
        output.print_table(headers, columns, (count - 1, count - 2, count - 3, *range(count - 6, 0, -1)))
    else:
        first, *rows = [list(row) for row in zip(headers, *columns, strict=True)]
        output.print_table(first, rows)
    for letter, each in zip(letters, groups, strict=True):
        more = len(each.runs) - _NAMED
        names = [str(run.path) for run in each.runs[:_NAMED]] + ([f"{more} more"] if more > 0 else [])
        output.say(f"{letter}: {', '.join(names)}")
    output.say(f"best and final: {metric}, mean ± standard deviation over the runs; IQM: mean of the middle half")
    _print_verdicts(groups, letters, metric, minimize)
    for rival in rivals:
        output.say(rival.sentence(dict(zip(letters, groups, strict=True)), minimize=minimize))
    if any(len(set(each.seeds)) < len(each.runs) for each in groups):
        typer.echo("some runs repeat the seed of another run and add no information")
    if others := versions(groups):
        typer.echo(f"the runs were written with different versions of {'; '.join(others)}")
    elif not paths and len(groups) == 1 and len(groups[0].runs) > 1:
        typer.echo("the runs differ only in their seeds")


def _print_verdicts(groups: Sequence[Group], letters: Sequence[str], metric: str, minimize: bool) -> None:
    """Say of each group whether it differs from the best one in its environment."""
    names = {id(each): letter for letter, each in zip(letters, groups, strict=True)}
    others = [each for each in groups if _first_of(groups, each) is not each and _final(each, metric)]
    for each in others[:_JUDGED]:
        best = _first_of(groups, each)
        output.say(verdict(names[id(best)], names[id(each)], _improvement(best, each, metric, minimize)))
