"""The plan of a sweep: the contents of `sweep.yaml` in its folder, and how it is read and changed."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, NonNegativeInt, PositiveInt, SerializeAsAny, ValidationError, field_validator

from maze_core import ConfigError, PluginConfig, RunConfig
from maze_core.base.errors import combined
from maze_core.base.files import write_bytes
from maze_core.base.metrics import RETURN
from maze_core.base.terminal_text import argument, shown
from maze_core.plugins import discovery
from maze_core.plugins.config.assembly import DEFAULTS, INSTALLED, Assembly
from maze_core.plugins.config.base import ConfigModel
from maze_core.plugins.config.checksummed_yaml import checksummed, read_verified
from maze_core.plugins.config.explain import explain
from maze_core.plugins.config.permissions import Permissions
from maze_core.plugins.config.plain_yaml import parse_mapping, to_yaml
from maze_core.plugins.config.raw import Raw, assign, assignments_of, check_set_once, merge
from maze_core.plugins.config.record import CONFIG
from maze_core.run.saved.found_run import find_run
from maze_sweep.searchers.space import Choices, Dimension, Point, Space, parse_space

PLAN = "sweep.yaml"
_MAY_GROW = ("seeds", "trials")
_MOST_POINTS = 1000
_MOST_SEEDS = 10_000
_VALUES = ("config", "overrides", "over")
"""What in a plan sets values of the configuration."""
_SETTING = ("algorithm", "env", "preset", *_VALUES)
RANKS = ("metric", "take", "minimize")
"""What decides only how trials are ranked."""
_WAITS = "late_metric"


class SweepPlan(ConfigModel):
    """What is tried, how often, and how trials are ranked. A trial is one point of the space, run once per seed."""

    algorithm: Annotated[str, Field(min_length=1)]
    """The learning algorithm."""
    env: str | None = None
    """Environment id; none: `config` or `overrides` name the environment."""
    preset: str = "auto"
    """A preset's name, `auto` (the preset with the environment's name) or `none`."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Contents of the configuration files, shared by all runs."""
    overrides: dict[str, JsonValue] = Field(default_factory=dict)
    """Values by path, shared by all runs."""
    init_from: str | None = None
    """Run directory from which all runs take model, wrappers and initial weights."""
    over: dict[str, list[JsonValue] | str]
    """The search space: for each path a list of values, or a text such as `1e-4,1e-3` or `1e-5..1e-2:log`. Empty: the
    same settings, once per seed."""
    seeds: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)] = (0,)
    """Seeds; each trial runs once per seed. A number n in a file means the seeds 0 to n - 1."""
    searcher: SerializeAsAny[PluginConfig]
    """The searcher that chooses the points."""
    trials: PositiveInt | None = None
    """Number of points to try; none: the whole grid."""
    metric: str = RETURN
    """Metric of `metrics.jsonl` that ranks the trials."""
    late_metric: bool = False
    """True: runs may record the metric for the first time at any moment, so its absence ends no sweep early."""
    take: Literal["best", "last"] = "best"
    """Which value of the metric counts: that of the best epoch, or the last (of the final evaluation, if there is
    one)."""
    minimize: bool = False
    """True if lower values are better."""

    @cached_property
    def space(self) -> Space:
        """The dimensions by path."""
        return parse_space(self.over)

    @property
    def named(self) -> Raw:
        """The algorithm and the environment by path."""
        return {"algorithm.name": self.algorithm} | ({} if self.env is None else {"env.id": self.env})

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(seeds))  # a run of its own for each

    def run_config(
        self, point: Point, assembly: Assembly = INSTALLED, more: Mapping[str, Any] = MappingProxyType({})
    ) -> tuple[RunConfig, str]:
        """Return the configuration of a point's runs, without a seed, and the preset contained in it.

        `more`: further values by path.

        Raises:
            ConfigError: a value does not fit.
        """
        flags = {**_with_point({**self.named, **self.overrides}, point), **more}
        parent = None if self.init_from is None else Path(self.init_from) / CONFIG
        return assembly.assemble_with_preset(preset=self.preset, files=[dict(self.config)], flags=flags, parent=parent)


def make_plan(raw: Mapping[str, Any], load: discovery.Loader = discovery.load) -> SweepPlan:
    """Return the plan described by plain data, as in a YAML file.

    Raises:
        ConfigError: the plan is not valid; the message has one line per problem.
    """
    data = {"searcher": {"name": "grid"}, **raw}
    errors: list[ConfigError] = []
    if isinstance(data["searcher"], str):
        data["searcher"] = {"name": data["searcher"]}
    if not isinstance(data["searcher"], PluginConfig):
        data["searcher"] = _searcher(data["searcher"], load, errors)
    data = {**_judged_by(data), **data}
    data["seeds"] = _seeds(data.get("seeds", 1))
    data["init_from"] = _source(data.get("init_from"), errors)
    plan = None
    try:
        plan = SweepPlan.model_validate(data)
        _check_paths(plan)
    except ValidationError as error:
        # The searcher is None here if its error is already reported.
        errors += [each for each in explain(error, SweepPlan, "", data) if each.where != "searcher" or not errors]
    except ConfigError as error:
        errors.append(error)
    if errors or plan is None:
        raise combined(errors)
    return plan


