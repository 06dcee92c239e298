"""Checks before the first run of a sweep starts: every value and every environment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from maze_core import ConfigError
from maze_core.base.errors import combined
from maze_core.plugins.config.assembly import policy_part
from maze_core.plugins.config.external_fields import Outside, marked_fields
from maze_sweep.searchers.space import Choices, Dimension, Point, Space

if TYPE_CHECKING:
    from maze_core import PluginConfig, RunConfig
    from maze_core.plugins.config.assembly import Assembly
    from maze_sweep.plan import SweepPlan


def probes(space: Space) -> Iterator[Point]:
    """Yield points that together cover every choice and both ends of every range."""
    first = {path: _extremes(dimension)[0] for path, dimension in space.items()}
    yield first
    for path, dimension in space.items():
        for value in _extremes(dimension)[1:]:
            yield {**first, path: value}


def check_runs(plan: SweepPlan, points: Iterable[Point], assembly: Assembly) -> None:
    """Assemble the configuration of every point, check it with its algorithm and its policies, and build every
    environment once.

    If runs start from another run's weights, every network is built once too and loads them.

    Raises:
        ConfigError: the problems, each once.
        CheckpointError: the run to start from has no complete checkpoint.
    """
    problems: dict[str, ConfigError] = {}
    built: set[str] = set()
    filled: set[str] = set()
    for point in points:
        try:
            config, _ = plan.run_config(point, assembly)
            config.algorithm.plugin_class("algorithm")(config.algorithm).check(config)
            _check_policies(config)
            _check_environment(config, built)
            if plan.init_from is not None:
                _check_weights(config, Path(plan.init_from), filled)
        except ConfigError as error:
            problems.setdefault(str(error), error)
    if problems:
        raise combined(list(problems.values()))


def check_copies(plan: SweepPlan, assembly: Assembly) -> None:
    """Raise ConfigError if the runs are copied to one address, which holds one run."""
    config, _ = plan.run_config(next(probes(plan.space)), assembly)
    to = getattr(config.callbacks.get("mirror"), "to", "{run}")
    if "{run}" not in to:
        raise ConfigError(
            "one address cannot hold the copies of several runs",
            "callbacks.mirror.to",
            "Next: end it with /{run}, which stands for the name of each run",
        )


def _extremes(dimension: Dimension) -> tuple[object, ...]:
    return dimension.values if isinstance(dimension, Choices) else (dimension.at(0.0), dimension.at(1.0))


def _check_policies(config: RunConfig) -> None:
    """Raise ConfigError for a parameter of algorithm or wrappers that names no policy."""
    wrappers = {f"wrappers.{number}": each for number, each in enumerate(config.wrappers)}
    for place, part in {"algorithm": config.algorithm, **wrappers}.items():
        for field, mark in marked_fields(type(part)).items():
            named = getattr(part, field, None) if mark.kind is Outside.PLUGIN else None
            if named is not None:
                policy_part(named, f"{place}.{field}", part)


def _check_environment(config: RunConfig, built: set[str]) -> None:
    """Build the environment as the runs will, unless an equal one was built already."""
    from maze_core import EnvBuilder, vector_env

    key = _key(config.env, *config.wrappers)
    if key not in built:
        built.add(key)
        vector_env(EnvBuilder(config.env, config.wrappers, purpose="evaluation"), 1).close()


def _check_weights(config: RunConfig, source: Path, filled: set[str]) -> None:
    """Load another run's weights into a policy as the runs will, unless an equal one was checked already."""
    key = _key(config.env, *config.wrappers, config.model) + config.algorithm.name
    if key in filled:
        return
    filled.add(key)
    from maze_core import Run
    from maze_core.run.building import load_parameters  # imports torch

    with closing(Run(config.model_copy(update={"seed": 0}), to_act=True)) as run:
        run.build_policy()
        load_parameters(run.policy, source)


def _key(*parts: PluginConfig) -> str:
    return json.dumps([part.model_dump(mode="json") for part in parts], sort_keys=True)
