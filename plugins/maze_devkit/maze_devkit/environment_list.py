"""Lists environments: what env sources offer, with spaces where few are asked for, and the presets for each."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from maze_core.base.errors import ConfigError, MazeError
from maze_core.base.local_modules import permit
from maze_core.envs.builder import EnvBuilder
from maze_core.envs.sources.gymnasium import made_in
from maze_core.envs.sources.imports import import_module
from maze_core.plugins import discovery
from maze_core.plugins.closing import releasing
from maze_core.plugins.config.assembly import env_config
from maze_core.plugins.config.plain_yaml import read_yaml
from maze_core.plugins.config.presets import (
    Read,
    named_presets,
    preset_of,
    preset_paths,
    presets_of_package,
)
from maze_core.plugins.config.raw import Raw

BUILT = 20
"""Most environments of one list that are built to show their spaces."""
_SECONDS = 10.0
"""After this time no further environment is built."""
_REGISTER_ON_IMPORT = (
    "ale_py",
    "gymnasium_robotics",
    "highway_env",
    "minigrid",
    "miniworld",
    "mo_gymnasium",
    "panda_gym",
)
"""Known packages that register their environments when they are imported; others are imported when named."""


@dataclass
class Listed:
    """One environment, or an env source that does not list its environments."""

    env_source: str
    id: str
    """As `--env` takes it; empty where the source needs none or does not list them."""
    observation_space: str = ""
    action_space: str = ""
    """Both spaces are empty where the environment was not built."""
    problem: str = ""
    """Why it could not be built."""
    presets: dict[str, list[str]] = field(default_factory=dict)
    """By algorithm; the one named like the environment applies by itself."""


@dataclass
class EnvList:
    """The environments that fit a text, and what could not be looked at."""

    environments: list[Listed]
    problems: list[str]


def list_environments(text: str = "", env_source: str | None = None) -> EnvList:
    """Return the environments whose id or env source contains `text`, in any case.

    `module:text` imports this module, and looks among the environments that need it. Spaces are filled in where at most
    `BUILT` environments fit. `env_source`: only those of this env source.

    Raises:
        ConfigError: the module that `text` names cannot be imported, or there is no such env source.
    """
    permit(text + "_" if text.endswith(":") else text)
    problems: list[str] = []
    found = [each for each in _offered(text, problems, env_source) if _fits(each, text)]
    found.sort(key=lambda each: (each.env_source, each.id.lower()))
    wanted = {(each.env_source, bool(each.id)) for each in found}
    read = reading_once()
    known = {(source, has_ids): _presets_with(source, has_ids, problems, read) for source, has_ids in wanted}
    for each in found:
        titles = known[each.env_source, bool(each.id)]
        each.presets = {name: fit for name in titles if (fit := _fitting(titles[name], each))}
    if len(found) <= BUILT:
        end = time.monotonic() + _SECONDS
        for each in found:
            if time.monotonic() < end:
                _look(each)
    return EnvList(found, list(dict.fromkeys(problems)))


def _fits(listed: Listed, text: str) -> bool:
    module, colon, rest = text.rpartition(":")
    own, _, env_id = listed.id.rpartition(":")
    if colon:
        return own == module and rest.lower() in env_id.lower()
    return text.lower() in listed.id.lower() or text.lower() in listed.env_source.lower()


def _offered(text: str, problems: list[str], env_source: str | None) -> Iterator[Listed]:
    module, colon, _ = text.rpartition(":")
    if env_source is not None:
        discovery.load("env", env_source)  # says what is wrong with the name
    for name in discovery.names("env") if env_source is None else [env_source]:
        if name == "gymnasium":
            yield from (Listed(name, env_id) for env_id in _registered(module if colon else "", problems))
            continue
        offer = _caught(partial(discovery.load, "env", name), problems)
        if offer is None:
            continue
        ask = getattr(offer, "environments", None)
        ids = ("",) if ask is None else _caught(lambda: list(ask()), problems) or ()  # noqa: B023 — asked here
        yield from (Listed(name, str(env_id)) for env_id in ids)


def _registered(module: str, problems: list[str]) -> list[str]:
    """Return the ids of gymnasium's registry, those that importing a module adds as `module:Id`."""
    if module:
        before = set(gymnasium.registry)
        _silent(lambda: import_module(module, "TEXT"))
        new = set(gymnasium.registry) - before
        return [f"{module}:{env_id}" for env_id in (new or {e for e in gymnasium.registry if made_in(module, e)})]
    ids = [env_id for env_id in gymnasium.registry if not any(made_in(each, env_id) for each in _REGISTER_ON_IMPORT)]
    for name in _REGISTER_ON_IMPORT:
        if _installed(name):
            _caught(partial(import_module, name, "TEXT"), problems)
            ids += [f"{name}:{env_id}" for env_id in gymnasium.registry if made_in(name, env_id)]
    return ids


