"""The episodes of a Minari data set as those of a recording: each is checked before it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import Space, spaces
from maze_recordings.recording_files import Description, EpisodeRecord, TrajectoryError
from maze_recordings.writer import UnfitEpisodeError, encode_episode

from maze_core import Trajectory
from maze_core.base.terminal_text import plain, printable
from maze_core.envs.spaces import Role, leaves, start_of

if TYPE_CHECKING:
    from maze_core import Tree
    from maze_minari.parts import Part

_ENDS = "Next: write the data set with an episode for each end; where the next one begins is not recorded here"
_CLIP = "Next: --clip moves such actions to the bounds, as many environments do; or correct the action space"


class Episodes:
    """Reads the episodes of a data set.

    Args:
        data: the data set.
        seen: the part of its observations that is wanted.
        source: the data set, for messages.
        clip: move actions outside their bounds to the bounds.
    """

    def __init__(self, data: Any, seen: Part, source: str, clip: bool) -> None:
        self._data, self._seen, self._source, self._clip = data, seen, source, clip
        self.clipped = 0
        """Actions that were moved."""

    def encoded(self, index: int, description: Description) -> tuple[dict[str, np.ndarray], EpisodeRecord]:
        """Return an episode as `encode_episode` does.

        Raises:
            TrajectoryError: it cannot be read, or not be used as it is; names the episode and the step.
        """
        try:
            return encode_episode(description, self._read(index))
        except UnfitEpisodeError as error:
            hint = error.hint if error.hint in ("", _ENDS) else _CLIP
            raise TrajectoryError(
                f"{self._source} cannot be imported: episode {index}: {error}" + (f"\n{hint}" if hint else "")
            ) from None
        except Exception as error:  # Minari and its storage raise whatever they meet
            reason = printable(plain(error).strip() or type(error).__name__, 200)
            raise TrajectoryError(f"{self._source} is damaged: episode {index} cannot be read: {reason}") from error

    def _read(self, index: int) -> Trajectory:
        (episode,) = self._data.iterate_episodes([index])
        (facts,) = self._data.storage.get_episode_metadata([index])
        rewards = np.asarray(episode.rewards)
        if rewards.ndim != 1 or rewards.dtype.kind not in "biuf":
            raise UnfitEpisodeError(f"its rewards are {rewards.dtype} of shape {rewards.shape}, not a number each")
        steps, stated = len(rewards), facts.get("total_steps", len(rewards))
        if not steps:
            raise UnfitEpisodeError("it has no steps")
        if int(stated) != steps:
            raise UnfitEpisodeError(f"it has {steps:,} steps, and its metadata says {int(stated):,}")
        terminated, truncated = (
            _flags(name, getattr(episode, name), steps) for name in ("terminations", "truncations")
        )
        if (early := np.flatnonzero((terminated | truncated)[:-1])).size:
            step = int(early[0])
            flag = "terminates" if terminated[step] else "truncates"
            raise UnfitEpisodeError(f"step {step} {flag} it, and it goes on to step {steps - 1}", _ENDS)
        seed = facts.get("seed")
        with np.errstate(over="ignore"):  # what becomes infinite is refused
            kept = rewards.astype(np.float32)
        return Trajectory(
            tree_of(self._seen.space, "observation", self._seen.pick(episode.observations)),
            self._actions(tree_of(self._data.action_space, "action", episode.actions)),
            kept,
            bool(terminated[-1]),
            bool(truncated[-1] and not terminated[-1]),
            float(np.sum(rewards, dtype=np.float64)),
            None if seed is None else int(seed),
        )

    def _actions(self, tree: Tree) -> Tree:
        """Return actions with those outside their bounds moved, where that is wanted."""
        boxes = {leaf.key: leaf.space for leaf in leaves(self._data.action_space, "action")}
        if not self._clip:
            return tree
        moved: Any = False
        for key, space in boxes.items():
            if isinstance(space, spaces.Box):
                given, tree[key] = tree[key], np.clip(tree[key], space.low, space.high)
                differs = given.astype(np.float32) != tree[key].astype(np.float32)
                moved |= differs.reshape(len(given), -1).any(1) & ~np.isnan(given).reshape(len(given), -1).any(1)
        self.clipped += int(np.sum(moved))
        return tree


def tree_of(space: Space[Any], role: Role, values: Any) -> Tree:
    """Return rows in the user's structure as a tree."""
    tree = {}
    for leaf in leaves(space, role):
        value = values
        for part in leaf.path:
            value = value[part]
        start, rows = start_of(leaf.space), np.asarray(value)
        tree[leaf.key] = rows if start is None else rows - start  # the writer sees to the dtype
    return tree


def _flags(name: str, values: Any, steps: int) -> np.ndarray:
    """Return the flags of an episode's steps as booleans."""
    flags = np.asarray(values)
    if flags.shape != (steps,):
        raise UnfitEpisodeError(f"it has {steps} rewards, and {name} of shape {flags.shape}")
    if not ((flags == 0) | (flags == 1)).all():
        raise UnfitEpisodeError(f"{name} holds {flags[(flags != 0) & (flags != 1)][0]}, which is no flag")
    return flags.astype(np.bool_)
