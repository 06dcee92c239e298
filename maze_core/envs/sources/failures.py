"""What is said where gymnasium has no such environment, or where one cannot be built."""

from __future__ import annotations

import difflib
import re
import sys
from typing import TYPE_CHECKING

import gymnasium

from maze_core.base.blame import blame, broken_package
from maze_core.base.errors import ConfigError, MazeError, RunError
from maze_core.base.local_modules import hidden_here
from maze_core.base.terminal_text import plain, printable
from maze_core.envs.interfaces import is_of
from maze_core.envs.sources.gymnasium import is_module_here, last_locals, made_in
from maze_core.envs.sources.imports import explained
from maze_core.envs.sources.known_ids import comes_from, is_installed, registered_here
from maze_core.plugins.config.env_door import EnvSources
from maze_core.plugins.config.explain import in_code, left_out
from maze_core.plugins.discovery import describe, missing
from maze_core.plugins.other_interfaces import foreign
from maze_core.plugins.unmet import unmet

if TYPE_CHECKING:
    from maze_core.envs.sources.gymnasium import GymnasiumConfig

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
    near = difflib.get_close_matches(name, [*gymnasium.registry, *EnvSources().ids_elsewhere()], n=3, cutoff=0.6)
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
