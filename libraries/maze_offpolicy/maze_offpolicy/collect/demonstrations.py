"""Recorded episodes to begin with. Another distribution, maze-recordings, loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from maze_core.plugins.extensions import RECORDINGS, extension

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from maze_core.data.rollout import Trajectory
    from maze_core.envs.vector import VectorEnv
    from maze_core.plugins.hookspecs import Run


class Demonstrations(Protocol):
    """Recorded episodes, with rewards in the units of a run."""

    @property
    def steps(self) -> int:
        """Number of actions in all episodes."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Trajectory]: ...


def load_demonstrations(run: Run, env: VectorEnv, path: Path, where: str) -> Demonstrations:
    """Return the recorded episodes at a path.

    Args:
        run: will learn from them.
        env: its training environments.
        path: a recording, or a folder of recordings.
        where: the setting that names it.

    Raises:
        ConfigError: no installed distribution loads recordings, or their rewards do not fit.
        MazeError: there is no recording, or one is damaged or has other spaces.
    """
    load = extension(RECORDINGS, "demonstrations", "loading recorded episodes", "maze-recordings", where)
    recorded: Demonstrations = load(run, env, path, where)
    return recorded
