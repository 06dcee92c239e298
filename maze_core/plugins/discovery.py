"""Finds plugins by entry point: lists names without importing, and imports one class when it is needed."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from itertools import chain
from pathlib import Path
from types import FunctionType
from typing import Any

from maze_core.base.bundled import published, publisher
from maze_core.base.errors import PluginError
from maze_core.base.local_modules import is_current_folder
from maze_core.base.terminal_text import plain
from maze_core.plugins.distribution_facts import applies, damaged, entry_points_text, facts_of, normal, requirements_on
from maze_core.plugins.kinds import wrong_attribute

KINDS: Mapping[str, str] = {
    "algorithm": "maze.algorithms",
    "env": "maze.envs",
    "wrapper": "maze.wrappers",
    "model": "maze.models",
    "distribution": "maze.distributions",
    "memory": "maze.memories",
    "runner": "maze.runners",
    "callback": "maze.callbacks",
    "policy": "maze.policies",
    "searcher": "maze.searchers",
    "teacher": "maze.teachers",
    "command": "maze.commands",
}
"""The kinds of plugins and the entry-point group of each."""

HINTS = "maze.hints"
"""The entry-point group of names that are not plugins, such as algorithms that a library removed. Each refers to a text
that says what to use instead, or to a function that returns one for each name whose first word is its own."""

_BASES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "algorithm": ("maze_core.learn.algorithm", "Algorithm", ("check_action_space", "batches", "modules")),
    "memory": ("maze_core.models.memory", "Memory", ("initial_state", "step", "after", "unroll")),
    "runner": ("maze_core.collect.pools.runner", "Runner", ("vector_env", "workers")),
    "policy": ("maze_core.collect.policies.base", "ActingPolicy", ("setup", "act")),
    "distribution": ("maze_core.models.distributions.family", "Family", ("gives", "spaces", "head")),
}
"""The base class of each kind that has one, and methods by which a plugin is recognised without importing it."""

CORE = "maze-core"
DISABLE = "MAZE_DISABLE_PLUGINS"

Loader = Callable[[str, str], type[Any]]
"""Returns the plugin class of a kind and a name; `load` is the default."""
Installation = tuple[tuple[str, int], ...]
"""The folders in which distributions are searched, each with the time of its last change."""


@dataclass(frozen=True)
class Declaration:
    """One distribution's claim of one name; nothing has been imported for it."""

    kind: str
    """One of `KINDS`; for entries that are not plugins the entry-point group, such as `maze.hints`."""
    name: str
    entry_point: metadata.EntryPoint
    distribution: str
    version: str

    @property
    def origin(self) -> str:
        """Distribution and version, as `maze-ppo 0.1.0`."""
        return f"{self.distribution} {self.version}".strip()

    @property
    def claimed(self) -> str:
        """Kind and name, as `wrapper plugin 'clip'`."""
        return f"{self.kind} {'plugin' if self.kind in KINDS else 'entry'} {self.name!r}"

    @property
    def title(self) -> str:
        """The plugin's name in error messages."""
        return f"{self.claimed} of {self.origin}"


def names(kind: str) -> list[str]:
    """Return the installed names of one kind, sorted; imports no plugin."""
    return sorted({found.name for found in declarations() if found.kind == kind})


def load(kind: str, name: str) -> type[Any]:
    """Import the plugin class of one kind and name, and nothing else.

    Raises ConfigError for a name that no distribution provides, and PluginError for a plugin that cannot be used: two
    distributions claim the name, its own excludes this core, its import fails, or it is not a plugin class.
    """
    found = claims(kind, name)
    if not found:
        from maze_core.plugins.how_to_install import unknown_plugin

        raise unknown_plugin(kind, name)
    if len(found) > 1:
        raise PluginError(clash(found))
    (claim,) = found
    if reason := incompatibility(claim.distribution):
        raise PluginError(f"{claim.title}: wrong version: {reason}")
    plugin = import_claim(claim)
    if reason := misfit(kind, plugin):
        raise PluginError(f"{claim.title}: not a plugin: {reason}")
    loaded: type[Any] = plugin
    return loaded


def claims(kind: str, name: str) -> list[Declaration]:
    """Return the effective claims of a name: only Maze's own for the name of a Maze command."""
    found = [each for each in declarations() if each.name == name and each.kind == kind]
    own = [each for each in found if each.distribution in (CORE, publisher(kind, name))]
    return own if kind == "command" and own else found


def hidden(kind: str, name: str) -> list[Declaration]:
    """Return the claims of a name that are ignored because Maze has a command of that name."""
    counted = claims(kind, name)
    return [each for each in declarations() if (each.kind, each.name) == (kind, name) and each not in counted]


