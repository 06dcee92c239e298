"""`maze trajectories`: inspect recorded trajectories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_core.cli import output

if TYPE_CHECKING:
    from maze_recordings.trajectories import Trajectories

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Inspect recorded trajectories.")


@app.command()
def info(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A recording, or a folder that contains several.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Verify a recording and print its episodes, steps, returns, spaces and where it comes from.

    \b
    Examples:
      maze trajectories info demos
      maze trajectories info demos --json
    """
    from maze_recordings.loader import load_trajectories, recordings
    from maze_recordings.progress import progress_bar

    with progress_bar(f"loading {folder}") as report:
        data = load_trajectories(folder, report=report)
    facts = _facts(data, recordings(folder))
    if as_json:
        output.print_json(facts)
        return
    shown = {**facts, "observation_space": data.observation_space, "action_space": data.action_space}
    source = shown.pop("source")
    rows = [(name.replace("_", " "), _text(value)) for name, value in shown.items()]
    output.print_table(("fact", "value"), rows + [(f"source.{name}", _text(value)) for name, value in source.items()])


def _facts(data: Trajectories, folders: list[Path]) -> dict[str, Any]:
    from maze_core.envs.vector import Episode
    from maze_recordings.rollouts import statistics_of
    from maze_recordings.space_json import space_to_json

    episodes = [Episode(0, number, each.episode_return, each.length) for number, each in enumerate(data.episodes)]
    spaces = {"observation_space": data.observation_space, "action_space": data.action_space}
    return {
        "recordings": [str(folder) for folder in folders],
        **statistics_of(episodes),
        "terminated": sum(each.terminated for each in data.episodes),
        "truncated": sum(each.truncated for each in data.episodes),
        "rewards": data.description.rewards,
        "bytes": sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file()),
        **{name: space_to_json(space) for name, space in spaces.items()},
        "source": data.description.source,
    }


def _text(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items() if inner not in (None, {}, []))
    return ", ".join(map(_text, value)) or "none" if isinstance(value, list) else str(value)


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, int | float | str) else json.dumps(value)
