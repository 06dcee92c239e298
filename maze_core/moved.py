"""Names that moved, within the core or to other distributions: the only module that knows the old import paths."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

NAMES: Mapping[str, str] = {
    "Searcher": "maze_sweep.searchers.base",
    "run_sweep": "maze_sweep.api",
}
"""Names of `maze_core` and the modules that hold them now; they can still be imported from `maze_core`."""

_MODULES: Mapping[str, str] = {
    "maze_core.comparison": "maze_compare",
    "maze_core.config.load": "maze_core.plugins.configuration",
    "maze_core.data.minari": "maze_minari.exchange",
    "maze_core.models.picture": "maze_pictures.network",
    "maze_core.scaffold": "maze_devkit.scaffold",
    "maze_core.searchers": "maze_sweep.searchers",
    "maze_core.sweep": "maze_sweep",
    "maze_core.testing": "maze_devkit",
    "maze_core.training.seeding": "maze_core.seeding",
}

_MEMBERS: Mapping[str, str] = {
    "maze_core.data.rollout.RolloutCollector": "maze_core.RolloutCollector",
    "maze_core.data.rollout.Sampler": "maze_core.acting.rollouts.Sampler",
    "maze_core.envs.events.events_of": "maze_core.envs.event_layers.events_of",
    "maze_core.envs.events.events_of_rows": "maze_core.envs.event_layers.events_of_rows",
    "maze_core.plugins.configuration.check_defaults": "maze_core.plugins.preferences.check_defaults",
    "maze_core.training.process_state.graceful_interrupts": "maze_core.interruption.graceful_interrupts",
    "maze_core.training.process_state.signal_handlers_kept": "maze_core.interruption.signal_handlers_kept",
    "maze_core.training.off_policy.Guide": "maze_core.training.off_policy.ReplayCollector",
}


def moved_name(name: str) -> Any:
    """Return an object of `maze_core` that lives elsewhere now.

    Raises:
        ImportError: its distribution is not installed.
    """
    home = NAMES[name]
    try:
        return getattr(importlib.import_module(home), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"maze_core.{name} is {home}.{name} now. Next: {_install(home)}") from error


def moved_module(old: str) -> ImportError:
    """Return the error of an import from a module that moved."""
    new = _MODULES[old]
    following = "" if new.startswith("maze_core") else f" Next: {_install(new)}"
    return ImportError(f"{old} is {new} now: import from there.{following}")


def moved_member(module: str, name: str) -> Exception:
    """Return the error of asking a module for a name that it does not have, or has no longer."""
    old = f"{module}.{name}"
    if old in _MEMBERS:
        return ImportError(f"{old} is {_MEMBERS[old]} now: import from there.")
    return AttributeError(f"module {module!r} has no attribute {name!r}")


def _install(module: str) -> str:
    return f"pip install {module.partition('.')[0].replace('_', '-')}"