def read_plan(folder: Path) -> Raw:
    """Return the contents of the plan in a sweep's folder; empty if there is none yet.

    Raises:
        ConfigError: it is damaged.
    """
    path = folder / PLAN
    return parse_mapping(read_verified(path), str(path)) if os.path.lexists(path) else {}


def write_plan(folder: Path, plan: SweepPlan) -> None:
    """Write the plan to a sweep's folder atomically."""
    write_bytes(folder / PLAN, checksummed(to_yaml(plan.model_dump(mode="json"))).encode())


def check_continues(plan: SweepPlan, before: SweepPlan, folder: Path) -> None:
    """Raise ConfigError unless `plan` equals that of the existing sweep, or has more seeds or trials, or ranks anew."""
    old, new = before.model_dump(mode="json"), plan.model_dump(mode="json")
    changed = [key for key in new if new[key] != old[key] and key not in (*_MAY_GROW, *RANKS, _WAITS)]
    if changed:
        raise ConfigError(
            f"{folder} contains another sweep; differences: {', '.join(changed)}",
            "--dir",
            f"Name another folder, or continue that sweep: maze sweep --dir {argument(folder)}",
        )
    if dropped := sorted(set(before.seeds) - set(plan.seeds)):
        raise ConfigError(f"seeds may be added, not dropped: {', '.join(map(str, dropped))}", "--seeds")
    if before.trials is not None and (plan.trials or 0) < before.trials:
        raise ConfigError(f"trials may be added, not dropped: there are {before.trials}", "--trials")


def check_reaches(begun: Raw, typed: Raw, folder: Path) -> None:
    """Raise ConfigError if a begun sweep would write or connect elsewhere, and the command does not say the same.

    `begun` is the plan in the sweep's folder, which may come from someone else.
    """
    if all(begun.get(key) == typed.get(key) for key in _SETTING):
        return
    permissions = Permissions()
    said = {(each.where, each.text) for layer in _layers(typed, folder) for each in permissions.reaches(layer)}
    for layer in _layers(begun, folder):
        for each in permissions.elsewhere(layer, folder / PLAN):
            if (each.where, each.text) not in said:
                hint = f"To allow it, repeat the whole command that began the sweep, with {each.where} and its value."
                raise ConfigError(each.problem(folder / PLAN), each.where, hint)


def _layers(plan: Raw, folder: Path) -> Iterator[Raw]:
    """Yield what a plan sets in the configuration of a run, one layer for each way to combine values to search."""
    config, overrides, over = (each if isinstance(each, dict) else {} for each in map(plan.get, _VALUES))
    named = {"algorithm.name": plan.get("algorithm"), "env.id": plan.get("env"), **overrides}
    base = merge(merge(merge({}, DEFAULTS), _named_preset(plan, config)), config)
    for point in _points(over, folder):
        settings = _with_point(named, point)
        yield assign(base, [(tuple(str(path).split(".")), value) for path, value in settings.items()])


def _with_point(fixed: Raw, point: Point) -> Raw:
    """Return values by path, the point's first: `env: Acrobot-v1` sets `env.id`, which a fixed one would replace."""
    kept = {path: value for path, value in fixed.items() if not any(_sets(*each, path) for each in point.items())}
    return {**kept, **point}


def _sets(path: str, value: Any, other: str) -> bool:
    """Return True if a value at one path sets what is at another."""
    if not f"{other}.".startswith(f"{path}."):
        return False
    tree: Any = assign({}, assignments_of({path: value}))
    for key in other.split("."):
        if isinstance(tree, list):
            tree = dict(zip(map(str, range(len(tree))), tree, strict=True))
        if not isinstance(tree, dict) or key not in tree:
            return False
        tree = tree[key]
    return True


def _chooses(path: str, dimension: Dimension, other: str) -> bool:
    """Return True if a value of a searched path sets what is at another."""
    if not f"{other}.".startswith(f"{path}."):
        return False
    return path == other or (
        isinstance(dimension, Choices) and any(_sets(path, each, other) for each in dimension.values)
    )


