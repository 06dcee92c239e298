"""The errors Maze raises on purpose. Everything else that escapes is a bug, in Maze or in code of others."""

from __future__ import annotations

from maze_core.wording import printable


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
        """Say where in the whole configuration it is: `size` becomes `wrappers.0.size`."""
        self.where = f"{place}.{self.where}" if self.where else place
        self.args = (self._text(),)

    def _text(self) -> str:
        first = f"{printable(self.where, 200)}: {self.message}" if self.where else self.message
        return "\n".join([first, self.hint] if self.hint else [first])


class PluginError(MazeError):
    """A plugin is missing, broken, clashing or does not fit. Names the plugin and its distribution."""

    exit_code = 2


class RunError(MazeError):
    """A run that had started cannot go on: a non-finite number, a dead worker, a full disk."""


class CheckpointError(MazeError):
    """A checkpoint is missing or damaged. The message names the last whole one where there is one."""

    exit_code = 2
