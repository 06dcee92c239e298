"""Policy, callback and schedule classes of the user's own modules, which the command line names as `module:Class`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maze_core.base.errors import ConfigError
from maze_core.base.local_modules import hidden_here, permit
from maze_core.plugins import discovery
from maze_core.plugins.base import Plugin
from maze_core.plugins.config.assembly import is_class_name
from maze_core.plugins.config.raw import parse_assignment
from maze_core.plugins.config.schedules import Schedule

if TYPE_CHECKING:
    from maze_core.plugins.discovery import Loader

_KINDS = ("policy", "callback", "schedule", "exploration")


@dataclass(frozen=True)
class SaidClasses:
    """Finds plugin classes, also policies, callbacks and schedules that the user has typed as `module:Class`.

    In a file such a name is that of no installed plugin, so nothing is imported for it.
    """

    names: frozenset[str]
    load: Loader

    def __call__(self, kind: str, name: str) -> type[Any]:
        """Return the class of that kind and name.

        Raises:
            ConfigError: there is none, or it is of another kind.
        """
        return _imported(kind, name) if kind in _KINDS and name in self.names else self.load(kind, name)


def said_classes(said: Any, overrides: Sequence[str] = (), load: Loader = discovery.load) -> Loader:
    """Return a loader that also finds the policy, callback and schedule classes that the user has typed.

    Args:
        said: plain data whose texts the user has typed, such as a name or the values of flags.
        overrides: `path=value` texts.
        load: finds all other plugins.
    """
    values = [parse_assignment(text)[1] for text in overrides]
    names = frozenset(_names([said, *values]))
    return SaidClasses(names, load) if names else load


def _names(said: Any) -> Iterator[str]:
    if isinstance(said, Mapping):
        said = list(said.values())
    if isinstance(said, list | tuple):
        for each in said:
            yield from _names(each)
    elif isinstance(said, str) and is_class_name(said):
        yield said
    elif isinstance(said, Schedule):
        yield said.schedule


def _imported(kind: str, name: str) -> type[Any]:
    """Return the class `module:Class` of a kind."""
    from maze_core.envs.sources.imports import import_module  # few runs have classes of the user's own

    module, _, title = name.partition(":")
    permit([name])
    imported, base = import_module(module, kind), _base(kind)
    found = getattr(imported, title, None)
    if found is None:
        hint = hidden_here(module) or _others(kind, imported)
        raise ConfigError(f"the module {module!r} has no {title!r}", kind, hint)
    if not (isinstance(found, type) and issubclass(found, base)):
        place = "maze_core" if kind in discovery.KINDS else base.__module__
        raise ConfigError(
            f"{name} is not a class that derives from {place}.{base.__name__}", kind, _others(kind, imported)
        )
    if kind in discovery.KINDS and (reason := discovery.misfit(kind, found)):
        raise ConfigError(f"{name} is no {kind}: {reason}", kind)
    return found


def _base(kind: str) -> type[Any]:
    from maze_core.collect.agents.agent import Exploration
    from maze_core.collect.policies.base import ActingPolicy

    bases = {"policy": ActingPolicy, "callback": Plugin, "schedule": Schedule, "exploration": Exploration}
    return bases[kind]


def _others(kind: str, module: Any) -> str | None:
    """Return the classes of a kind that a module defines, as a hint; None if there is none."""
    found = [
        name
        for name, each in vars(module).items()
        if isinstance(each, type) and issubclass(each, _base(kind)) and each.__module__ == module.__name__
    ]
    return f"Did you mean {' or '.join(f'{module.__name__}:{name}' for name in found)}?" if found else None