def _named_preset(plan: Raw, config: Raw) -> Raw:
    """Return the preset of the current folder that a plan names, which may come from anyone; else nothing."""
    name = plan.get("preset") or "auto"
    name = config.get("preset", name) if name == "auto" else name
    parts = {"algorithm": plan.get("algorithm"), "env": plan.get("env") or {}}
    found = None if name == "auto" else INSTALLED.find_preset(name, merge(merge({}, config), parts))
    return {} if found is None or found.preset_folder.trusted else found.content


def _points(over: Raw, folder: Path) -> Iterator[Point]:
    """Yield values to search, so that those of each part meet in every way.

    Numbers name no plugin and no place: one of a path will do.
    """
    lists = {path: _telling(each.values) for path, each in parse_space(over).items() if isinstance(each, Choices)}
    first = {path: values[0] for path, values in lists.items()}
    for part in dict.fromkeys(path.partition(".")[0] for path in ["", *lists]):
        own = {path: values for path, values in lists.items() if path.partition(".")[0] == part}
        if math.prod(map(len, own.values())) > _MOST_POINTS:
            plan = argument(folder / PLAN)
            raise ConfigError(
                f"{plan} combines too many texts to tell where its runs would write or connect",
                f"over.{part}",
                f"If you trust it: maze sweep --plan {plan} --dir {argument(folder)}",
            )
        yield from ({**first, **dict(zip(own, values, strict=True))} for values in product(*own.values()))


def _telling(values: Sequence[Any]) -> list[Any]:
    numbers = [each for each in values if isinstance(each, int | float | None)]
    return [*numbers[:1], *(each for each in values if not isinstance(each, int | float | None))]


def _searcher(raw: Any, load: discovery.Loader, errors: list[ConfigError]) -> PluginConfig | None:
    name = raw.get("name") if isinstance(raw, dict) else None
    if not isinstance(name, str) or not name:
        errors.append(ConfigError("must be the name of an installed searcher", "searcher.name"))
        return None
    try:
        plugin = load("searcher", name)
        model: type[PluginConfig] = plugin.Config
        return model.model_validate(raw).bound_to(plugin)
    except ConfigError as error:
        errors.append(ConfigError(error.message, "searcher.name", error.hint))
    except ValidationError as error:
        errors += explain(error, model, "searcher", raw)
    return None


def _source(given: Any, errors: list[ConfigError]) -> Any:
    """Return the path of `init_from` as absolute, since a sweep may be continued from another folder."""
    if not isinstance(given, str | Path):
        return given
    try:
        return str(find_run(Path(given)))
    except ConfigError as error:
        errors.append(ConfigError(error.message, "init_from", "Next: --init-from with the folder of a run"))
        return None


def _judged_by(plan: Raw) -> Raw:
    """Return the metric that ranks the trials, and its direction, where all runs have the same `score`."""
    config, overrides = (plan.get(key) for key in ("config", "overrides"))
    if not (isinstance(config, dict | None) and isinstance(overrides, dict | None)):
        return {}
    said = [each for each in assignments_of(overrides or {}) if each[0][0] == "score"]
    score = assign({"score": (config or {}).get("score")}, said)["score"]
    if not isinstance(score, dict) or not isinstance(score.get("metric"), str) or "metric" in plan:
        return {}
    return {"metric": score["metric"], "minimize": score.get("maximize") is False}


def _seeds(given: Any) -> Any:
    """Return a number n of seeds as 0 to n - 1, anything else unchanged."""
    if isinstance(given, bool) or not isinstance(given, int):
        return given
    if not 1 <= given <= _MOST_SEEDS:
        problem = f"must be a number of seeds up to {_MOST_SEEDS:,}, or a list of them, got {shown(given)}"
        raise ConfigError(problem, "seeds", "Next: --seeds 3")
    return list(range(given))


def _check_paths(plan: SweepPlan) -> None:
    if not plan.space and (plan.trials is not None or plan.searcher.name != "grid"):
        hint = (
            "Next: --over PATH=VALUES; or neither --searcher nor --trials, which runs the same settings once per seed."
        )
        raise ConfigError("there is nothing to search", "over", hint)
    for path, dimension in plan.space.items():
        if path == "seed":
            raise ConfigError("seeds cannot be searched", "over.seed", "Next: --seeds 3")
        for other in plan.overrides:
            if _chooses(path, dimension, other):
                hint = f"Next: leave out --set {argument(other)}=…"
                raise ConfigError("is both fixed and searched", f"over.{path}", hint)
        for other in plan.space:
            if other != path and _chooses(path, dimension, other):
                raise ConfigError(
                    f"is searched twice: {path} sets it, too", f"over.{other}", "Next: leave one of them out."
                )
    if "seed" in plan.overrides:
        raise ConfigError("a sweep sets the seeds of its runs", "overrides.seed", "Next: --seeds 1,2,3")
    check_set_once(assignments_of(plan.overrides), assignments_of(plan.named))
