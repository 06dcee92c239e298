"""The modules that plugins may import (docs/guide/compatibility.md), and what a plugin imports."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

PROMISED = (
    "maze_core.acting",
    "maze_core.config",
    "maze_core.data",
    "maze_core.envs",
    "maze_core.models",
    "maze_core.policies",
    "maze_core.runners",
    "maze_core.training.actor_metrics",
    "maze_core.training.agent_groups",
    "maze_core.training.adam",
    "maze_core.training.algorithm",
    "maze_core.training.burn_in",
    "maze_core.training.collector",
    "maze_core.training.critics",
    "maze_core.training.deterministic",
    "maze_core.training.off_policy",
    "maze_core.training.on_policy",
    "maze_core.training.process_state",
    "maze_core.training.quantile_loss",
    "maze_core.training.recurrent",
    "maze_core.training.replay_memory",
    "maze_core.training.report",
    "maze_core.training.reward_scale",
    "maze_core.training.rmsprop",
    "maze_core.training.rollout_collector",
    "maze_core.training.run",
    "maze_core.training.run_dir",
    "maze_core.training.run_progress",
    "maze_core.training.schedules",
    "maze_core.training.surrogate",
    "maze_core.training.targets",
    "maze_core.averages",
    "maze_core.cli.output",
    "maze_core.blame",
    "maze_core.files",
    "maze_core.callbacks.point_logger",
    "maze_core.callbacks.points",
    "maze_core.environment_variables",
    "maze_core.errors",
    "maze_core.free_ram",
    "maze_core.guarded_folder",
    "maze_core.interruption",
    "maze_core.local_modules",
    "maze_core.plugins.base",
    "maze_core.plugins.closing",
    "maze_core.plugins.configuration",
    "maze_core.plugins.discovery",
    "maze_core.plugins.hookspecs",
    "maze_core.plugins.other_interfaces",
    "maze_core.plugins.preferences",
    "maze_core.plugins.python_objects",
    "maze_core.processes",
    "maze_core.progress",
    "maze_core.seeding",
    "maze_core.terminal_text",
    "maze_core.tree",
    "maze_devkit",
    "maze_sweep.api",
    "maze_sweep.pool",
    "maze_sweep.searchers.base",
    "maze_sweep.searchers.space",
)
"""Modules, and packages with all of their modules."""
_PROVIDERS = ("maze_core", "maze_devkit", "maze_sweep")
_WHOLE = ("maze_core",)
"""Packages whose own names are promised, but not their modules."""


def broken_promises(module: str) -> list[str]:
    """Return what a plugin's package imports without a promise, as `MODULE (FILE, line N)`; imports nothing.

    `module`: the one that has the plugin; all modules of its top package count, or it alone where it is no package.
    """
    top = module.partition(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return []
    origin = Path(spec.origin)
    files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    return [
        f"{name} ({file.name}, line {line})"
        for file in files
        for name, line in _imports(file)
        if name.partition(".")[0] in _PROVIDERS and name.partition(".")[0] != top and not _is_promised(name)
    ]


def _imports(file: Path) -> Iterator[tuple[str, int]]:
    """Yield modules that a file imports; of `from a import b` it is `a.b` where that is a module."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((each.name, node.lineno) for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                name = f"{node.module}.{each.name}"
                yield name if _is_module(name) else node.module, node.lineno


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
