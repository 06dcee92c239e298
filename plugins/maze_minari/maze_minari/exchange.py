"""Import and export of Minari data sets (https://minari.farama.org)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
from gymnasium import spaces
from maze_recordings.recording_files import Description, TrajectoryError
from maze_recordings.trajectories import Trajectories
from maze_recordings.writer import TrajectoryWriter

from maze_core import ConfigError
from maze_core.base.terminal_text import plain, printable
from maze_core.envs.actors import TURN, ActorId, actors_of
from maze_core.envs.codecs import nest
from maze_core.envs.spaces import Role, leaves, start_of
from maze_minari.episodes import Episodes
from maze_minari.parts import check_supported, kept_part
from maze_minari.storage import check_all_named, check_contained, check_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gymnasium import Space
    from maze_recordings.progress import Report

    from maze_core import Trajectory, Tree


class Imported(NamedTuple):
    """What was imported."""

    episodes: int
    clipped: int
    """Actions that lay outside their bounds and were moved to them."""


def import_minari(
    source: str,
    folder: Path,
    report: Report | None = None,
    *,
    drop: Sequence[str] = (),
    clip: bool = False,
) -> Imported:
    """Convert a Minari data set into a recording in a folder; after an error, there is no such folder.

    Args:
        source: the id of a data set in Minari's local database, or the folder of one.
        folder: the new recording.
        report: called with the number of finished episodes and of all.
        drop: leaves or branches of the observations to leave out, such as `mission`.
        clip: move actions outside their bounds to the bounds.

    Raises:
        ConfigError: the package minari is missing, or a space is not supported.
        TrajectoryError: there is no such data set, it holds no episode, it cannot be read or used as it is, or the
            folder is in use.
    """
    data, name = _opened(source)
    if not len(data):
        raise TrajectoryError(f"{source} has no episode: there is nothing to import")
    seen = kept_part(_with_actors(data, source), drop)
    check_supported(seen.space, data.action_space, source)
    episodes = Episodes(data, seen, source, clip)
    description = Description(seen.space, data.action_space, {"minari": name, "path": str(source)})
    with TrajectoryWriter(folder, seen.space, data.action_space, description.source, whole=True) as writer:
        for done, index in enumerate(map(int, data.episode_indices), 1):
            writer.append(*episodes.encoded(index, description))
            if report is not None:
                report(done, len(data))
    return Imported(len(data), episodes.clipped)


def export_minari(data: Trajectories, dataset_id: str) -> Path:
    """Write recorded episodes to Minari's local database; images are stored without loss.

    Args:
        data: the episodes.
        dataset_id: a new id, such as `lander/heuristic-v0`.

    Returns:
        The folder of the data set.

    Raises:
        ConfigError: the package minari is missing, or the id is malformed or taken.
    """
    minari = _minari()
    env = _recorded_env(data.description.source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns about a missing author, description and the like
            written = minari.create_dataset_from_buffers(
                dataset_id,
                [_buffer(minari, data, episode) for episode in data],
                env=None if env is None else gymnasium.spec(env),
                observation_space=data.observation_space,
                action_space=data.action_space,
                jpeg_encoding=False,
            )
    except ValueError as error:
        raise ConfigError(str(error), "--id") from error
    if (actors := actors_of(data.observation_space)) is not None:
        written.storage.update_metadata({_ACTORS: [[name, kind] for name, kind in actors.actors.items()]})
    return Path(written.spec.data_path)


def _recorded_env(source: Mapping[str, Any]) -> str | None:
    """Return the id of the environment that a recording names; None if it is unknown, wrapped or not named."""
    env = source.get("env")
    name = env.get("id") if isinstance(env, dict) else None
    return name if isinstance(name, str) and name in gymnasium.registry and not source.get("wrappers") else None


_ACTORS = "maze_actors"
"""Key of a data set's metadata: the names of several actors, each with its kind. Minari knows only their numbers."""


def _with_actors(data: Any, source: str) -> Space[Any]:
    """Return the observation space, with the names of the actors if the data set was written by `export_minari`."""
    space, pairs = data.observation_space, data.storage.metadata.get(_ACTORS)
    if pairs is None:
        return space  # type: ignore[no-any-return]
    try:
        actors, turn = ActorId(dict(pairs)), space[TURN]
        if not actors.n == turn["actor"].n == len(pairs):
            raise ValueError("their number is wrong")
        turn = spaces.Dict({**turn.spaces, "actor": actors})
        return spaces.Dict({**space.spaces, TURN: turn})
    except (LookupError, TypeError, ValueError, AttributeError, ConfigError) as error:
        raise TrajectoryError(f"{source} is damaged: {_ACTORS} in its metadata: {error}") from error


def _minari() -> Any:
    try:
        import minari
    except ImportError as error:
        raise ConfigError(
            f"this needs the package minari ({error})", hint='Next: pip install "minari[hdf5]"'
        ) from error
    return minari


def _opened(source: str) -> tuple[Any, str]:
    """Return a data set and its name."""
    minari = _minari()
    folder = next((each for each in (Path(source), Path(source) / "data") if (each / "metadata.json").exists()), None)
    try:
        if folder is not None:
            check_count(folder)
        data = minari.load_dataset(source) if folder is None else minari.MinariDataset(folder)
        check_contained(Path(data.spec.data_path))
        check_all_named(Path(data.spec.data_path), len(data))
        return data, str(data.spec.dataset_id or source)
    except Exception as error:  # Minari raises whatever its storage raises
        reason = printable(plain(error).strip() or type(error).__name__, 300)
        raise TrajectoryError(f"{source} cannot be read as a Minari data set: {reason}") from error


def _buffer(minari: Any, data: Trajectories, episode: Trajectory) -> Any:
    before = [False] * (len(episode) - 1)
    return minari.data_collector.EpisodeBuffer(
        seed=episode.seed,
        observations=_structure(data.observation_space, "observation", episode.obs),
        actions=_structure(data.action_space, "action", episode.actions),
        rewards=episode.rewards.tolist(),
        terminations=[*before, episode.terminated],
        truncations=[*before, episode.truncated],
    )


def _structure(space: Space[Any], role: Role, tree: Tree) -> Any:
    """Return rows of a tree in the user's structure, units and dtypes."""
    values = {}
    for leaf in leaves(space, role):
        start = start_of(leaf.space)
        rows = tree[leaf.key] if start is None else tree[leaf.key] + start
        values[leaf.key] = rows.astype(leaf.space.dtype)
    return nest(space, values, role)
