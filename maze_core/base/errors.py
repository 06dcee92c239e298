"""The errors that Maze raises on purpose. Any other exception is a bug, in Maze or in third-party code."""

from __future__ import annotations

from collections.abc import Sequence

from maze_core.base.terminal_text import printable


class MazeError(Exception):
    """An error with a plain message for the user: what happened, where, and what to do next.

    The command line prints it without a traceback and exits with `exit_code`.
    """

    exit_code = 1


class ConfigError(MazeError):
    """The user's input is wrong. `where` is a path like `algorithm.lr`; `hint` says what to do next."""

    exit_code = 2

    def __init__(self, message: str, where: str | None = None, hint: str | None = None) -> None:
        self.message, self.where, self.hint = message, where, hint
        super().__init__(self._text())

    def put_below(self, place: str) -> None:
        """Prefix `where` with the part's place in the configuration: `size` becomes `wrappers.0.size`."""
        self.where = f"{place}.{self.where}" if self.where else place
        self.args = (self._text(),)

    def _text(self) -> str:
        first = f"{printable(self.where, 200)}: {self.message}" if self.where else self.message
        return "\n".join([first, self.hint] if self.hint else [first])


def combined(errors: Sequence[ConfigError]) -> ConfigError:
    """Return all errors as one, each on its own line."""
    if len(errors) == 1:
        return errors[0]
    return ConfigError("\n".join(str(error).replace("\n", "; ") for error in errors))


class PluginError(MazeError):
    """A plugin is missing, broken, claimed twice or incompatible. Names the plugin and its distribution."""

    exit_code = 2


class RunError(MazeError):
    """A started run cannot continue: a non-finite number, a dead worker, a full disk."""


class LostError(RunError):
    """What the run works with outside of this process is gone, such as a cluster; the run itself is sound."""


def say_where(error: Exception, where: str) -> None:
    """Add a note with whose code raised an error. A loss comes from outside, wherever the run was: nobody is named."""
    if not isinstance(error, LostError):
        error.add_note(where)


class CheckpointError(MazeError):
    """A checkpoint is missing or damaged. The message names the last complete one, if any."""

    exit_code = 2
