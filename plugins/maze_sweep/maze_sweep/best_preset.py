"""The values of a sweep's best trial as a preset: `best.yaml` in its folder, which `maze train --preset FILE` takes."""

from __future__ import annotations

from contextlib import suppress

from maze_compare.groups import text

from maze_core import MazeError
from maze_core.base import files
from maze_core.base.plain_json import is_count, is_number
from maze_core.base.terminal_text import printable
from maze_core.plugins.config.assembly import Assembly
from maze_core.plugins.config.plain_yaml import to_yaml
from maze_core.plugins.config.raw import Raw, assign, assignments_of
from maze_core.plugins.config.record import FORKED_FROM
from maze_sweep.budget import CALLBACK
from maze_sweep.lines import Stretch, best_line
from maze_sweep.ranking import several_tasks, unit_of
from maze_sweep.sweep import Sweep
from maze_sweep.trials import Trial

BEST = "best.yaml"
_OF_ENV = ("name", "id", "factory")
"""What names an environment, which the user of a preset names."""
_COUNTERS = {"steps": "env_steps", "epochs": "epoch"}
"""What a run's record says about the moment of its fork, by the unit of budgets that repeats itself."""


def write_best(sweep: Sweep, assembly: Assembly) -> bool:
    """Write the values of the best trial as a preset, with those of its line as a table; False: there is no best one.

    On several environments there is none: their scores cannot be compared.
    """
    line = [] if several_tasks(sweep.plan) else best_line(sweep)
    trial = sweep.trials[line[-1].trials[-1]] if line else None
    if trial is None or trial.config is None:
        return False
    config = trial.config.model_dump(mode="json")
    config["callbacks"].pop(CALLBACK, None)
    config = _with_schedules(sweep, line, config, assembly)
    values = {key: each for key, each in _changed(_plain(config, assembly), config).items() if key != "seed"}
    preset = {"algorithm": {"name": config["algorithm"]["name"]}}
    preset["algorithm"] |= values.pop("algorithm", {})
    content = "".join(f"# {each}".rstrip() + "\n" for each in _comments(sweep, trial, line)) + to_yaml(
        {**preset, **values}
    )
    files.write_bytes(sweep.folder / BEST, content.encode())
    return True


def best_algorithm(sweep: Sweep) -> str:
    """Return the algorithm of the best trial, which may be searched for."""
    line = best_line(sweep)
    config = sweep.trials[line[-1].trials[-1]].config if line else None
    return sweep.plan.algorithm if config is None else config.algorithm.name


def _with_schedules(sweep: Sweep, line: list[Stretch], config: Raw, assembly: Assembly) -> Raw:
    """Return a configuration in which numbers that changed on the way are schedules, where they can be."""
    for path in sweep.plan.space:
        if (schedule := _schedule(sweep, line, path)) is None or _is_scaled(path, config):
            continue
        scheduled = assign(config, assignments_of({path: schedule}))
        with suppress(MazeError):  # a number that takes no schedule keeps its last value
            assembly.load_run_config(scheduled)
            config = scheduled
    return config


def _schedule(sweep: Sweep, line: list[Stretch], path: str) -> Raw | None:
    """Return the numbers that a line had, each from the moment of a fork on; None where that cannot be said."""
    values = [each.point[path] for each in line]
    counter = _COUNTERS.get(unit_of(sweep))
    if counter is None or values.count(values[0]) == len(values) or not all(map(is_number, values)):
        return None
    pairs = []
    for each, before in zip(line[1:], values, strict=False):
        record = sweep.trials[each.trials[0]].runs[0].record()
        began = None if record is None else (record.facts.get(FORKED_FROM) or {}).get(counter)
        if not is_count(began):
            return None
        if each.point[path] != before:
            pairs.append([began, each.point[path]])
    return {"schedule": "steps", "over": unit_of(sweep), "from": values[0], "values": pairs}


def _is_scaled(path: str, config: Raw) -> bool:
    """Return True for a learning rate that falls by `lr_schedule` besides, which it would not as a schedule."""
    return "lr" in path.split(".")[-1].split("_") and config["algorithm"].get("lr_schedule", "constant") != "constant"


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
    said.append(f"maze train {printable(best_algorithm(sweep), 80)} --env {env} --preset FILE")
    if len(line) > 1:
        said += ["", f"Its line had these values. From, until ({unit_of(sweep)}), values:"]
        said += [_row(each) for each in line]
    return said


def _row(stretch: Stretch) -> str:
    values = ", ".join(f"{path}={text(value)}" for path, value in stretch.point.items())
    until = "the end" if stretch.until is None else f"{stretch.until:,.10g}"
    return printable(f"{stretch.began:>12,.10g} {until:>12}  {values}", 500)
