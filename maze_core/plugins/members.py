"""The plugin objects that take part in a run, and what may be registered of them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pluggy

from maze_core.base.errors import ConfigError, MazeError, PluginError, say_where
from maze_core.plugins import discovery
from maze_core.plugins.hookspecs import HookSpecs, hookimpl
from maze_core.plugins.kinds import NEEDS_HOOKS, WRAPPABLE, misplaced

if TYPE_CHECKING:
    from maze_core.plugins.config.base import PluginConfig

HOOKS = [name for name in vars(HookSpecs) if not name.startswith("_")]


@dataclass(frozen=True)
class Member:
    """A plugin object that takes part in a run."""

    kind: str
    name: str
    plugin: Any
    origin: str = ""
    """Distribution and version, as `maze-ppo 0.1.0`."""
    place: str = ""
    """Path of its configuration, such as `wrappers.0`, for errors about its own keys."""

    @property
    def title(self) -> str:
        """The plugin's name in messages."""
        owner = f" (distribution {self.origin})" if self.origin else ""
        return f"{self.kind} plugin {self.name!r}{owner}"


def member(kind: str, config: PluginConfig, place: str = "") -> Member:
    """Build the plugin named by a part of the configuration."""
    plugin, origin = config.plugin_class(kind), discovery.origin(kind, config.name)
    try:
        return Member(kind, config.name, plugin(config), origin, place)
    except ConfigError as error:
        put_below(error, place, config)
        raise
    except Exception as error:
        from maze_core.base.blame import blame, definition  # when something has failed

        if isinstance(error, MazeError) or blame(error):
            raise
        # Maze's call failed, as with an abstract method or a constructor that takes no configuration.
        where = definition(plugin)
        title = Member(kind, config.name, plugin, origin).title
        raise PluginError(
            f"{title} cannot be built: {discovery.describe(error)}{f'; its class is {where}' if where else ''}"
        ) from error


def wrapper_members(configs: Iterable[PluginConfig]) -> list[Member]:
    """Build the wrappers of a configuration, in order."""
    return [member("wrapper", config, f"wrappers.{i}") for i, config in enumerate(configs)]


def put_below(error: Exception, place: str, config: Any) -> None:
    """Complete the path in a plugin's error about its own configuration."""
    if place and isinstance(error, ConfigError):
        own = getattr(type(config), "model_fields", {})
        if error.where is None or error.where.partition(".")[0] in own:
            error.put_below(place)


_MARK = hookimpl.project_name + "_impl"
"""The attribute that the decorator sets."""


@contextmanager
def placed(each: Member) -> Iterator[None]:
    """Complete the path in a plugin's error about its own configuration, and name the plugin."""
    try:
        yield
    except Exception as error:
        put_below(error, each.place, getattr(each.plugin, "config", None))
        say_where(error, f"in {each.title}")
        raise


class Registry(pluggy.PluginManager):
    """pluggy's manager, filled with the members of a run and then frozen.

    Raises:
        PluginError: a hook implementation does not match the specifications.
    """

    frozen = False

    def __init__(self, members: Iterable[Member]) -> None:
        super().__init__("maze")
        self.add_hookspecs(HookSpecs)
        for each in members:
            self._add(each)
        self.frozen = True

    def register(self, plugin: object, name: str | None = None) -> str | None:
        """Register a plugin object, until the registry is frozen."""
        if self.frozen:
            raise PluginError("the plugins of a run are fixed once it is set up: add this one to its configuration")
        return super().register(plugin, name)

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        """Return how an attribute is marked as a hook; None if it is not, which is most of them: told at one glance."""
        return super().parse_hookimpl_opts(plugin, name) if _is_marked(_attribute(plugin, name)) else None

    def _add(self, each: Member) -> None:
        for name in HOOKS:
            self._check_marker(each, name)
        try:
            self.register(each.plugin)
            self.check_pending()
        except pluggy.PluginValidationError as error:
            raise PluginError(f"{each.title}: {_validation_message(error)}") from error
        except ValueError as error:
            raise PluginError(f"{each.title}: the same object is registered twice") from error
        if each.kind in NEEDS_HOOKS and not any(_is_marked(_attribute(each.plugin, name)) for name in HOOKS):
            raise PluginError(f"{each.title}: it implements no hook, so it would do nothing")

    def _check_marker(self, each: Member, name: str) -> None:
        """Refuse a method that has a hook's name but would never be called, and unsupported styles of hooks."""
        method = _attribute(each.plugin, name)
        options = super().parse_hookimpl_opts(each.plugin, name) if _is_marked(method) else None
        if method is not None and options is None:
            raise PluginError(f"{each.title}: its method {name} lacks the decorator @hookimpl and would not be called")
        if options and (problem := _never_run(method, bool(options["wrapper"]))):
            raise PluginError(f"{each.title}: {name} is {problem}")
        if options and options["hookwrapper"]:
            raise PluginError(f"{each.title}: {name} is an old-style hookwrapper; use @hookimpl(wrapper=True)")
        if options and options["wrapper"] and name not in WRAPPABLE:
            raise PluginError(f"{each.title}: {name} cannot be a wrapper")
        if options and (problem := misplaced(each.kind, name, bool(options["wrapper"]))):
            raise PluginError(f"{each.title}: {problem}")


def _never_run(method: Any, wrapper: bool) -> str:
    """Return why calling a hook would not run its lines; empty if it does."""
    function = getattr(method, "__func__", method)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "asynchronous, and nobody waits for it: leave `async` out"
    if inspect.isgeneratorfunction(function) and not wrapper:
        return "a generator, and nobody takes what it yields: leave `yield` out, or use @hookimpl(wrapper=True)"
    return ""


def _attribute(plugin: object, name: str) -> Any:
    """Return what an object or its class holds under a name; None if nothing. No code of the plugin's runs."""
    own = vars(plugin) if hasattr(plugin, "__dict__") else {}
    if name in own:
        return own[name]
    # A plain loop: asked for every attribute of every plugin whenever hooks are built.
    for each in type(plugin).__mro__:
        if name in each.__dict__:
            return each.__dict__[name]
    return None


def _is_marked(attribute: Any) -> bool:
    """Return True for a function, class method or static method that has the decorator, above or below."""
    return hasattr(attribute, _MARK) or hasattr(getattr(attribute, "__func__", None), _MARK)


def _validation_message(error: pluggy.PluginValidationError) -> str:
    text = " ".join(str(error).split())
    unknown = text.partition("unknown hook '")[2].partition("'")[0]
    if not unknown:
        hook = text.partition("for hook '")[2].partition("'")[0]
        wrong = text.partition("Argument(s) {")[2].partition("}")[0].replace("'", "")
        if not (wrong and hook in HOOKS):
            return text
        given = [name for name in inspect.signature(getattr(HookSpecs, hook)).parameters if name != "self"]
        return f"{hook} takes {wrong}, which is none of what a hook is given by name: {', '.join(given)}"
    near = difflib.get_close_matches(unknown, HOOKS, n=1)
    return f"there is no hook {unknown}; " + (f"did you mean {near[0]}?" if near else f"hooks: {', '.join(HOOKS)}")
