"""The modules that plugins may import (docs/guide/compatibility.md), and what a plugin imports."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from maze_core.base.bundled import LIBRARIES

PROMISED = (
    "maze_core.base.foreign_settings",
    "maze_core.base.errors",
    "maze_core.base.file_systems",
    "maze_core.base.files",
    "maze_core.base.free_ram",
    "maze_core.base.process_state",
    "maze_core.base.saved_state",
    "maze_core.base.seeding",
    "maze_core.base.terminal_text",
    "maze_core.base.tree",
    "maze_core.plugins.base",
    "maze_core.plugins.config.base",
    "maze_core.plugins.config.counting",
    "maze_core.plugins.config.explain",
    "maze_core.plugins.config.external_fields",
    "maze_core.plugins.config.params",
    "maze_core.plugins.config.run",
    "maze_core.plugins.config.schedules",
    "maze_core.plugins.config.validation",
    "maze_core.plugins.hookspecs",
    "maze_core.envs.builder",
    "maze_core.envs.codecs",
    "maze_core.envs.info_columns",
    "maze_core.envs.mask_forms",
    "maze_core.envs.masks",
    "maze_core.envs.parameters",
    "maze_core.envs.actors",
    "maze_core.envs.spaces",
    "maze_core.envs.vector",
    "maze_core.envs.wrappers",
    "maze_core.data.batch",
    "maze_core.data.rollout",
    "maze_core.base.metrics",
    "maze_core.data.sequences",
    "maze_core.models.assembly",
    "maze_core.models.blocks",
    "maze_core.models.distributions",
    "maze_core.models.inputs",
    "maze_core.models.memory",
    "maze_core.models.plain",
    "maze_core.models.policy",
    "maze_core.collect.agents.agent",
    "maze_core.collect.agents.network",
    "maze_core.collect.policies.base",
    "maze_core.collect.pools.runner",
    "maze_core.collect.pools.serial",
    "maze_core.collect.pools.workers",
    "maze_core.collect.stepper",
    "maze_core.learn.algorithm",
    "maze_core.run.report",
    "maze_core.cli.output",
    "maze_core.plugins.config.record",
    "maze_core.envs.serial",
    "maze_core.models.families",
    "maze_core.run.episodes.statistics",
    "maze_core.run.progress",
    *LIBRARIES,
    "maze_curricula.outcomes",
    "maze_curricula.space",
    "maze_curricula.teacher",
    "maze_devkit",
    "maze_es.evaluations",
    "maze_es.evaluator",
    "maze_es.search_space",
    "maze_recordings.demonstrations",
    "maze_recordings.loader",
    "maze_recordings.obeyed_masks",
    "maze_recordings.progress",
    "maze_recordings.recorded_steps",
    "maze_recordings.recording_files",
    "maze_recordings.space_json",
    "maze_recordings.trajectories",
    "maze_recordings.writer",
    "maze_sweep.api",
    "maze_sweep.pool",
    "maze_sweep.searchers.base",
    "maze_sweep.searchers.space",
)
"""Modules, and packages with all of their modules."""
_PROVIDERS = ("maze_core", *LIBRARIES, "maze_curricula", "maze_devkit", "maze_es", "maze_recordings", "maze_sweep")
_WHOLE = ("maze_core", "maze_curricula")
"""Packages whose own names are promised, but not their modules."""


def broken_promises(module: str) -> list[str]:
    """Return what a plugin's package imports without a promise, as `MODULE (FILE, line N)`; imports nothing.

    `module`: the one that has the plugin; all modules of its top package count, or it alone where it is no package.
    """
    top = module.partition(".")[0]
    return [
        f"{name} ({file.name}, line {line})"
        for file in _files(module)
        for name, line in _imports(file)
        if name.partition(".")[0] in _PROVIDERS and name.partition(".")[0] != top and not _is_promised(name)
    ]


def imported_libraries(module: str) -> list[str]:
    """Return the libraries of Maze that a plugin's package imports, as packages.

    `module` as for `broken_promises`.
    """
    tops = {name.partition(".")[0] for file in _files(module) for name, _ in _imports(file)}
    return sorted(tops & {*LIBRARIES} - {module.partition(".")[0]})


def _files(module: str) -> list[Path]:
    """Return the files of a module's top package, or its own one where it is no package."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or spec.origin is None:
        return []
    origin = Path(spec.origin)
    return sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]


def _imports(file: Path) -> tuple[tuple[str, int], ...]:
    """Return modules that a file imports, with the line; of `from a import b` it is `a.b` where that is a module."""
    return _imports_of(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=2048)
def _imports_of(file: Path, changed: int) -> tuple[tuple[str, int], ...]:
    """Return the imports of a file that was `changed` then: several plugins have their files in common."""
    found: list[tuple[str, int]] = []
    for node in _statements(ast.parse(file.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            found += [(each.name, node.lineno) for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [(f"{node.module}.{each.name}", node.module) for each in node.names]
            found += [(name if _is_module(name) else module, node.lineno) for name, module in names]
    return tuple(found)


def _statements(block: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements of a block and of the blocks in it: expressions are most of a file, and import nothing."""
    for node in block:
        yield node
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(node, inner, ()))


def _is_module(name: str) -> bool:
    top, *parts = name.split(".")
    spec = importlib.util.find_spec(top) if top in _PROVIDERS else None
    if spec is None or spec.origin is None:
        return False
    path = Path(spec.origin).parent.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


def _is_promised(name: str) -> bool:
    parts = name.split(".")
    return name in _WHOLE or any(".".join(parts[:count]) in PROMISED for count in range(1, len(parts) + 1))