def _installed(module: str) -> bool:
    from importlib.util import find_spec

    with contextlib.suppress(ImportError, ValueError):
        return find_spec(module) is not None
    return False


def _presets_with(source: str, has_ids: bool, problems: list[str], read: Read) -> dict[str, list[str]]:
    """Return by algorithm the presets to choose from with an env source: without ids, only those in its package."""

    def skipped(error: MazeError) -> None:
        problems.append(str(error))

    found = {}
    for algorithm in discovery.names("algorithm"):
        preset_folders = presets_of_package(_package("env", source))
        if has_ids:
            preset_folders = preset_paths(algorithm, _package("algorithm", algorithm), _package("env", source))
        found[algorithm] = list(
            _caught(partial(named_presets, algorithm, preset_folders, skipped, read), problems) or ()
        )
    return found


def _fitting(titles: Sequence[str], listed: Listed) -> list[str]:
    """Return the presets that are named like an environment, first the one with nothing but its name."""
    if not listed.id:
        return list(titles)
    wanted = preset_of(listed.id)
    return sorted((each for each in titles if each == wanted or each.endswith(f"-{wanted}")), key=len)


def _package(kind: str, name: str) -> str:
    return discovery.claims(kind, name)[0].entry_point.module.partition(".")[0]


def _look(listed: Listed) -> None:
    """Build the environment and fill in its spaces, or the problem."""
    problems: list[str] = []
    if (found := _caught(lambda: _spaces(listed), problems)) is not None:
        listed.observation_space, listed.action_space = found
    listed.problem = "; ".join(problems)


def _spaces(listed: Listed) -> tuple[str, str]:
    from maze_core.cli.options import env_layer

    env, _ = env_config(env_layer(listed.env_source, listed.id or None), [], [])
    builder = EnvBuilder(env, purpose="check")
    if builder.several_agents:
        with releasing(builder.agents_env(0)) as game:
            first = game.agents[0]
            sees, does = brief(game.observation_spaces[first]), brief(game.action_spaces[first])
            return f"{len(game.agents)} agents; {first}: {sees}", f"{first}: {does}"
    with releasing(builder(0)) as one:
        return brief(one.observation_space), brief(one.action_space)


def brief(space: gymnasium.Space[Any]) -> str:
    """Return a space as text, without bounds that differ from element to element."""
    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(f'{key}: {brief(part)}' for key, part in space.spaces.items())})"
    if isinstance(space, spaces.Tuple):
        return f"Tuple({', '.join(map(brief, space.spaces))})"
    if isinstance(space, spaces.Text) or not type(space).__module__.startswith("gymnasium."):
        return type(space).__name__
    if isinstance(space, spaces.Box) and min(np.unique(space.low).size, 2) + min(np.unique(space.high).size, 2) > 2:
        return f"Box({space.shape}, {space.dtype})"
    return " ".join(str(space).split())


def _caught(ask: Callable[[], Any], problems: list[str]) -> Any:
    """Return an answer; None, and why among the problems, where the code of a package or an environment fails."""
    try:
        return _silent(ask)
    except KeyboardInterrupt:
        raise
    except MazeError as error:
        problems.append(str(error))
    except BaseException as error:  # noqa: BLE001 — also SystemExit: one package must not end the list
        problems.append(discovery.describe(error))
    return None


def _silent(ask: Callable[[], Any]) -> Any:
    """Return an answer; what is printed meanwhile goes to the error output, and warnings go nowhere."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        return ask()


def reading_once() -> Read:
    """Return what reads each file once, however many algorithms are asked for their presets."""
    known: dict[Path, Raw | ConfigError] = {}

    def read(file: Path) -> Raw:
        if file not in known:
            try:
                known[file] = read_yaml(file)
            except ConfigError as error:
                known[file] = error
        found = known[file]
        if isinstance(found, ConfigError):
            raise found
        return found

    return read
