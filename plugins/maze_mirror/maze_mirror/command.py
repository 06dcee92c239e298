"""`maze fetch`: copy a run back from shared storage, or a published policy from its address."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.cli import output

_ADDRESSES = "maze.addresses"
"""The entry-point group of `fetch`, which copies a published policy to a folder, and returns whether there is one."""


def fetch(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="Where the callback mirror copied the run to, or of a published policy.",
            show_default=False,
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="A new folder; default: runs/ and the address's last part."),
    ] = None,
    dir_: Annotated[Path | None, typer.Option("--dir", metavar="FOLDER", help="The same as FOLDER.")] = None,
) -> None:
    """Copy a run that was mirrored to shared storage, or a published policy, to a new local folder.

    \b
    Examples:
      maze fetch s3://bucket/runs/first
      maze fetch file:///mnt/shared/first runs/first
      maze fetch zoo:ppo-CartPole-v1 --dir runs/cartpole
    """
    from maze_core.base.errors import ConfigError
    from maze_core.base.terminal_text import argument, counted
    from maze_mirror.fetching import fetch_run

    if folder is not None and dir_ is not None:
        raise ConfigError("the folder is named twice", "--dir", "Next: name it once.")
    folder = folder or dir_
    if _fetched_policy(address, folder):
        return
    run_dir, index = fetch_run(address, folder)
    found = f"{counted(len(index.files), 'file')}, {index.size / 1e6:.1f} MB, {counted(index.epoch, 'epoch')}"
    output.say(f"fetched {run_dir}: {found}")
    setting = argument(f"callbacks.mirror.to={address.rstrip('/')}")
    output.say(f"Next: maze resume {argument(run_dir)} --set {setting}")
    output.say(f"      or, without further copies: maze resume {argument(run_dir)} --set callbacks.mirror=null")


def _fetched_policy(address: str, folder: Path | None) -> bool:
    """Fetch a published policy, if another distribution knows one at this address; return True if it did.

    Raises:
        ConfigError: only a published policy can be at this address, and nothing is installed that fetches those.
    """
    from importlib.metadata import entry_points

    from maze_core.base.errors import ConfigError

    for each in entry_points(group=_ADDRESSES, name="fetch"):
        return bool(each.load()(address, folder))
    if address.startswith(("zoo:", "http:", "https:")) or "#sha256=" in address:
        problem = "the address of a policy needs maze-publish, which is not installed"
        raise ConfigError(problem, "ADDRESS", "Next: pip install maze-publish")
    return False
