"""`maze trajectories import` and `export` for Minari data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.cli import output


def import_(
    source: Annotated[str, typer.Argument(metavar="MINARI", help="Id or folder of a data set.", show_default=False)],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The new recording.", show_default=False)],
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Leave a part of the observations out, such as mission; repeatable."),
    ] = None,
    clip: Annotated[bool, typer.Option("--clip", help="Move actions outside their bounds to the bounds.")] = False,
) -> None:
    """Convert a Minari data set into a recording.

    \b
    Examples:
      maze trajectories import mujoco/hopper/expert-v0 demos
      maze trajectories import minigrid/fourrooms-v0 demos --drop mission
    """
    from maze_recordings.progress import progress_bar

    from maze_core.base.terminal_text import argument, counted
    from maze_minari.exchange import import_minari

    with progress_bar(f"reading {source}") as report:
        done = import_minari(source, folder, report, drop=drop or (), clip=clip)
    if done.clipped:
        output.warn(f"{counted(done.clipped, 'action')} lay outside their bounds and were moved to them")
    output.say(
        f"recorded {counted(done.episodes, 'episode')} in {folder}. Next: maze trajectories info {argument(folder)}"
    )


def export(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A recording, or a folder that contains several.", show_default=False)
    ],
    dataset_id: Annotated[str, typer.Option("--id", metavar="ID", help="The new data set's id.", show_default=False)],
) -> None:
    """Write a recording to Minari's local database.

    \b
    Examples:
      maze trajectories export demos --id lander/heuristic-v0
    """
    from maze_recordings.loader import load_trajectories

    from maze_minari.exchange import export_minari

    output.say(f"written to {export_minari(load_trajectories(folder), dataset_id)}")
