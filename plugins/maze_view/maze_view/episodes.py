"""Episodes as plain data for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from maze_core import flatten_space
from maze_core.envs.masks import mask_leaves
from maze_view.pictures import Film, as_picture
from maze_view.plain import column, rounded, rows

if TYPE_CHECKING:
    from gymnasium import Space

    from maze_core import Trajectory
    from maze_view.insight import Insight
    from maze_view.play import Heard

STEPS = 2000
"""Most steps of an episode in the page."""
EVENTS = 5000
"""Most events of an episode in the page."""
_ENTRIES = 64
"""Most numbers of a leaf at a step; larger leaves are left out."""


def episode_data(
    number: int,
    episode: Trajectory,
    observation_space: Space[Any],
    action_space: Space[Any],
    *,
    insight: Insight | None = None,
    frames: list[tuple[int, str]] | None = None,
    most_frames: int = 0,
    events: Sequence[Heard] = (),
) -> dict[str, Any]:
    """Return an episode as the page shows it.

    Args:
        number: the episode's number.
        episode: what happened.
        observation_space: of the environment.
        action_space: of the environment.
        insight: what the policy thought; None if no policy is at hand.
        frames: rendered pictures by step; None: pictures among the observations, if there are any.
        most_frames: most pictures of observations.
        events: what the environment and its wrappers reported.
    """
    steps = min(len(episode), STEPS)
    series = {} if insight is None else {"value": insight.value, "entropy": insight.entropy}
    wrapped = episode.wrapped_rewards
    if wrapped is not None and not np.array_equal(wrapped, episode.rewards):
        series["wrapped reward"] = wrapped
    return {
        "title": f"episode {number}",
        "return": rounded(episode.episode_return),
        "length": len(episode),
        "ended": "terminated" if episode.terminated else "truncated" if episode.truncated else "interrupted",
        "seed": None if episode.seed is None else str(episode.seed),  # more digits than JavaScript's numbers have
        "parameters": ", ".join(f"{name} {value}" for name, value in (episode.parameters or {}).items()),
        "rewards": column(episode.rewards[:steps].tolist()),
        "series": {name: column(values[:steps].tolist()) for name, values in series.items() if values is not None},
        "actions": _actions(episode, observation_space, action_space, insight, steps),
        "observations": _observations(episode, steps),
        "events": _events(events, steps),
        "frames": _observed(episode, most_frames, steps) if frames is None else [f for f in frames if f[0] <= steps],
    }


def _events(events: Sequence[Heard], steps: int) -> list[list[Any]]:
    """Return step, text and value of the first events."""
    found = []
    for step, name, value, actor in events[:EVENTS]:
        if step < steps:
            found.append([step, name if actor is None else f"{name} ({actor})", rounded(value)])
    return found


def _actions(
    episode: Trajectory,
    observation_space: Space[Any],
    action_space: Space[Any],
    insight: Insight | None,
    steps: int,
) -> list[dict[str, Any]]:
    masks = mask_leaves(observation_space, action_space)
    found = []
    for key, space in flatten_space(action_space, "action").items():
        taken = episode.actions[key][:steps]
        sizes = _sizes(space)
        if max(taken[:1].size, sum(sizes or [])) > _ENTRIES:
            continue
        leaf: dict[str, Any] = {"name": key, "taken": rows(taken), "sizes": sizes}
        leaf["bits"] = isinstance(space, spaces.MultiBinary)
        if key in masks:
            parts = [episode.obs[mask][:steps] for mask in masks[key]]
            leaf["mask"] = rows(np.concatenate([part.reshape(len(part), -1) for part in parts], 1))
        if insight is not None and key in insight.bars:
            leaf |= {"bars": rows(insight.bars[key][:steps]), "unit": insight.unit}
        if insight is not None and key in insight.likely:
            leaf["likely"] = rows(insight.likely[key][:steps])
        found.append(leaf)
    return found


def _sizes(space: Space[Any]) -> list[int] | None:
    """Return the number of choices of each member, 1 for a bit; None for numbers."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(size) for size in space.nvec.reshape(-1)]
    return [1] * int(np.prod(space.n)) if isinstance(space, spaces.MultiBinary) else None


def _observations(episode: Trajectory, steps: int) -> list[dict[str, Any]]:
    return [
        {"name": key, "values": rows(leaf[: steps + 1])}
        for key, leaf in episode.obs.items()
        if leaf[:1].size <= _ENTRIES
    ]


def _observed(episode: Trajectory, most: int, steps: int) -> list[tuple[int, str]]:
    """Return pictures of the first leaf that is an image, by step."""
    images = [leaf for leaf in episode.obs.values() if as_picture(leaf[0]) is not None]
    if not images or most < 1:
        return []
    film = Film(most)
    for step, array in enumerate(images[0][: steps + 1]):
        last = step == steps
        picture = as_picture(array) if last or film.wants(step) else None
        if picture is not None:
            film.add(step, picture, last=last)
    return film.frames
