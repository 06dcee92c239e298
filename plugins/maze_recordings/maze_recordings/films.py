"""Films of the episodes that are played, one file each. Another distribution, such as maze-video, does the filming."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from maze_core.plugins.extensions import VIDEO, extension

if TYPE_CHECKING:
    from maze_core import EnvBuilder, VectorEnv


class FilmRecorder(Protocol):
    """Films episodes of environments that are stepped in turn."""

    def vector_env(self, num_envs: int) -> VectorEnv:
        """Build environments, each with a camera. The caller closes them."""

    def film(self, first: int, count: int) -> None:
        """Film the next episode of the first `count` environments, as episodes `first`, `first + 1`, …."""

    def path(self, number: int) -> Path:
        """Return the file of an episode."""


def open_recorder(builder: EnvBuilder, folder: Path) -> FilmRecorder:
    """Return the studio that films environments into a folder.

    Raises:
        ConfigError: no studio is installed, or it cannot film here.
    """
    studio: FilmRecorder = extension(VIDEO, "studio", "filming", "maze-video", "--video")(builder, folder)
    return studio
