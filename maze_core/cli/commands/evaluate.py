"""`maze eval RUN`: evaluate a saved policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.cli import output
from maze_core.cli.group import lasting_imports


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run, or a policy's address.", show_default=False)],
    episodes: Annotated[
        int | None, typer.Option("--episodes", "-n", min=1, help="Number of episodes; default: as configured.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the episodes; default: drawn.")] = None,
    stochastic: Annotated[
        bool | None,
        typer.Option("--stochastic/--deterministic", help="Sample actions; default: as configured."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="best, last or previous; default: best, or last if there is no best."),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="A policy plugin, a class module:Class, or an exported file, that acts in the run's environment.",
        ),
    ] = None,
    video: Annotated[Path | None, typer.Option(metavar="DIR", help="Film the first episode into this folder.")] = None,
    runner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Runner of the environments; default: as in training.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as env.kwargs.size=5; repeatable."),
    ] = None,
    look_ahead: Annotated[
        bool, typer.Option("--look-ahead/--no-look-ahead", help="Act with the run's planner, if it has one.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Evaluate a run's policy.

    \b
    Examples:
      maze eval runs/first
      maze eval runs/first --episodes 100 --seed 7 --json
      maze eval runs/first --policy my_heuristics:Balance
    """
    from maze_core.base.errors import ConfigError

    with lasting_imports():
        from maze_core.run.episodes.saved_evaluation import evaluate_saved

    allow_local_modules()
    for name, value in {"checkpoint": checkpoint, "stochastic": stochastic}.items():
        if policy is not None and value is not None:
            raise ConfigError("is only for the run's own policy, not for --policy", f"--{name}")
    deterministic = None if stochastic is None else not stochastic
    found = evaluate_saved(
        run,
        episodes=episodes,
        seed=seed,
        deterministic=deterministic,
        checkpoint=checkpoint,
        video=video,
        policy=policy,
        runner=runner,
        overrides=set_ or (),
        look_ahead=look_ahead,
    )
    if as_json:
        acted = {"checkpoint": found.checkpoint, "epoch": found.epoch} if policy is None else {"policy": policy}
        facts = {**acted, "seed": found.seed}
        output.print_json({**found.metrics, **facts, **({"video": str(video)} if video is not None else {})})
        return
    rows = [(name.removeprefix("eval/"), f"{value:,.6g}") for name, value in found.metrics.items()]
    output.print_table(("statistic", "value"), rows)
    acted_by = f"policy {policy}" if policy else f"checkpoint {found.checkpoint}, after epoch {found.epoch}"
    output.say(f"{run}, {found.title}: {acted_by}; seed {found.seed}")
    for path in found.videos:
        output.say(f"filmed {path}")
