"""`maze export RUN`: write a policy to a file that runs without Maze."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.cli import output


class Format(StrEnum):
    """The formats of an exported policy."""

    ONNX = "onnx"
    PT2 = "pt2"


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run directory.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The new file, .onnx or .pt2.", show_default=False)],
    format: Annotated[
        Format | None,
        typer.Option(help="For onnxruntime, or for torch alone; default: by the suffix of FILE."),
    ] = None,
    stochastic: Annotated[
        bool, typer.Option("--stochastic", help="Sample actions, with random numbers as inputs.")
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="best, last or previous; default: best, or last if there is no best."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as env.kwargs.size=5; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a run's policy to a file that runs without Maze.

    The file contains everything from raw observations to actions in the environment's units. It is written only if it
    gives the same actions as torch on observations of the run's environment.

    \b
    Examples:
      maze export runs/first --out policy.onnx
      maze export runs/first --out policy.pt2 --stochastic
      maze eval runs/first --policy policy.onnx
    """
    from contextlib import closing

    from maze_core.base.terminal_text import argument, counted
    from maze_core.run.saved.saved_run import open_policy
    from maze_export.export import export_policy

    allow_local_modules()
    here = ["runner={name: dev}", "algorithm.device=cpu"]  # whatever it was trained with
    with closing(open_policy(run, checkpoint, [*(set_ or ()), *here])) as opened:
        written = export_policy(opened, out, None if format is None else format.value, stochastic=stochastic)
    if as_json:
        facts = {"file": str(written.file), "bytes": written.bytes, "rows": written.rows, "sha256": written.sha256}
        output.print_json({**facts, **({"without_look_ahead_of": written.without} if written.without else {})})
        return
    output.say(
        f"wrote {written.file}, {written.bytes:,} bytes; "
        f"it acts as torch does on {counted(written.rows, 'observation')}"
    )
    if written.without:
        output.say(f"it is the network alone: this run acts with {', '.join(written.without)}, which looks ahead")
    if written.file.suffix == ".onnx":
        output.say(f"Next: maze eval {argument(run)} --policy {argument(written.file)}")
