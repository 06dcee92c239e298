"""What an id may mean that is not registered: one of a distribution or a package, a module, or one registered here."""

from __future__ import annotations

import ast
import difflib
import importlib.util
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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


_FILES, _BYTES = 200, 500_000
"""How many files are read, and how long they may be."""


def registered_here(name: str) -> list[str]:
    """Return up to three ids `module:Id` that someone may mean by `name`: an id, a module, or nearly one of them."""
    spellings: dict[str, str] = {}
    with suppress(OSError):  # the current folder was removed, or may not be read
        for module, env_id in _registrations(Path.cwd()):
            for text in (module, env_id, _without_version(env_id)):
                spellings.setdefault(text.lower(), f"{module}:{env_id}")
    near = difflib.get_close_matches(name.lower(), list(spellings), n=3, cutoff=0.7)
    return list(dict.fromkeys(spellings[text] for text in near))


def _registrations(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield module and id of each call `register("Id", …)` in the modules and packages of a folder."""
    files = sorted([*folder.glob("*.py"), *folder.glob("*/__init__.py")])[:_FILES]
    for file in files:
        module = file.parent.name if file.name == "__init__.py" else file.stem
        with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            if module.isidentifier() and file.is_file() and file.stat().st_size <= _BYTES:  # a pipe would not end
                for env_id in _ids(ast.parse(file.read_bytes())):
                    yield module, env_id


def _ids(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "register":
            named = [each.value for each in node.keywords if each.arg == "id"]
            for each in [*node.args[:1], *named]:
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.value


def _without_version(env_id: str) -> str:
    return re.sub(r"-v\d+$", "", env_id)