def origin(kind: str, name: str) -> str:
    """Return the distribution and version that provide a name, or an empty string; imports nothing."""
    return next((found.origin for found in declarations() if (found.kind, found.name) == (kind, name)), "")


def missing(kind: str, name: str) -> str:
    """Return what to install for a plugin published with the core; empty if there is none or it is installed."""
    brings = publisher(kind, name.lower())
    if brings is None or any(found.distribution == brings for found in declared()):
        return ""
    from maze_core.plugins.how_to_install import how_to_install

    return f"It comes with {brings}, which is not installed. Next: {how_to_install(brings)}"


def missing_below(kind: str, beginning: str) -> list[str]:
    """Return names with this prefix that are published with the core but not installed, or turned off."""
    here = names(kind)
    return [name for name in published(kind) if name.startswith(beginning) and name not in here]


def overlay(classes: Mapping[tuple[str, str], type[Any]], base: Loader = load) -> Loader:
    """Return a loader that looks in `classes` by (kind, name) first, for plugins that are not installed."""
    return lambda kind, name: classes[kind, name] if (kind, name) in classes else base(kind, name)


def declarations() -> list[Declaration]:
    """Return every claim of a plugin name by installed distributions, except those that the user turned off."""
    return [found for found in _turned_on() if found.kind in KINDS]


def entries(group: str, name: str) -> list[Declaration]:
    """Return the claims of a name in a group `maze.…` that holds no plugins but links between distributions."""
    return [found for found in _turned_on() if (found.kind, found.name) == (group, name)]


def group(name: str) -> list[Declaration]:
    """Return all claims in a group `maze.…` that holds no plugins, sorted by name and distribution."""
    found = [each for each in _turned_on() if each.kind == name]
    return sorted(found, key=lambda each: (each.name, each.distribution))


def _turned_on() -> Sequence[Declaration]:
    if not (off := _disabled()):
        return declared()
    return [found for found in declared() if found.distribution == CORE or not off & {found.name, found.distribution}]


def clash(claims: list[Declaration]) -> str:
    """Return the message for a name that several distributions claim."""
    owners = sorted({claim.origin for claim in claims})
    what = f"{claims[0].claimed} is claimed"
    if len(owners) == 1:
        return f"{what} twice by {owners[0]}: its author must give one of them another name"
    return f"{what} by {' and '.join(owners)}: uninstall one, or set {DISABLE}"


def incompatibility(distribution: str) -> str:
    """Return why a distribution is incompatible with the running core; empty if it is compatible."""
    return _incompatibility(distribution, _installation())


@lru_cache(maxsize=512)
def _incompatibility(distribution: str, installation: Installation) -> str:
    """The same for what is installed at the moment: a run loads forty plugins."""
    from packaging.requirements import InvalidRequirement, Requirement

    core = core_version()
    for line in requirements_on(distribution, CORE):
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if not core or not applies(requirement):
            continue
        if not requirement.specifier.contains(core, prereleases=True):
            return f"it needs {CORE}{requirement.specifier}, but this is {CORE} {core}"
    return ""


def misfit(kind: str, plugin: object) -> str:
    """Return why an imported object is not a plugin of its kind; empty if it is one."""
    if kind == "command":
        return _no_command(plugin)
    from maze_core.plugins.config.base import PluginConfig
    from maze_core.plugins.config.run import AlgorithmConfig
    from maze_core.plugins.kinds import WITHOUT_HOOKS, implemented, misplaced

    wanted = AlgorithmConfig if kind == "algorithm" else PluginConfig
    config = getattr(plugin, "Config", None)
    if not isinstance(plugin, type):
        return f"the entry point refers to {type(plugin).__name__} {plugin!r:.60}, not a class"
    if not (isinstance(config, type) and issubclass(config, wanted)):
        return f"class {plugin.__name__} has no `Config` that derives from {wanted.__name__}"
    if not config.__pydantic_complete__ and not config.model_rebuild(raise_errors=False):
        return f"class {plugin.__name__}: a type in its `Config` names something that its module does not have"
    module, base, methods = _BASES.get(kind, ("", "", ()))
    missing = [name for name in methods if not hasattr(plugin, name)]
    if missing:
        return f"class {plugin.__name__} has no {', '.join(missing)}: it must derive from {module}.{base}"
    if reason := wrong_attribute(kind, plugin):
        return f"class {plugin.__name__}: {reason}"
    if kind in WITHOUT_HOOKS and (hooks := implemented(plugin)):
        return f"class {plugin.__name__}: {misplaced(kind, hooks[0], wrapper=False)}"
    return ""


def _no_command(plugin: object) -> str:
    from typer import Typer

    if isinstance(plugin, Typer | FunctionType):
        return ""
    return f"the entry point refers to {type(plugin).__name__} {plugin!r:.60}, not a Typer app or a function"


