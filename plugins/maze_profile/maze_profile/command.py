"""`maze profile`: where the time of a run goes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_core.base.local_modules import allow_local_modules, permit
from maze_core.cli import output
from maze_core.cli.options import with_algorithm_flags

if TYPE_CHECKING:
    from maze_core import RunConfig
    from maze_profile.profiling import Profile


@with_algorithm_flags
def profile(
    target: Annotated[
        str, typer.Argument(metavar="RUN|ALGORITHM", help="A run directory, or an algorithm.", show_default=False)
    ],
    env: Annotated[str | None, typer.Option(metavar="ID", help="Environment id; default: that of the run.")] = None,
    env_source: Annotated[str | None, typer.Option(metavar="NAME", help="Env source plugin.")] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", "-c", metavar="FILE", help="YAML file; repeatable, later ones win."),
    ] = None,
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="A preset of the algorithm, auto or none; a run has its own values.")
    ] = "auto",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Set any value; repeatable.")
    ] = None,
    runner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Runner of environments and workers; default: dev.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Train for about so long; at least one update.")
    ] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train for some seconds, and show where the time goes.

    The options of the algorithm are options here too, such as --num-envs 4. The parts add up to the time. Nothing is
    kept: the run lies in a temporary folder, without callbacks.

    \b
    Examples:
      maze profile ppo --env CartPole-v1
      maze profile runs/first --seconds 30
      maze profile sac --env Pendulum-v1 --batch-size 512 --json
    """
    from maze_profile.profiling import take_profile

    allow_local_modules()
    found = take_profile(_configured(target, env, env_source, config or [], preset, set_ or [], runner), seconds)
    if as_json:
        output.print_json(_facts(found))
    else:
        _print(found)


def _configured(
    target: str,
    env: str | None,
    env_source: str | None,
    files: list[Path],
    preset: str,
    overrides: list[str],
    runner: str | None,
) -> RunConfig:
    """Return the configuration to train with: of a run, or of an algorithm."""
    from maze_core.collect.policies.said_classes import said_classes
    from maze_core.plugins import discovery
    from maze_core.plugins.config.assembly import Assembly, is_class_name
    from maze_core.plugins.config.checksummed_yaml import read_checksummed
    from maze_core.plugins.config.own_classes import check_modules
    from maze_core.plugins.config.record import CONFIG
    from maze_core.run.saved.found_run import find_run

    assembly = Assembly(said_classes((), overrides))
    overrides = ["runner.name=dev", *overrides] if runner is None else overrides
    flags: dict[str, Any] = {} if runner is None else {"runner.name": runner}
    if env_source is not None:
        flags["env.name"] = env_source
    is_run = os.sep in target or is_class_name(target) or Path(target).is_dir()
    if target in discovery.names("algorithm") or not is_run:
        return assembly.assemble(target, env, preset, files, overrides, flags)
    own = find_run(Path(target)) / CONFIG
    permit(env)
    # The run may be a stranger's.
    assembly.load_saved_config(own, ["callbacks=null", f"runner.name={runner or 'dev'}", *overrides])
    check_modules(read_checksummed(own), target)
    return assembly.assemble(None, env, "none", [own, *files], overrides, flags)


def _facts(found: Profile) -> dict[str, Any]:
    return {
        "parts": found.seconds,
        "seconds": found.total,
        "env_steps": found.env_steps,
        "updates": found.updates,
        "measuring_seconds": found.measuring,
        "notes": found.notes,
    }


def _print(found: Profile) -> None:
    from maze_profile.parts import PARTS

    steps = found.env_steps
    rows = [
        (part, f"{seconds:.2f} s", f"{seconds / found.total:.1%}", _each(seconds, steps), PARTS[part])
        for part, seconds in found.seconds.items()
    ]
    rows.append(("in all", f"{found.total:.2f} s", "100.0%", _each(found.total, steps), ""))
    output.print_table(("part", "time", "share", "per step", "what it contains"), rows)
    speed = f"{found.steps_per_second:,.0f} steps per second" if steps else "no environment steps"
    output.say(f"{steps:,} steps, {found.updates:,} updates: {speed}")
    for note in found.notes:
        output.say(f"note: {note}")


def _each(seconds: float, steps: int) -> str:
    return f"{seconds / steps * 1e6:,.1f} µs" if steps else "-"
