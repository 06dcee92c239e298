"""`maze publish RUN --to ADDRESS`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.cli import output
from maze_core.cli.group import lasting_imports


def publish(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.", show_default=False)],
    to: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="A new folder or .zip archive, or an object store.", show_default=False),
    ],
    episodes: Annotated[
        int, typer.Option("--episodes", "-n", min=0, help="Episodes that measure it; 0: it is not measured.")
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of these episodes.")] = 0,
    stochastic: Annotated[
        bool | None,
        typer.Option("--stochastic/--deterministic", help="Sample actions; default: as configured."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="best, last or previous; default: best, or last if there is no best."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its name on the card; default: the address's last part.")
    ] = None,
    note: Annotated[str, typer.Option(metavar="TEXT", help="A sentence for the card.")] = "",
    command: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The command that trained it; default: that with its configuration."),
    ] = None,
    film: Annotated[bool, typer.Option("--film", help="Add a film of the first episode.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a value for the evaluation; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Publish a run's policy: weights, configuration, and a card with its measured score.

    Nothing in it is pickled. The printed address ends in a checksum: whoever uses it gets these files or an error.

    \b
    Examples:
      maze publish runs/first --to published/first
      maze publish runs/first --to /mnt/shared/first.zip --episodes 200 --film
      maze publish runs/first --to s3://bucket/policies/first
    """
    from maze_core.base.errors import ConfigError

    with lasting_imports():
        from maze_publish.publishing import Options, next_commands, publish_policy

    allow_local_modules()
    for option, text, most in (("--name", name, 300), ("--note", note, 2000), ("--command", command, 2000)):
        if text is not None and len(text) > most:
            raise ConfigError(f"has {len(text):,} characters; the most are {most:,}", option)
    options = Options(checkpoint, episodes, seed, stochastic, name, note, command, film, tuple(set_ or ()))
    done = publish_policy(run, to, options)
    for value in done.private:
        output.warn(f"note: published, though it looks like a path or an address: {value}")
    if as_json:
        output.print_json({"address": done.address, "bytes": done.bytes, "card": done.card.model_dump(mode="json")})
        return
    score = "" if done.card.score is None else f", return {done.card.score.text}"
    output.say(f"published {done.card.algorithm} on {done.card.environment}{score}, {done.bytes:,} bytes:")
    output.say(done.address)
    output.say(f"Next: {next_commands(done.address)[0]}")
