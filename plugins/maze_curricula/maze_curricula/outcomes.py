"""What counts as the outcome of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maze_core import RunError

if TYPE_CHECKING:
    from maze_core.envs.vector import Episode


def outcome(episode: Episode, metric: str) -> float:
    """Return the metric of an episode: `return`, `length`, or one that the environment reports, such as `success`.

    Raises:
        RunError: the episode has no such metric.
    """
    if metric in ("return", "length"):
        return float(episode.episode_return if metric == "return" else episode.length)
    if metric not in episode.metrics:
        known = ", ".join(["return", "length", *sorted(episode.metrics)])
        raise RunError(
            f"callbacks.curriculum.teacher.metric: an episode has no {metric!r}, but {known}\n"
            "Next: one of these, such as --set callbacks.curriculum.teacher.metric=return with a threshold; an "
            "environment reports `success` by info['is_success'] in an episode's last step."
        )
    return float(episode.metrics[metric])
