"""What a report says, before it is written in any format: all of it plain text and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from maze_compare.aggregate_output import aggregate_table, scale, summary, task_table, verdicts
from maze_compare.experiment import Experiment, Findings, Scored
from maze_compare.groups import MISSING, differing, group, number, short, text
from maze_compare.records import RunRecord
from maze_compare.significance import FEWEST, estimate_text, normalised_text
from maze_core.base.terminal_text import argument, counted, printable

_MOST_ROWS = 60
"""Most rows of a table of settings or tasks."""
_MOST_VALUES = 4
_MOST_COMMANDS = 30
_LONGEST = 160
_FILMS = (".mp4", ".webm", ".gif")
_MOST_FILM = 8_000_000
SWEEP = "sweep.yaml"

Table = tuple[list[str], list[list[str]]]
"""Headers and rows."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The parts of a report."""

    title: str
    asked: str
    answers: list[str]
    design: list[tuple[str, str]]
    settings: Table
    aggregates: Table
    tasks: Table
    meaning: list[str]
    best: list[tuple[str, str]]
    film: Path | None
    commands: list[str]
    notes: list[str]
    of: Experiment
    found: Findings


def contents(of: Experiment, found: Findings, folders: Sequence[Path], title: str, options: Sequence[str]) -> Contents:
    """Return what a report on an experiment says.

    Args:
        of: the experiment.
        found: its findings.
        folders: the places that the user has named.
        title: the title; empty: one is made.
        options: those of the command, to repeat it.
    """
    names, tasks = list(found.aggregates), of.tasks
    best = _best(of)
    return Contents(
        title or f"{_few(names)} on {_few(tasks)}",
        _asked(of, names),
        verdicts(of, found) or [_reached(of, found)],
        _design(of),
        _settings(of),
        _without_tasks(aggregate_table(found.aggregates, bool(of.references))),
        _shortened(task_table(of, found)),
        _meaning(of, found),
        _facts_of(best),
        None if best.record is None else _film(best.record.path),
        _commands(of, folders, options),
        list(of.left_out),
        of,
        found,
    )


