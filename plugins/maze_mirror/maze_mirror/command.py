"""`maze fetch`: copy a run back from shared storage."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.cli import output


def fetch(
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", help="Where the callback mirror copied the run to.", show_default=False),
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="A new folder; default: runs/ and the address's last part."),
    ] = None,
) -> None:
    """Copy a run that was mirrored to shared storage to a new local folder.

    \b
    Examples:
      maze fetch s3://bucket/runs/first
      maze fetch file:///mnt/shared/first runs/first
    """
    from maze_core.base.terminal_text import argument, counted
    from maze_mirror.fetching import fetch_run

    run_dir, index = fetch_run(address, folder)
    found = f"{counted(len(index.files), 'file')}, {index.size / 1e6:.1f} MB, {counted(index.epoch, 'epoch')}"
    output.say(f"fetched {run_dir}: {found}")
    setting = argument(f"callbacks.mirror.to={address.rstrip('/')}")
    output.say(f"Next: maze resume {argument(run_dir)} --set {setting}")
    output.say(f"      or, without further copies: maze resume {argument(run_dir)} --set callbacks.mirror=null")
