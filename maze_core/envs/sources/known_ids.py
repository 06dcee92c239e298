"""Where environments come from that are not registered here: a distribution of Maze, or a package of others."""

from __future__ import annotations

import importlib.util
import re
from contextlib import suppress

from maze_core.envs.sources.imports import PACKAGES
from maze_core.plugins import discovery

_SOURCES = {
    "pettingzoo": r"(pettingzoo|mpe2|magent2)(\.\w+)*:.+|([a-z]+/)?[a-z][a-z0-9_]*_v\d+",
    "envpool": r"envpool:.+",
    "atari": r"ALE/.+|[A-Z][A-Za-z]+(NoFrameskip|Deterministic|-ram\w*)-v\d|"
    r"(Pong|Breakout|SpaceInvaders|Qbert|Seaquest|BeamRider|MsPacman|Enduro|Asteroids|Freeway|MontezumaRevenge|Boxing|"
    r"Alien|Assault)-v\d",
}
"""How the ids of env sources look that are published with the core, in distributions of their own."""
_MODULES = {
    "MiniGrid-": "minigrid", "BabyAI-": "minigrid", "MiniWorld-": "miniworld", "mo-": "mo_gymnasium",
    "popgym-": "popgym", "Crafter": "crafter", "rware-": "rware", "Foraging-": "lbforaging",
    "highway-": "highway_env", "merge-": "highway_env", "roundabout-": "highway_env", "parking-": "highway_env",
    "intersection-": "highway_env", "racetrack-": "highway_env", "exit-": "highway_env", "u-turn-": "highway_env",
    "Panda": "panda_gym",
    "Fetch": "gymnasium_robotics", "Hand": "gymnasium_robotics", "PointMaze": "gymnasium_robotics",
    "AntMaze": "gymnasium_robotics", "AdroitHand": "gymnasium_robotics", "FrankaKitchen": "gymnasium_robotics",
}  # fmt: skip
"""The modules that register environments whose ids begin like this."""
_GAME = re.compile(r"([A-Z][A-Za-z]+?)(NoFrameskip|Deterministic|-ram\w*)?-v\d")


def missing_source(env_id: str) -> str:
    """Return how to install the env source that has an id; empty where it is installed, or none has it."""
    if env_id in ("atari", "cutting_2d", "envpool", "pettingzoo"):
        return discovery.missing("env", env_id)
    found = (name for name, form in _SOURCES.items() if re.fullmatch(form, env_id))
    return next(filter(None, (discovery.missing("env", name) for name in found)), "")


def comes_from(env_id: str) -> str:
    """Return what to install, or to write, for an id that is not registered; empty where that is not known."""
    if env_id in discovery.names("env"):
        return f"It is an env source: --env-source {env_id}"
    game = _GAME.fullmatch(env_id) if re.fullmatch(_SOURCES["atari"], env_id) else None
    if advice := missing_source(env_id):
        return f"{advice}, then --env ALE/{game[1]}-v5" if game else advice
    if env_id.startswith("ALE/"):
        return f"Next: --env-source atari; or, without preprocessing, pip install ale-py, and --env ale_py:{env_id}"
    if game:
        return f"Next: --env ALE/{game[1]}-v5"
    module = next((each for beginning, each in _MODULES.items() if env_id.startswith(beginning)), None)
    if module is None:
        return ""
    named = f"--env {module}:{env_id}"
    return f"Next: {named}" if is_installed(module) else f"It comes with `pip install {PACKAGES[module]}`: {named}"


def is_installed(module: str) -> bool:
    """Return True for a module that can be found; nothing is imported."""
    with suppress(ImportError, ValueError):
        return importlib.util.find_spec(module) is not None
    return False
