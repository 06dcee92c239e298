"""Lines of trials, each of which goes on from the one before: which values a run had, and when.

The best trial's values are written to `best.yaml` in the sweep's folder, which `maze train --preset FILE` takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maze_compare.groups import text

from maze_core import MazeError
from maze_core.base import files
from maze_core.base.terminal_text import printable
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.config.plain_yaml import to_yaml
from maze_core.plugins.config.raw import Raw
from maze_sweep.budget import CALLBACK
from maze_sweep.ranking import ranked, unit_of
from maze_sweep.searchers.space import Point
from maze_sweep.sweep import Sweep
from maze_sweep.trials import Trial

BEST = "best.yaml"
_OF_ENV = ("name", "id", "factory")
"""What names an environment, which the user of a preset names."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a line in which no value changes."""

    trials: tuple[int, ...]
    began: float
    until: float | None
    """None: the end of the runs."""
    point: Point


def line_of(sweep: Sweep, trial: Trial) -> list[Trial]:
    """Return the trials that a trial goes on from, the first at the front, and itself."""
    line = [trial]
    while (parent := line[0].parent) is not None:
        line.insert(0, sweep.trials[parent])
    return line


def stretches(line: list[Trial]) -> list[Stretch]:
    """Return the parts of a line in which its values stay."""
    found: list[Stretch] = []
    for trial in line:
        if found and found[-1].point == trial.point:
            found[-1] = Stretch((*found[-1].trials, trial.number), found[-1].began, trial.until, trial.point)
        else:
            began = (found[-1].until or 0.0) if found else 0.0
            found.append(Stretch((trial.number,), began, trial.until, trial.point))
    return found


def best_line(sweep: Sweep) -> list[Stretch]:
    """Return the line of the best trial; empty if none is complete."""
    best = next((trial for trial in ranked(sweep) if trial.complete(sweep.plan)), None)
    return [] if best is None else stretches(line_of(sweep, best))


def facts_of_line(sweep: Sweep) -> list[dict[str, Any]]:
    """Return the best trial's line as plain data."""
    return [
        {"trials": list(each.trials), "from": each.began, "until": each.until, "point": each.point}
        for each in best_line(sweep)
    ]


def write_best(sweep: Sweep, assembly: Assembly) -> bool:
    """Write the values of the best trial as a preset, with those of its line as a table; False: none is complete."""
    line = best_line(sweep)
    trial = sweep.trials[line[-1].trials[-1]] if line else None
    if trial is None or trial.config is None:
        return False
    config = trial.config.model_dump(mode="json")
    config["callbacks"].pop(CALLBACK, None)
    values = {key: each for key, each in _changed(_plain(config, assembly), config).items() if key != "seed"}
    preset = {"algorithm": {"name": config["algorithm"]["name"]}}
    preset["algorithm"] |= values.pop("algorithm", {})
    content = "".join(f"# {each}".rstrip() + "\n" for each in _comments(sweep, trial, line)) + to_yaml(
        {**preset, **values}
    )
    files.write_bytes(sweep.folder / BEST, content.encode())
    return True


def _plain(config: Raw, assembly: Assembly) -> Raw:
    """Return the configuration that an environment and an algorithm have alone; empty where they need more."""
    env = {key: config["env"][key] for key in _OF_ENV if config["env"].get(key)}
    base = {"env": env, "algorithm": {"name": config["algorithm"]["name"]}}
    try:
        return assembly.assemble(files=[base], preset="none").model_dump(mode="json")
    except MazeError:
        return {}


def _changed(plain: Raw, now: Raw) -> Raw:
    """Return what differs from a plain configuration; lists and plugins of other names are taken whole."""
    found: Raw = {}
    for key, value in now.items():
        before = plain.get(key)
        if isinstance(value, dict) and isinstance(before, dict) and before.get("name") == value.get("name"):
            if inner := _changed(before, value):
                found[key] = inner
        elif value != before:
            found[key] = value
    found |= dict.fromkeys(plain.keys() - now.keys())
    return found


def _comments(sweep: Sweep, trial: Trial, line: list[Stretch]) -> list[str]:
    """Return what the file says about itself."""
    plan = sweep.plan
    value = trial.spread(plan)
    said = [f"The best trial, t{trial.number:03}: {plan.take} {plan.metric} {value}."]
    env = printable((trial.config.env_title if trial.config else "") or "ID", 80)
    said.append(f"maze train {printable(plan.algorithm, 80)} --env {env} --preset FILE")
    if len(line) > 1:
        said += ["", f"Its line had these values; below are the last ones. From, until ({unit_of(sweep)}), values:"]
        said += [_row(each) for each in line]
    return said


def _row(stretch: Stretch) -> str:
    values = ", ".join(f"{path}={text(value)}" for path, value in stretch.point.items())
    until = "the end" if stretch.until is None else f"{stretch.until:,.10g}"
    return printable(f"{stretch.began:>12,.10g} {until:>12}  {values}", 500)
