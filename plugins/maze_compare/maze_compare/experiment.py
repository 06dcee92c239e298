"""An experiment over tasks and seeds: finished runs and CSV files of others, normalised, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from maze_statistics import (
    BUNDLED,
    Aggregate,
    Band,
    Estimate,
    Reference,
    Run,
    ScoresError,
    aggregate,
    bundled,
    improvements,
    parse_references,
    profiles,
    read_csv,
    sample_efficiency,
    spans,
)
from maze_statistics.runs import Take

from maze_compare.groups import differing, group, short, text
from maze_compare.records import RunRecord
from maze_core import ConfigError
from maze_core.base.metrics import metric_named
from maze_core.base.plain_json import is_number
from maze_core.base.terminal_text import argument, counted, printable

RANGE, NONE = "range", "none"
_LONGEST = 200
"""Most characters of a name."""
_EQUAL = 1.01
"""Ratio of the longest to the shortest budget of the tasks up to which a curve counts steps, not shares."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A run, and the score that counts."""

    run: Run
    final: float
    record: RunRecord | None = None
    """Where it is one of Maze's."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is compared: runs with raw scores, and by what these are normalised."""

    entries: tuple[Scored, ...]
    metric: str
    take: Take
    lower: bool
    """True if lower raw scores are better."""
    normalised_by: tuple[str, ...]
    references: Mapping[str, Reference]
    """By task; empty where scores are taken as they are."""
    left_out: tuple[str, ...] = ()
    """Sentences on runs that are not in it."""

    @property
    def algorithms(self) -> list[str]:
        """The names of what is compared, in the order in which they first appear."""
        return list(dict.fromkeys(each.run.algorithm for each in self.entries))

    @property
    def tasks(self) -> list[str]:
        """The tasks, sorted."""
        return sorted({each.run.task for each in self.entries})

    def raw(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the raw scores `[runs]` by algorithm and task."""
        return self._scores(lambda each: each.final)

    def scores(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the normalised scores `[runs]` by algorithm and task."""
        return self._scores(lambda each: float(self._normal(each.run.task, np.array(each.final))))

    def runs(self) -> list[Run]:
        """Return the runs with normalised scores."""
        return [replace(each.run, scores=self._normal(each.run.task, each.run.scores)) for each in self.entries]

    def _normal(self, task: str, scores: np.ndarray) -> np.ndarray:
        return self.references[task].normalised(scores) if self.references else scores

    def _scores(self, of: Callable[[Scored], float]) -> dict[str, dict[str, np.ndarray]]:
        found: dict[str, dict[str, list[float]]] = {}
        for each in self.entries:
            found.setdefault(each.run.algorithm, {}).setdefault(each.run.task, []).append(of(each))
        return {name: {task: np.array(tasks[task]) for task in sorted(tasks)} for name, tasks in found.items()}


@dataclass(frozen=True, slots=True)
class Findings:
    """What an experiment says; each by the name of the algorithm, the best interquartile mean first."""

    aggregates: Mapping[str, Aggregate]
    improvements: Mapping[tuple[str, str], Estimate]
    profiles: Mapping[str, Band]
    curves: Mapping[str, Band]
    """Empty where runs have no common curve."""
    no_curves: str = ""
    """Why there are none."""
    share: bool = False
    """True if the curves count shares of each task's steps."""
    resamples: int = field(default=0)


@contextmanager
def as_config_error(where: str = "", hint: str = "") -> Iterator[None]:
    """Raise what is wrong with scores as the error of an option."""
    try:
        yield
    except ScoresError as error:
        raise ConfigError(printable(error), where, hint) from None


def experiment(
    records: Sequence[RunRecord],
    files: Sequence[Path],
    *,
    metric: str,
    take: Take = "last",
    lower: bool = False,
    by: Sequence[str] = (),
    normalise: Sequence[str] = (),
    wanted: Callable[[Run], bool] = lambda run: True,
) -> Experiment:
    """Return what is compared.

    Args:
        records: runs of Maze, of which the finished ones with the metric are taken.
        files: CSV files of others.
        metric: the metric of the runs.
        take: which of its values counts.
        lower: lower values are better.
        by: paths of the configuration whose values tell algorithms apart; none: the name of the algorithm.
        normalise: bundled tables, files with reference scores, `range` or `none`; later ones win.
        wanted: chooses runs of the files.

    Raises:
        ConfigError: there is nothing to compare, a name stands for several configurations, or a task has no reference.
    """
    left_out: list[str] = []
    entries = _of_records(records, metric, take, lower, by or ("algorithm.name",), left_out)
    sources = [("", entries)] + [(path.stem, _of_file(path, take, lower, wanted)) for path in files]
    entries = _told_apart(sources)
    if not entries:
        raise ConfigError("there is no finished run to compare", hint="Next: maze runs list")
    found = Experiment(tuple(entries), metric, take, lower, tuple(normalise), {}, tuple(left_out))
    return replace(found, references=_references(found))


def findings(
    of: Experiment, *, resamples: int = 5_000, seed: int = 0, thresholds: np.ndarray | None = None
) -> Findings:
    """Return the statistics of an experiment; the same runs give the same ones.

    Raises:
        ConfigError: algorithms have different tasks.
    """
    scores, more = of.scores(), {"resamples": resamples, "seed": seed}
    with as_config_error(hint="Next: --env TASK for a single task, or add the runs"):
        aggregates = aggregate(scores, **more)
        order = sorted(aggregates, key=lambda name: -aggregates[name].iqm.value)
        scores = {name: scores[name] for name in order}
        better, shares = improvements(scores, **more), profiles(scores, thresholds, **more)
    ends: dict[str, float] = {}
    for run in of.runs():
        ends[run.task] = max(ends.get(run.task, 0.0), float(run.steps[-1]))
    share = max(ends.values()) > _EQUAL * min(ends.values())
    curves, why = {}, ""
    if not any(run.steps.size > 1 for run in of.runs()):
        why = "each run has one score"
    else:
        try:
            curves = sample_efficiency(of.runs(), share=share, resamples=min(resamples, 1_000), seed=seed)
        except ScoresError as error:
            why = str(error)
    ranked = {name: aggregates[name] for name in order}
    return Findings(ranked, better, shares, {name: curves[name] for name in order if curves}, why, share, resamples)


def _of_records(
    records: Sequence[RunRecord], metric: str, take: Take, lower: bool, by: Sequence[str], left_out: list[str]
) -> list[Scored]:
    """Return the finished runs that have the metric, each seed once."""
    finished = [run for run in records if run.state == "finished"]
    if unfinished := len(records) - len(finished):
        left_out.append(f"left out {counted(unfinished, 'run')} that did not finish")
    having = [run for run in finished if run.value(metric, "last") is not None]
    if lacking := len(finished) - len(having):
        left_out.append(f"left out {counted(lacking, 'run')} without {printable(metric, 80)}")
    _check_one_configuration(having, by)
    found: dict[tuple[str, str, Any], Scored] = {}
    for record in having:
        run = Run(_named(record, by), record.env, str(record.seed), *_curve(record, metric))
        final = record.value(metric, take, minimize=lower)
        found.setdefault(
            (run.algorithm, run.task, record.seed), Scored(run, run.final() if final is None else final, record)
        )
    if repeated := len(having) - len(found):
        left_out.append(f"left out {counted(repeated, 'run')} with the seed of another one, which add no information")
    return list(found.values())


def _curve(record: RunRecord, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and values of a run's metric, both `[n]`; the final evaluation is the last one."""
    values = {
        float(epoch.get("env_steps") or 0): value
        for epoch in record.epochs
        if is_number(value := metric_named(epoch, metric))
    }
    final = record.value(metric, "last")
    if final is not None:
        values[max(record.count("env_steps"), *values, 0.0)] = final
    steps = sorted(values)
    return np.array(steps), np.array([values[step] for step in steps], dtype=np.float64)


def _named(record: RunRecord, by: Sequence[str]) -> str:
    """Return the name of what a run is compared as."""
    if list(by) == ["algorithm.name"]:
        return printable(record.algorithm, _LONGEST)
    settings = group([record])[0].settings
    parts = []
    for path in by:
        value = text(settings.get(path))
        parts.append(value if path.endswith((".name", ".id")) else f"{short(path)}={value}")
    return printable(", ".join(parts), _LONGEST)


def _check_one_configuration(records: Sequence[RunRecord], by: Sequence[str]) -> None:
    """Raise ConfigError if a name stands for runs with several configurations on a task."""
    members: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        members.setdefault((_named(record, by), record.env), []).append(record)
    known = {path for each in group(records) for path in each.settings}
    if unknown := [path for path in by if records and path not in known]:
        from maze_core.plugins.config.explain import nearest

        raise ConfigError(f"no run has {unknown[0]!r}; {nearest(unknown[0], sorted(known))}", "--by")
    for (name, task), runs in members.items():
        if len(groups := group(runs)) > 1:
            paths = [path for path in differing(groups) if path not in by] or ["init_from"]
            others = " ".join(f"--by {argument(path)}" for path in [*by, paths[0]])
            raise ConfigError(
                f"{name} on {printable(task, 80)} stands for {len(groups)} configurations, which differ in "
                f"{', '.join(map(printable, paths[:5]))}",
                "--by",
                f"Next: {others}, or choose one of them: --where {argument(paths[0])}=VALUE",
            )


def _of_file(path: Path, take: Take, lower: bool, wanted: Callable[[Run], bool]) -> list[Scored]:
    with as_config_error("--csv"):
        return [Scored(run, run.final(take, lower=lower)) for run in read_csv(path) if wanted(run)]


def _told_apart(sources: Sequence[tuple[str, Sequence[Scored]]]) -> list[Scored]:
    """Return the runs of all sources; an algorithm of a file that others have on the same task gets the file's name."""
    where: dict[tuple[str, str], set[int]] = {}
    for number, (_, entries) in enumerate(sources):
        for each in entries:
            where.setdefault((each.run.algorithm, each.run.task), set()).add(number)
    twice = {name for (name, _), numbers in where.items() if len(numbers) > 1}
    found = []
    for number, (source, entries) in enumerate(sources):
        for each in entries:
            name = each.run.algorithm
            if name in twice and source:
                same = [other for other, _ in sources[1:number]].count(source)
                name = printable(f"{name} ({source}{f' {same + 1}' if same else ''})", _LONGEST)
            found.append(replace(each, run=replace(each.run, algorithm=name)))
    return found


def _references(of: Experiment) -> dict[str, Reference]:
    """Return the references of all tasks; empty where scores are taken as they are."""
    tasks = of.tasks
    found: dict[str, Reference] = {}
    if NONE in of.normalised_by and len(of.normalised_by) > 1:
        raise ConfigError("none cannot stand beside others", "--normalize")
    if not of.normalised_by or NONE in of.normalised_by:
        if of.lower:
            raise ConfigError(
                "lower values are better: normalise them, so that higher ones are",
                "--normalize",
                "Next: --normalize range, or a file with low and high",
            )
        if len(tasks) > 1 and not of.normalised_by:
            hint = (
                f"Next: --normalize {'|'.join(BUNDLED)}, or a file with an entry TASK: {{low: 0, high: 500}} for each "
                "task, or range (the worst and the best of these runs), or none (they are comparable already)"
            )
            raise ConfigError(f"scores of {len(tasks)} tasks have no common scale", "--normalize", hint)
        return {}
    for name in of.normalised_by:
        found |= _references_named(name, of)
    if missing := [task for task in tasks if task not in found]:
        names = ", ".join(printable(task, 80) for task in missing[:5])
        raise ConfigError(
            f"there are no reference scores for {names}" + (" and others" if len(missing) > 5 else ""),
            "--normalize",
            "Next: add a file with TASK: {low: 0, high: 500} for each, or --normalize range",
        )
    return {task: found[task] for task in tasks}


def _references_named(name: str, of: Experiment) -> dict[str, Reference]:
    from maze_core.plugins.config.plain_yaml import read_yaml

    if name in BUNDLED:
        return bundled(name, of.tasks)
    if name == RANGE:
        runs = [replace(each.run, steps=np.zeros(1), scores=np.array([each.final])) for each in of.entries]
        return spans(runs, lower=of.lower)
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(
            f"{name!r} is neither {', '.join(BUNDLED)}, {RANGE} nor {NONE}, nor a file .yaml", "--normalize"
        )
    with as_config_error("--normalize"):
        return parse_references(read_yaml(path), str(path))
