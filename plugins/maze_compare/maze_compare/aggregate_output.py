"""What `maze runs aggregate` prints: tables, sentences, JSON, and the runs as CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from maze_statistics import Aggregate, Band

from maze_compare.experiment import RANGE, Experiment, Findings
from maze_compare.groups import MISSING, spread
from maze_compare.significance import FEWEST, estimate_text, normalised_text, wins
from maze_core.base.terminal_text import counted
from maze_core.cli import output

_MOST_TASKS = 20
"""Most tasks of which the scores are printed; JSON has all."""
_JUDGED = 10
"""Most algorithms that are compared with the best one in a sentence."""


def print_findings(of: Experiment, found: Findings) -> None:
    """Print the aggregates, the scores of each task, and what they mean."""
    output.print_table(*aggregate_table(found.aggregates, bool(of.references)), (3, 2, 4))
    if 1 < len(of.tasks) <= _MOST_TASKS:
        output.say("")
        output.print_table(*task_table(of, found))
    output.say("")
    for line in sentences(of, found):
        output.say(line)


def aggregate_table(aggregates: Mapping[str, Aggregate], normalised: bool) -> tuple[list[str], list[list[str]]]:
    """Return headers and a row for each algorithm; the optimality gap only where 1 is a target."""
    headers = ["algorithm", "IQM", "median", "mean", *(["optimality gap"] if normalised else []), "runs", "tasks"]
    rows = []
    for name, each in aggregates.items():
        points = [each.iqm, each.median, each.mean, *([each.optimality_gap] if normalised else [])]
        texts = [normalised_text(point) if normalised else estimate_text(point, 3) for point in points]
        rows.append([name, *texts, str(each.runs), str(each.tasks)])
    return headers, rows


def task_table(of: Experiment, found: Findings) -> tuple[list[str], list[list[str]]]:
    """Return headers and a row for each task: mean and deviation of the raw scores of each algorithm."""
    raw, names = of.raw(), list(found.aggregates)
    rows = []
    for task in of.tasks:
        cells = [spread(raw[name][task].tolist()) if task in raw[name] else None for name in names]
        rows.append([task, *(MISSING if cell is None else str(cell) for cell in cells)])
    return ["task", *names], rows


def sentences(of: Experiment, found: Findings) -> list[str]:
    """Return what the numbers are, and what they mean."""
    which = "the last" if of.take == "last" else "the best"
    lines = [f"scores: {which} {of.metric} of each run{scale(of)}"]
    lines.append(
        "IQM: mean of the middle half of all runs of all tasks; in brackets 95 % intervals of "
        f"{found.resamples:,} stratified bootstraps (runs drawn anew within each task)"
    )
    return [*lines, *verdicts(of, found)]


def scale(of: Experiment) -> str:
    """Return how the scores are normalised, to follow what they are."""
    if not of.references:
        return ""
    if of.normalised_by == (RANGE,):
        return "; 0 is the worst of these runs on a task, 1 the best: compare with no other table"
    return f"; 0 is low and 1 is high of {', '.join(of.normalised_by)}"


def verdicts(of: Experiment, found: Findings) -> list[str]:
    """Return a sentence on each other algorithm: whether the best one is better."""
    best, *others = found.aggregates
    fewest = {name: min(map(len, tasks.values())) for name, tasks in of.raw().items()}
    lines = []
    for other in others[:_JUDGED]:
        each = found.improvements[best, other]
        if min(fewest[best], fewest[other]) < FEWEST:
            lines.append(
                f"{best} and {other}: too few runs to tell them apart; take at least {FEWEST} seeds of each task"
            )
        elif each.low > 0.5:
            lines.append(f"{best} is better than {other}: it wins {wins(each)} of the same task")
        elif each.high < 0.5:
            lines.append(f"{best} has the higher IQM, but wins only {wins(each)} against {other}")
        else:
            lines.append(f"{best} and {other} differ no more than chance allows: {best} wins {wins(each)}")
    return lines


def summary(of: Experiment) -> str:
    """Return what is compared in a few words."""
    seeds = {len(each) for tasks in of.raw().values() for each in tasks.values()}
    several = f"{min(seeds)} to {max(seeds)} seeds" if len(seeds) > 1 else counted(seeds.pop(), "seed")
    names = counted(len(of.algorithms), "algorithm"), counted(len(of.tasks), "task")
    return f"{names[0]} on {names[1]}, {several} each"


def facts(of: Experiment, found: Findings) -> dict[str, Any]:
    """Return everything as plain data."""
    scores, raw = of.scores(), of.raw()
    return {
        "metric": of.metric,
        "take": of.take,
        "minimize": of.lower,
        "normalize": list(of.normalised_by),
        "references": {task: asdict(each) for task, each in of.references.items()},
        "resamples": found.resamples,
        "left_out": list(of.left_out),
        "algorithms": [
            {
                "algorithm": name,
                **asdict(each),
                "scores": {task: array.tolist() for task, array in scores[name].items()},
                "raw_scores": {task: array.tolist() for task, array in raw[name].items()},
                "profile": _band(found.profiles[name]),
                "curve": _band(found.curves[name]) if name in found.curves else None,
            }
            for name, each in found.aggregates.items()
        ],
        "improvements": [{"of": one, "over": two, **asdict(each)} for (one, two), each in found.improvements.items()],
        "curves_count": "shares of each task's steps" if found.share else "steps",
        "no_curves": found.no_curves,
    }


def _band(band: Band) -> dict[str, list[float]]:
    def plain(values: np.ndarray) -> list[float]:
        return [float(f"{value:.8g}") for value in values]

    return {"x": plain(band.x), "value": plain(band.value), "low": plain(band.low), "high": plain(band.high)}