def import_claim(claim: Declaration) -> Any:
    """Import and return the object of a claim. Raises PluginError, caused by the reason, if the import fails."""
    if claim.entry_point.pattern.match(claim.entry_point.value) is None:
        raise PluginError(f"{claim.title}: its entry point is {claim.entry_point.value!r:.60}, not module:name")
    try:
        if claim.kind == "command" or claim.kind not in KINDS:
            # Importing stevedore takes 40 ms, which a command's help does not need.
            return claim.entry_point.load()
        from maze_core.plugins.driver import Driver

        return Driver(claim).extensions[0].plugin
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin may raise anything at import, SystemExit too
        why = damaged() if isinstance(error, UnicodeDecodeError) else ""
        if isinstance(error, ModuleNotFoundError):
            from maze_core.plugins.how_to_install import installs_missing

            why = installs_missing(error)
        raise PluginError(f"{claim.title} cannot be imported: {describe(error)}{place_in(error)}{why}") from error


def describe(error: BaseException) -> str:
    """Return an exception as one line."""
    try:
        text = " ".join(plain(error).split())
    except Exception:  # noqa: BLE001 — a class of the user's own may fail at this
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def place_in(error: BaseException) -> str:
    """Return where an exception was raised, as the end of a sentence; empty if already stated or unknown.

    Where Maze raised it on someone else's behalf, that is their line.
    """
    from maze_core.base.blame import caller

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    if isinstance(error, SyntaxError | ImportError) or not frames:
        return ""
    return f" ({caller(error) or f'{Path(frames[-1].filename).name}, line {frames[-1].lineno}'})"


def declared() -> tuple[Declaration, ...]:
    """Return the claims of all distributions, read again after an installation or removal."""
    return _scan(_installation())


def _installation() -> Installation:
    """Return what changes when a distribution is installed or removed."""
    here, found = _asked("."), [(entry, _asked(entry)) for entry in sys.path]
    return tuple((entry, state[0]) for entry, state in found if not state[0] or state[1:] != here[1:])


def _asked(folder: str) -> tuple[int, int, int]:
    """Return when a folder was changed last, and which one it is; zeros where it is not there."""
    try:
        found = os.stat(folder)  # noqa: PTH116 — asked of two dozen folders whenever a plugin is loaded
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_dev, found.st_ino


@lru_cache(maxsize=1)
def _scan(installation: Installation) -> tuple[Declaration, ...]:
    """Return the claims of what is installed; remembered, since one command asks dozens of times.

    Not of the current folder, which may hold an unpacked archive."""
    found: dict[str, Sequence[Declaration]] = {}
    for folder in [each for each in sys.path if not is_current_folder(each)]:
        for title, claims in _distributions(folder, _asked(folder)[0]):
            found.setdefault(title, claims)  # an earlier entry of sys.path hides a later one
    return tuple(chain.from_iterable(found.values()))


@lru_cache(maxsize=512)
def _distributions(folder: str, changed: int) -> Sequence[tuple[str, Sequence[Declaration]]]:
    """Return the distributions of a folder with their claims; remembered, since installing one changes one folder."""
    found = []
    for distribution in metadata.distributions(path=[folder]):
        if "[maze." in (entry_points_text(distribution) or ""):
            title, version = _identity(distribution)
            found.append((title, tuple(_claimed(distribution, title, version))))
    return found


def _claimed(distribution: metadata.Distribution, title: str, version: str) -> Iterator[Declaration]:
    kinds = {group: kind for kind, group in KINDS.items()}
    for entry_point in _entry_points(distribution):
        if entry_point.group.startswith("maze."):
            kind = kinds.get(entry_point.group, entry_point.group)
            yield Declaration(kind, entry_point.name, entry_point, title, version)


def _entry_points(distribution: metadata.Distribution) -> list[metadata.EntryPoint]:
    try:
        return list(distribution.entry_points)
    except (TypeError, ValueError):  # a malformed file of one distribution must not break every command
        return []


def _identity(distribution: metadata.Distribution) -> tuple[str, str]:
    try:
        metadata_of = distribution.metadata  # parsed anew whenever it is asked for
        return normal(metadata_of["Name"]), str(metadata_of["Version"] or "")
    except (TypeError, AttributeError, KeyError, OSError, ValueError):  # no METADATA, one without a name, or no text
        folder = getattr(distribution, "_path", None)
        return normal(getattr(folder, "stem", "unknown").rpartition("-")[0] or "unknown"), ""


def core_version() -> str:
    """Return the version of the running core, or an empty string if it is not installed."""
    try:
        return facts_of(CORE).version
    except metadata.PackageNotFoundError:
        return ""


def _disabled() -> set[str]:
    return {part.strip() for part in os.environ.get(DISABLE, "").split(",")} - {""}