def _few(names: Sequence[str], most: int = 6) -> str:
    shown = [printable(name, 60) for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def _asked(of: Experiment, names: Sequence[str]) -> str:
    """Return the question that an experiment answers."""
    metric, tasks = printable(of.metric, 80), _few(of.tasks)
    if len(names) == 1:
        return f"What {metric} does {_few(names)} reach on {tasks}?"
    return f"Which of {_few(names)} has the {'lower' if of.lower else 'higher'} {metric} on {tasks}?"


def _reached(of: Experiment, found: Findings) -> str:
    """Return what the only algorithm reaches."""
    ((name, each),) = found.aggregates.items()
    runs, tasks = counted(each.runs, "run"), counted(each.tasks, "task")
    score = normalised_text(each.iqm) if of.references else estimate_text(each.iqm, 3)
    score = f"{printable(name, 60)} reaches {score}"
    return f"{score}{f', the IQM of {runs} on {tasks}' if each.runs > 1 else ' in one run'}; nothing is compared"


def _meaning(of: Experiment, found: Findings) -> list[str]:
    fewest = min(len(scores) for tasks in of.raw().values() for scores in tasks.values())
    which = "The score of a run is its last" if of.take == "last" else "The score of a run is its best"
    return [
        f"{which} {of.metric}{scale(of)}.",
        "IQM is the mean of the middle half of all runs of all tasks. The interval in brackets says where the number "
        f"may lie if other seeds were drawn: it holds 95 % of {found.resamples:,} draws of the runs of each task "
        "(stratified bootstrap; Agarwal et al. 2021, arXiv 2108.13264).",
        *([_few_runs(fewest)] if fewest < FEWEST else []),
    ]


def _few_runs(fewest: int) -> str:
    """Return what a task with so few runs lacks."""
    if fewest == 1:
        return f"A task has a single run, which says nothing of other seeds: take at least {FEWEST}, better 5."
    return f"A task has only {fewest} runs, for which intervals are too narrow: take at least {FEWEST} seeds, better 5."


def _records(of: Experiment) -> list[RunRecord]:
    return [each.record for each in of.entries if each.record is not None]


def _design(of: Experiment) -> list[tuple[str, str]]:
    """Return what was done, by name."""
    records = _records(of)
    rows = [("compared", summary(of)), ("algorithms", _few(of.algorithms, 20)), ("tasks", _few(of.tasks, 20))]
    rows.append(("seeds", _values([each.run.seed for each in of.entries], 12)))
    if others := len(of.entries) - len(records):
        rows.append(("runs of others", f"{counted(others, 'run')} from CSV files"))
    if not records:
        return rows
    steps = [run.count("env_steps") for run in records]
    rows.append(("environment steps of a run", _values([f"{each:,.0f}" for each in sorted(steps)])))
    seconds = sum(run.count("seconds") for run in records)
    long = f"{number(seconds / 3600, 3)} hours" if seconds >= 3600 else f"{number(seconds / 60, 3)} minutes"
    rows.append(("time of training", f"{long} in all, {number(sum(steps), 15)} steps"))
    moments = sorted(run.started for run in records)
    rows.append(("begun", " to ".join(dict.fromkeys(f"{moment:%Y-%m-%d}" for moment in (moments[0], moments[-1])))))
    rows.append(("trained on", _values([_machine(run) for run in records])))
    rows.append(("versions", _versions(records)))
    return rows


def _machine(run: RunRecord) -> str:
    """Return what a run records of the machine: the device, the runner and the threads."""
    runner, algorithm = run.config.get("runner"), run.config["algorithm"]
    name = runner.get("name") if isinstance(runner, dict) else runner
    threads = run.config.get("threads", 1)
    parts = [
        str(algorithm.get("device", "cpu")),
        f"runner {name or MISSING}",
        counted(threads, "thread") if isinstance(threads, int) else f"{threads} threads",
    ]
    return printable(", ".join(parts), 80)


def _versions(records: Sequence[RunRecord]) -> str:
    found: dict[str, set[str]] = {}
    for run in records:
        versions = run.facts.get("versions")
        for name, version in (versions if isinstance(versions, dict) else {}).items():
            found.setdefault(printable(name, 40), set()).add(printable(version, 30))
    shown = [f"{name} {' or '.join(sorted(each))}" for name, each in list(found.items())[:20]]
    return ", ".join(shown) or MISSING


def _values(values: Sequence[str], most: int = _MOST_VALUES) -> str:
    """Return different values, some of them."""
    each = list(dict.fromkeys(printable(value, 80) for value in values))
    return ", ".join(each[:most]) + (f" and {len(each) - most} more" if len(each) > most else "")


def _settings(of: Experiment) -> Table:
    """Return in which settings algorithms differ: a row for each, a column for each algorithm."""
    records = _records(of)
    groups = group(records)
    paths = [path for path in differing(groups) if path not in ("env.id", "algorithm.name")][:_MOST_ROWS]
    members: dict[str, list[RunRecord]] = {}
    for each in of.entries:
        if each.record is not None:
            members.setdefault(each.run.algorithm, []).append(each.record)
    known = {name: group(runs) for name, runs in members.items()}
    rows = []
    for path in paths:
        cells = []
        for groups_of_one in known.values():
            values = [printable(text(each.settings[path]), 60) for each in groups_of_one if path in each.settings]
            cells.append(_values(values) or MISSING)
        rows.append([printable(short(path), 60), *cells])
    return ["setting", *known], rows


def _without_tasks(table: Table) -> Table:
    """Return the table of aggregates without its last column: all algorithms have the tasks of the design."""
    headers, rows = table
    return headers[:-1], [row[:-1] for row in rows]


def _shortened(table: Table) -> Table:
    headers, rows = table
    return headers, rows[:_MOST_ROWS]


def _best(of: Experiment) -> Scored:
    """Return the run with the best score: the normalised one, one of Maze's before others."""

    def place(each: Scored) -> tuple[bool, float]:
        reference = of.references.get(each.run.task)
        score = each.final if reference is None else (each.final - reference.low) / (reference.high - reference.low)
        return each.record is not None, score

    return max(of.entries, key=place)


def _facts_of(best: Scored) -> list[tuple[str, str]]:
    """Return what is known of the run with the best score."""
    run, record = best.run, best.record
    rows = [("algorithm", run.algorithm), ("task", run.task), ("seed", run.seed), ("score", number(best.final))]
    if record is None:
        return rows
    rows.append(("run", str(record.path)))
    if (record.path / "checkpoints" / "best").is_dir():
        rows.append(("policy", str(record.path / "checkpoints" / "best")))
    parameters = record.facts.get("parameters")
    if isinstance(parameters, dict) and parameters.get("total"):
        rows.append(("parameters", text(parameters["total"])))
    for name in ("observation_space", "action_space"):
        if record.facts.get(name):
            rows.append((name.replace("_", " "), str(record.facts[name])))
    return [(name, printable(value, _LONGEST)) for name, value in rows]


def _film(folder: Path) -> Path | None:
    """Return a film in a run's folder; none where it is a link, or large."""
    for path in sorted(folder.rglob("*")):
        inside = not any(each.is_symlink() for each in (path, *path.parents) if folder in each.parents)
        if path.suffix.lower() in _FILMS and inside and path.is_file() and path.stat().st_size <= _MOST_FILM:
            return path
    return None


def _commands(of: Experiment, folders: Sequence[Path], options: Sequence[str]) -> list[str]:
    """Return the commands that repeat the experiment, those that train first."""
    records = _records(of)
    places = dict.fromkeys([*folders, *(_sweep_of(run) for run in records)])
    sweeps = [folder for folder in places if (folder / SWEEP).is_file()]
    lines = []
    for folder in sweeps:
        again = Path("again", folder.name if len(sweeps) > 1 else "")
        lines.append(f"maze sweep --plan {argument(folder / SWEEP)} --dir {argument(again)}")
    first: dict[tuple[str, str], RunRecord] = {}
    for each in of.entries:
        if each.record is not None and not {_sweep_of(each.record), *each.record.path.parents} & {*sweeps}:
            first.setdefault((each.run.algorithm, each.run.task), each.record)
    for record in first.values():
        config = argument(record.path / "config.yaml")
        lines.append(f"maze train {argument(record.algorithm)} --config {config} --preset none --seed {record.seed}")
    if len(lines) > _MOST_COMMANDS:
        lines = [*lines[:_MOST_COMMANDS], f"# and {len(lines) - _MOST_COMMANDS} more of this kind"]
    lines.append(" ".join(["maze report", *(argument(folder) for folder in folders), *map(argument, options)]))
    return lines


def _sweep_of(run: RunRecord) -> Path:
    """Return the folder of the sweep that a run is one of, if it is one of a sweep."""
    return run.path.parent.parent
