"""Packages whose environments are made by a function of theirs from an id: `bsuite:catch/0`, `gym:CartPole-v1`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maze_core import ConfigError
from maze_core.base.terminal_text import shown
from maze_core.envs.interfaces import Maker, as_gymnasium, seeded, takes_seed
from maze_core.envs.sources.imports import import_module


def maker(module: str, name: str) -> Maker | None:
    """Return what makes the environment `module:name`, whose module is imported; None where nothing known does."""
    special = {"bsuite": _bsuite, "grid2op": _grid2op}.get(module)
    if special is not None:
        return special(name)
    return _of_gym(name)


def gym_ids() -> Mapping[str, Any]:
    """Return the specifications of gym's registry by id; empty where nobody has imported gym."""
    registry = getattr(getattr(sys.modules.get("gym"), "envs", None), "registry", {})
    found: Mapping[str, Any] = getattr(registry, "env_specs", registry)  # gym 0.21
    return found


def _of_gym(name: str) -> Maker | None:
    """Return the maker of an id of gym's registry, without gym's own wrappers, which fail with NumPy 2."""
    spec = gym_ids().get(name)
    if spec is None:
        return None

    def make(kwargs: Mapping[str, Any], seed: int) -> tuple[Any, int | None]:
        entry = spec.entry_point
        if isinstance(entry, str):
            module, _, member = entry.partition(":")
            entry = getattr(import_module(module, "env.id"), member)
        given = {**(getattr(spec, "kwargs", None) or getattr(spec, "_kwargs", None) or {}), **kwargs}
        return as_gymnasium(*seeded(entry, given, seed)), spec.max_episode_steps

    return make


def _bsuite(name: str) -> Maker:
    sweep = import_module("bsuite.sweep", "env.id")
    if name not in sweep.SETTINGS:
        raise ConfigError(
            f"bsuite has no environment {shown(name)}", "env.id", "Write bsuite:catch/0, or another id of its sweep."
        )

    def make(kwargs: Mapping[str, Any], seed: int) -> tuple[Any, int | None]:
        suite = import_module("bsuite", "env.id")
        experiment = name.partition("/")[0]
        load = suite.bsuite.EXPERIMENT_NAME_TO_ENVIRONMENT[experiment]
        given = {**sweep.SETTINGS[name], **kwargs}
        own = takes_seed(load) and given.get("seed") is None
        if own:  # copies must not play the same episodes
            given["seed"] = seed % 2**31
        return as_gymnasium(load(**given), seeded="seed" in given), None

    return make


def _grid2op(name: str) -> Maker:
    def make(kwargs: Mapping[str, Any], seed: int) -> tuple[Any, int | None]:
        grid2op = import_module("grid2op", "env.id")
        small = kwargs.get("test") is True and name in grid2op.list_available_test_env()
        if not (small or name in grid2op.list_available_local_env()) or Path(name).exists():  # never code of a folder
            raise ConfigError(
                f"the environment {shown(name)} of grid2op is not on this machine",
                "env.id",
                f"The small data that it brings: --set env.kwargs.test=true. All of it: python -c"
                f" \"import grid2op; grid2op.make('{name}')\"",
            )
        given = dict(kwargs)
        if "backend" not in given and (fast := _light_simulator()) is not None:
            given["backend"] = fast
        compatible = import_module("grid2op.gym_compat", "env.id")
        return compatible.GymEnv(grid2op.make(name, **given)), None

    return make


def _light_simulator() -> Any:
    """Return grid2op's fast simulator, where it is installed."""
    try:
        return import_module("lightsim2grid", "env.id").LightSimBackend()
    except ConfigError:
        return None
