"""Calls of plugins that have no hooks, such as memories and runners: what goes wrong in one names the plugin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maze_core.base.errors import MazeError, PluginError, say_where
from maze_core.plugins import discovery


def title(kind: str, name: str) -> str:
    """Return a plugin's name in messages."""
    origin = discovery.origin(kind, name)
    return f"{kind} plugin {name!r}" + (f" of {origin}" if origin else "")


def broken(kind: str, name: str, problem: str) -> PluginError:
    """Return the error of a plugin that does something else than its kind promises."""
    return PluginError(f"{title(kind, name)}: {problem}\nNext: maze plugins check {name}")


@contextmanager
def named(kind: str, name: str, what: str = "") -> Iterator[None]:
    """Name a plugin in the errors of its lines.

    Args:
        kind: of the plugin.
        name: of the plugin.
        what: follows the plugin's name in errors that come from no line of its own, such as ` cannot be built`.

    Raises:
        PluginError: Maze's call itself failed, or what Maze did with the result, as with a constructor that takes other
            arguments.
    """
    try:
        yield
    except MazeError:
        raise
    except (Exception, SystemExit) as error:
        from maze_core.base.blame import blame  # when something has failed

        if isinstance(error, Exception) and blame(error):
            say_where(error, f"in {title(kind, name)}")
            raise
        place = discovery.place_in(error) if isinstance(error, SystemExit) else ""
        raise PluginError(f"{title(kind, name)}{what}: {discovery.describe(error)}{place}") from error
