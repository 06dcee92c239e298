"""Recorded episodes to begin with. Another distribution, maze-recordings, loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from maze_core import ConfigError
from maze_core.plugins.config.params import setting
from maze_core.plugins.extensions import RECORDINGS, extension

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from maze_core import Trajectory, VectorEnv
    from maze_core.plugins.hookspecs import Run


class Demonstrations(Protocol):
    """Recorded episodes, with rewards in the units of a run."""

    @property
    def steps(self) -> int:
        """Number of actions in all episodes."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Trajectory]: ...


def load_demonstrations(run: Run, env: VectorEnv, path: Path, capacity: int) -> Demonstrations:
    """Return the recorded episodes at a path, with rewards in the units of a run.

    Args:
        run: will learn from them.
        env: its training environments.
        path: a recording, or a folder of recordings.
        capacity: rows of the buffer that receives them.

    Raises:
        ConfigError: no installed distribution loads recordings, their rewards do not fit, or the buffer is too small.
        MazeError: there is no recording, or one is damaged or has other spaces.
    """
    where = setting(run.config.algorithm, "initial_demonstrations")
    load = extension(RECORDINGS, "demonstrations", "loading recorded episodes", "maze-recordings", where)
    recorded: Demonstrations = load(run, env, path, where)
    rows = recorded.steps + len(recorded)  # the last observation of an episode is a row, too
    if rows > capacity - 2 * env.num_envs:
        raise ConfigError(
            f"the {len(recorded):,} recorded episodes need {rows:,} rows, but the replay buffer has {capacity:,}",
            where,
            f"Set {setting(run.config.algorithm, 'replay_buffer_size')} to at least {rows + 2 * env.num_envs:,}.",
        )
    return recorded
