"""Ids that packages register when they are imported, and names of files in place of modules: what to type instead."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from maze_core.base.errors import ConfigError
from maze_core.base.terminal_text import argument, printable, shown

_REGISTERED_BY = (
    (r"(MiniGrid|BabyAI)-.+", "minigrid", "minigrid"),
    (r"MiniWorld-.+", "miniworld", "miniworld"),
    (r"(highway|highway-fast|merge|roundabout|parking|intersection|racetrack|exit|u-turn)-v\d+", "highway_env",
     "highway-env"),
    (r"Panda\w+-v\d+", "panda_gym", "panda-gym"),
    (r"mo-.+", "mo_gymnasium", "mo-gymnasium"),
    (r"\w+(NoFrameskip|Deterministic)-v\d+|\w+-ram(NoFrameskip|Deterministic)?-v\d+", "ale_py", "ale-py"),
    (r"(Fetch|Hand|PointMaze|AntMaze|Adroit|FrankaKitchen).+", "gymnasium_robotics", "gymnasium-robotics"),
    (r"Crafter\w+-v\d+", "crafter", "crafter gym"),
)  # fmt: skip
"""Ids, the module that registers them, and what to install for it; no other name is guessed."""


def registered_by(env_id: str) -> str | None:
    """Return how to name an environment of a known package, which is looked for but not imported; None for others."""
    for ids, module, distribution in _REGISTERED_BY:
        if re.fullmatch(ids, env_id):
            name = f"--env {module}:{env_id}"
            if find_spec(module) is not None:
                return f"Its package registers it when it is imported: {name}"
            return f"It comes with `pip install {distribution}`: {name}"
    return None


def check_no_file(env_id: str) -> None:
    """Raise ConfigError for an id that names a file, or a member of one as an attribute; it says what is meant."""
    place, _, name = env_id.rpartition(":") if ".py:" in env_id else (env_id, "", "")
    path = Path(place)
    if path.suffix == ".py":
        away = "" if path.parent == Path() else f", with PYTHONPATH={argument(path.parent)}"
        hint = f"Next: --env {argument(':'.join([path.stem, name or 'NAME']))}{away}"
        raise ConfigError(f"{shown(env_id)} names a file, and a module is needed", "env.id", hint)
    module, _, member = env_id.partition(".")
    if member and ":" not in env_id and is_module_here(module):
        hint = f"Next: --env {printable(module)}:{printable(member)}"
        raise ConfigError(f"{shown(env_id)} is a member of a module", "env.id", hint)


def is_module_here(name: str) -> bool:
    """Return True for the name of a module of the current folder, which is not imported."""
    return name.isidentifier() and Path(f"{name}.py").is_file()
