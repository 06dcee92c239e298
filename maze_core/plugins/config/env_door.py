"""Finds the env source that has an environment, where the user names the environment alone."""

from __future__ import annotations

import difflib
from typing import Any

from maze_core.base.errors import ConfigError, PluginError
from maze_core.plugins import discovery

DEFAULT = "gymnasium"


class EnvSources:
    """The installed env sources, with the classes that `load` finds."""

    def __init__(self, load: discovery.Loader = discovery.load) -> None:
        self._load = load

    def source_of(self, env_id: Any) -> str:
        """Return the name of the source that has an id; `gymnasium`, which says what is wrong, where none has it.

        A source says so by a static method `knows(env_id)`, which may import the module before the id's colon.
        """
        if not isinstance(env_id, str):
            return DEFAULT
        for name in discovery.names("env"):
            knows = None if name in (DEFAULT, "factory") else self._member(name, "knows")  # a factory has no ids
            if knows is not None and knows(env_id):
                return name
        return DEFAULT

    def source_for(self, factory: Any) -> tuple[str, Any] | None:
        """Return name and class of the source whose environments a class or function makes; None: nobody claims them.

        A source says so by a static method `takes(factory)`, without calling it, and then has `of(factory)`, the
        stand-in for its class.
        """
        for name in discovery.names("env"):
            takes = self._member(name, "takes")
            if takes is not None and takes(factory):
                return name, self._load("env", name)
        return None

    def similar_ids(self, name: str) -> list[str]:
        """Return the ids like a name that sources list and that need no other word to be found."""
        found: list[str] = []
        for source in discovery.names("env"):
            list_all, knows = (self._member(source, each) for each in ("environments", "knows"))
            if list_all is not None and knows is not None:
                listed = list_all()
                found += [each for each in difflib.get_close_matches(name, listed, n=len(listed) or 1) if knows(each)]
        return found

    def _member(self, name: str, member: str) -> Any:
        try:
            return getattr(self._load("env", name), member, None)
        except (ConfigError, PluginError):  # a broken plugin is reported where it is used
            return None
