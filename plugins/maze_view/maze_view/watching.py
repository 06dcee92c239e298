"""Opens a run's policy, plays episodes, and returns them as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from maze_recordings.rollouts import TrainedPolicy, task_of_run

from maze_core.run.saved.saved_run import open_policy
from maze_view.episodes import episode_data
from maze_view.insight import insight
from maze_view.play import played


def watch(
    run_dir: Path,
    episodes: int,
    frames: int,
    *,
    seed: int,
    checkpoint: str | None = None,
    deterministic: bool | None = None,
    overrides: Sequence[str] = (),
    look_ahead: bool = True,
) -> tuple[list[dict[str, Any]], str]:
    """Return the episodes that `maze rollout RUN --seed SEED` plays, and why they have no rendered pictures.

    Args:
        run_dir: the run.
        episodes: number of episodes.
        frames: most pictures of all episodes.
        seed: determines the episodes.
        checkpoint: best, last or previous; None: the best, or the last if there is none.
        deterministic: most likely actions instead of samples; None: as configured for evaluation.
        overrides: changes of the configuration, as `path=value`.
        look_ahead: with the run's planner, if it has one.

    Raises:
        MazeError: the run cannot be opened, or its environment fails.
    """
    here = ["runner={name: dev}", "algorithm.device=cpu"]  # whatever it was trained with
    with closing(open_policy(run_dir, checkpoint, [*overrides, *here])) as run:
        task = task_of_run(run, seed, deterministic, look_ahead=look_ahead)
        spaces = (run.observation_space, run.action_space)
        each = frames // episodes
        found, problem = [], ""
        player = task.player
        policy = player.policy if isinstance(player, TrainedPolicy) else run.policy
        for number, episode in enumerate(played(task, episodes, each)):
            problem = episode.problem
            found.append(
                episode_data(
                    number,
                    episode.trajectory,
                    *spaces,
                    insight=insight(policy, episode.trajectory),
                    frames=None if episode.film is None else episode.film.frames,
                    most_frames=each,
                    events=episode.events,
                )
            )
    return found, problem
