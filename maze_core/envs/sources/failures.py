"""What is said where gymnasium has no environment of an id, or where one cannot be built.

An id that is not registered may mean one of a distribution or a package, a module, or one registered here.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium

from maze_core.base.blame import blame, broken_package
from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.base.local_modules import hidden_here
from maze_core.base.terminal_text import plain, printable
from maze_core.envs.interfaces import is_of
from maze_core.envs.sources.gymnasium import is_module_here, last_locals, made_in
from maze_core.envs.sources.imports import PACKAGES, explained
from maze_core.plugins import discovery
from maze_core.plugins.config.env_door import EnvSources
from maze_core.plugins.config.explain import in_code, left_out
from maze_core.plugins.discovery import describe, missing
from maze_core.plugins.how_to_install import unmet
from maze_core.plugins.other_interfaces import foreign

if TYPE_CHECKING:
    from maze_core.envs.sources.gymnasium import GymnasiumConfig


_SOURCES = {
    "pettingzoo": r"(pettingzoo|mpe2|magent2)(\.\w+)*:.+|([a-z]+/)?[a-z][a-z0-9_]*_v\d+",
    "envpool": r"envpool:.+",
    "jax": r"(gymnax|brax|playground|jumanji|craftax|navix):.+",
    "jax_games": r"pgx:.+",
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
    if env_id in ("atari", "cutting_2d", "envpool", "jax", "jax_games", "pettingzoo"):
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


_RERAISED = " was raised from the environment creator"
"""The text that gymnasium adds to a TypeError that it raises again."""


def explanation(config: GymnasiumConfig, exc: Exception) -> tuple[MazeError, Exception | None]:
    """Return the error for an exception of `gymnasium.make`, and its cause, if that tells more."""
    if isinstance(exc, TypeError):
        return _type_error(config, exc), exc
    if isinstance(exc, gymnasium.error.DependencyNotInstalled | ImportError):
        # Where a package is missing, the way through others' code to it tells nothing.
        return _missing_dependency(config.id, exc), None if isinstance(exc, ModuleNotFoundError) else exc
    if isinstance(exc, gymnasium.error.Error):
        return ConfigError(printable(plain(exc)), where="env.id"), exc
    return _cannot_be_built(config, exc), exc


def suggestion(name: str, module: str) -> str:
    """Return what to do about an id that is not registered."""
    if (hidden := hidden_here(module)) is not None:
        return hidden
    member = getattr(sys.modules.get(module), name, None)
    if is_of(member, "pettingzoo") and (advice := missing("env", "pettingzoo")):
        return advice
    if callable(member):
        return (
            f"The module {module} has {name}, which is not known to return an environment. A function of your own says "
            "so: def make() -> gymnasium.Env"
        )
    if not module and (advice := comes_from(name)):
        return advice
    namespace, slash, _ = name.rpartition("/")
    if slash and not any(known.startswith(f"{namespace}/") for known in gymnasium.registry):
        return f"Install the package that registers {namespace!r} and write `its_module:{name}`."
    if not module and (here := registered_here(name)):
        return f"Did you mean {' or '.join(map(printable, here))}?"
    if not module and is_module_here(name):
        return f"It is a module. Next: --env {name}:NAME, with a class or an id of it"
    near = difflib.get_close_matches(name, [*gymnasium.registry, *EnvSources().similar_ids(name)], n=3)
    if near:
        names = [f"{module}:{each}" if module and made_in(module, each) else each for each in near]
        return f"Did you mean {' or '.join(names)}?"
    return "Name your own environments `module:Id`, with the module that registers them."


def _type_error(config: GymnasiumConfig, exc: TypeError) -> MazeError:
    """Return the error for a TypeError of `make`: wrong arguments, an object that is no environment, or a bug in it."""
    text = printable(plain(exc).partition(_RERAISED)[0])
    built = last_locals(exc).get("env")
    if (other := foreign(built)) is not None:
        return other
    if blame(exc):
        return _cannot_be_built(config, exc)
    if hint := left_out(exc):
        return ConfigError(text, "env.kwargs", hint)
    return ConfigError(text, "env.kwargs" if "argument" in text else "env.id")


def _cannot_be_built(config: GymnasiumConfig, exc: Exception) -> RunError:
    raised = exc.__cause__ if _RERAISED in str(exc) and exc.__cause__ is not None else exc
    place = blame(raised)
    where = f" ({place})" if place else ""
    if broken := broken_package(raised, _module_of(config.id)):
        where += f"\nThe package {broken} fails when it is imported: python -c 'import {broken}'"
    if (clash := unmet(_module_of(config.id), raised)) is not None:
        where += f"\n{clash.text}"
    misused = isinstance(raised, TypeError | AttributeError | AssertionError)
    if misused and any(isinstance(each, str | list | dict) for each in config.kwargs.values()):
        where += f"\n{in_code('env.kwargs')}"
    return RunError(f"the environment {config.id} cannot be built: {describe(raised)}{where}")


def _module_of(env_id: str) -> str:
    """Return the module that an environment comes from."""
    module, _, name = env_id.rpartition(":")
    spec = gymnasium.registry.get(name)
    entry = getattr(spec, "entry_point", None)
    return entry.partition(":")[0] if isinstance(entry, str) else module


def _newest(env_id: str) -> str:
    """Return the newest registered version of an environment."""
    name = env_id.rpartition("-v")[0]
    versions = [
        int(each[len(name) + 2 :]) for each in gymnasium.registry if re.fullmatch(rf"{re.escape(name)}-v\d+", each)
    ]
    return f"{name}-v{max(versions)}"


def _missing_dependency(env_id: str, exc: Exception) -> ConfigError:
    """Return the error for an environment whose package is missing, with the command that installs it."""
    spec = gymnasium.registry.get(env_id.rpartition(":")[2])
    entry_point = str(spec.entry_point) if spec else ""
    parts = entry_point.split(".")
    if entry_point.startswith("gymnasium.envs.") and len(parts) > 2:
        extra = {"classic_control": "classic-control", "toy_text": "toy-text"}.get(parts[2], parts[2])
        return ConfigError(str(exc), where="env.id", hint=f'Install it: pip install "gymnasium[{extra}]"')
    if "gymnasium-robotics" in str(exc):  # MuJoCo's environments of gym, in their versions 2 and 3
        return ConfigError(str(exc), "env.id", f"Next: --env {_newest(env_id)}")
    clash = unmet(_module_of(env_id), exc)
    name = getattr(exc, "name", None) if isinstance(exc, ModuleNotFoundError) else None
    top = name.partition(".")[0] if name else ""
    is_missing = isinstance(exc, gymnasium.error.DependencyNotInstalled) or (top and not is_installed(top))
    is_clash = clash is not None and clash.is_named
    if not is_clash and not isinstance(exc, ModuleNotFoundError) and broken_package(exc):
        return explained(env_id, exc, "env.id") or ConfigError(str(exc), "env.id")
    if not is_missing or is_clash:
        return ConfigError(f"{env_id} cannot be imported: {exc}", "env.id", clash.text if clash else None)
    hint = "\n".join([*([f"Install it: pip install {top}"] if top else []), *([clash.text] if clash else [])])
    return ConfigError(f"a package that {env_id!r} needs is missing: {exc}", "env.id", hint)
