"""`maze view`: runs and recordings as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.cli import output

if TYPE_CHECKING:
    from maze_compare.records import RunRecord

    from maze_view.sources import Source

_MOST_NAMED = 3
"""Most pairs of algorithm and environment in the title."""


def view(
    places: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|RECORDING…", help="Runs, recordings, policies' addresses.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The file; default: a new temporary file.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the file in the browser.")] = True,
    episodes: Annotated[
        int | None,
        typer.Option("--episodes", "-n", min=0, help="Episodes of each place; default: 2, none for several runs."),
    ] = None,
    frames: Annotated[
        int, typer.Option(metavar="N", min=0, help="Most pictures of each place, over all its episodes.")
    ] = 120,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episodes that are played.")] = 0,
    stochastic: Annotated[
        bool | None,
        typer.Option("--stochastic/--deterministic", help="Sample actions; default: as configured for evaluation."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="best, last or previous; default: best, or last if there is no best."),
    ] = None,
    look_ahead: Annotated[
        bool, typer.Option("--look-ahead/--no-look-ahead", help="Act with a run's planner, if it has one.")
    ] = True,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as env.kwargs.size=5; repeatable."),
    ] = None,
) -> None:
    """Show runs and recordings in a browser: curves, configuration, network and episodes, in one HTML file.

    A run's policy plays a few episodes, as in `maze rollout RUN --seed SEED`. The curves of several runs are drawn
    together.

    \b
    Examples:
      maze view runs/first
      maze view runs/CartPole-v1 --out curves.html --no-open
      maze view demos --episodes 5
    """
    allow_local_modules()
    runs, recordings = _sorted(places)
    count = (2 if len(runs) < 2 else 0) if episodes is None else episodes
    options = {
        "seed": seed,
        "checkpoint": checkpoint,
        "deterministic": None if stochastic is None else not stochastic,
        "overrides": set_ or (),
        "look_ahead": look_ahead,
    }
    sources = [_run(each, len(runs), count, frames, options, asked=episodes is not None) for each in runs]
    for folder in recordings:
        from maze_view.sources import recording_source

        sources.append(recording_source(folder, 2 if episodes is None else episodes, frames))
    file = _write(sources, _family(runs), out)
    output.say(f"wrote {file}, {file.stat().st_size:,} bytes")
    if open_:
        import webbrowser

        if not webbrowser.open(file.resolve().as_uri()):
            output.say("there is no browser here: open the file in one")


def _sorted(places: list[Path]) -> tuple[list[RunRecord], list[Path]]:
    """Return the runs and the recordings at some places."""
    from maze_compare.records import find_records
    from maze_recordings.recording_files import DESCRIPTION

    from maze_core import ConfigError
    from maze_core.plugins.config.record import CONFIG
    from maze_core.run.saved.found_run import run_at

    places = [run_at(each) for each in places]
    others = [each for each in places if not (each / CONFIG).is_file()]  # a run may contain recordings
    recordings = [each for each in others if (each / DESCRIPTION).is_file() or any(each.glob(f"*/{DESCRIPTION}"))]
    rest = [each for each in places if each not in recordings]
    runs = find_records(rest, output.warn)
    if not runs and not recordings:
        raise ConfigError("none of these runs can be read", hint="Next: maze runs list")
    return runs, recordings


def _run(record: RunRecord, among: int, episodes: int, frames: int, options: dict[str, Any], *, asked: bool) -> Source:
    """Return a run with its episodes. That none can be played is an error only if some were asked for."""
    from maze_core import MazeError
    from maze_view.sources import run_source

    source = run_source(record, among)
    if not episodes:
        return source
    from maze_view.watching import watch

    try:
        source["episodes"], problem = watch(record.path, episodes, frames, **options)
    except MazeError as error:
        if asked or options["checkpoint"] is not None:
            raise
        problem = f"No episode could be played: {'. '.join(str(error).splitlines())}"
        output.warn(f"{record.path}: {problem}")
    else:
        problem = problem and f"The episodes have no pictures: {problem}."
    if problem:
        source["notes"].append(problem)
    return source


def _family(runs: list[RunRecord]) -> str:
    """Return the picture of runs that are forks of each other as an address; empty if none are."""
    from maze_compare.family_picture import family_svg

    from maze_view.pictures import data_uri

    picture = family_svg(runs) if len(runs) > 1 else None
    return "" if picture is None else data_uri("image/svg+xml", picture.encode())


def _title(sources: list[Source]) -> str:
    """Return what is shown: of a single source its name, of runs also what learns where."""
    of = list(dict.fromkeys(source["of"] for source in sources if source["of"]))
    name = sources[0]["name"] if len(sources) == 1 else f"{len(sources)} runs and recordings"
    return f"{', '.join(of)}: {name}" if 0 < len(of) <= _MOST_NAMED else name


def _write(sources: list[Source], family: str, out: Path | None) -> Path:
    """Write the page and return its file."""
    import tempfile
    from datetime import datetime

    from maze_core import ConfigError
    from maze_core.base import files
    from maze_view.page import page

    title = _title(sources)
    about = f"Written by maze view, {datetime.now().astimezone():%Y-%m-%d %H:%M}."
    text = page({"title": title, "about": about, "family": family, "sources": sources})
    try:
        if out is None:
            out = Path(tempfile.mkdtemp(prefix="maze-view-")) / "view.html"
        out.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(out, text.encode())
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror}", "--out", "Next: --out view.html") from error
    return out
