"""What is checked before the first run of a sweep begins: every value, every environment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from maze_core.config.explain import combined
from maze_core.errors import ConfigError
from maze_core.plugins.discovery import Loader
from maze_core.searchers.space import Choices, Dimension, Point, Space

if TYPE_CHECKING:
    from maze_core.config.run import RunConfig
    from maze_core.sweep.plan import SweepPlan


def probes(space: Space) -> Iterator[Point]:
    """Points that between them have every choice and both ends of every range."""
    first = {path: _extremes(dimension)[0] for path, dimension in space.items()}
    yield first
    for path, dimension in space.items():
        for value in _extremes(dimension)[1:]:
            yield {**first, path: value}


def check_runs(plan: SweepPlan, points: Iterable[Point], load: Loader) -> None:
    """Assemble the configuration of every point, ask its algorithm, and build every environment once.

    Raises:
        ConfigError: the problems, each once.
    """
    problems: dict[str, ConfigError] = {}
    built: set[str] = set()
    for point in points:
        try:
            config, _ = plan.run_config(point, load)
            load("algorithm", config.algorithm.name)(config.algorithm).check(config)
            _check_environment(config, load, built)
        except ConfigError as error:
            problems.setdefault(str(error), error)
    if problems:
        raise combined(list(problems.values()))


def _extremes(dimension: Dimension) -> tuple[object, ...]:
    return dimension.values if isinstance(dimension, Choices) else (dimension.at(0.0), dimension.at(1.0))


def _check_environment(config: RunConfig, load: Loader, built: set[str]) -> None:
    """Build the environment, as the runs will, unless one like it was."""
    from maze_core.envs.builder import EnvBuilder
    from maze_core.envs.in_process import vector_env

    parts = [config.env, *config.wrappers]
    key = json.dumps([part.model_dump(mode="json") for part in parts], sort_keys=True)
    if key not in built:
        built.add(key)
        vector_env(EnvBuilder(config.env, config.wrappers, 0, "evaluation", load), 1).close()
