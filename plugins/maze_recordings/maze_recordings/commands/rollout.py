"""`maze rollout`: play episodes with a policy, and record or film them."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_core.base.local_modules import allow_local_modules
from maze_core.base.terminal_text import argument
from maze_core.cli import output
from maze_core.cli.group import lasting_imports

if TYPE_CHECKING:
    from maze_core import PluginConfig
    from maze_recordings.rollouts import RolloutTask


def rollout(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="A run directory.", show_default=False)] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="POLICY", help="A policy plugin, a class module:Class, or an exported file."),
    ] = None,
    env: Annotated[str | None, typer.Option(metavar="ID", help="Environment for --policy.")] = None,
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="Number of episodes.")] = 8,
    record: Annotated[Path | None, typer.Option(metavar="DIR", help="Record trajectories in this new folder.")] = None,
    wrapped_rewards: Annotated[
        bool, typer.Option("--wrapped-rewards", help="With --record: also record the rewards after the wrappers.")
    ] = False,
    video: Annotated[Path | None, typer.Option(metavar="DIR", help="Film every episode into this folder.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; the result does not depend on their number.")
    ] = None,
    runner: Annotated[str | None, typer.Option(metavar="NAME", help="Runner of the workers; default: local.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the episodes; default: drawn.")] = None,
    stochastic: Annotated[
        bool | None,
        typer.Option("--stochastic/--deterministic", help="Sample a run's actions; default: as its evaluation."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="best, last or previous; default: best, or last if there is no best."),
    ] = None,
    look_ahead: Annotated[
        bool | None,
        typer.Option("--look-ahead/--no-look-ahead", help="Act with a run's planner; default: if it has one."),
    ] = None,
    env_source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Env source plugin; default: the one that has --env.")
    ] = None,
    wrappers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Wrappers of --env; the first is innermost.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Such as env.kwargs.size=5; policy.x=1; runner.x=2."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let a trained policy, or a policy plugin, play episodes and print the statistics of their raw returns.

    \b
    Examples:
      maze rollout runs/first --episodes 100 --record demos
      maze rollout --policy random --env CartPole-v1 --seed 7 --json
      maze rollout --policy my_heuristics:Balance --env CartPole-v1
      maze rollout runs/first --episodes 3 --stochastic --video films
    """
    from maze_core import ConfigError
    from maze_core.base.seeding import draw_seed
    from maze_core.run.saved.found_run import find_run
    from maze_recordings.progress import progress_bar

    with lasting_imports():
        from maze_recordings.rollouts import roll_out, statistics_of

    allow_local_modules()
    # An environment may change the current folder.
    recording, films = (None if each is None else Path(os.path.abspath(each)) for each in (record, video))  # noqa: PTH100
    if wrapped_rewards and record is None:
        raise ConfigError("is only for --record", "--wrapped-rewards", "Next: --record DIR")
    seed = draw_seed() if seed is None else seed
    overrides, player = _runner(set_ or [], runner)
    causes: list[str] = []
    with ExitStack() as stack:
        if run is not None:
            find_run(run)
            hint = (
                f"Leave it out. Another policy in the environment of the run: maze eval {argument(run)} --policy NAME"
            )
            _refuse("the run already defines it", hint, policy=policy, env=env, wrappers=wrappers)
            task = _of_run(stack, run, checkpoint, overrides, seed, stochastic, films, look_ahead)
        else:
            hint = "Next: maze rollout --help"
            _refuse("is only for a RUN", hint, checkpoint=checkpoint, stochastic=stochastic, look_ahead=look_ahead)
            task = _of_plugin(policy, env_source, env, wrappers, overrides, seed, films)
        report = stack.enter_context(progress_bar("episodes"))
        played = roll_out(
            task,
            episodes,
            workers=workers,
            runner=player,
            record=recording,
            wrapped_rewards=wrapped_rewards,
            report=report,
            stop=causes,
        )
    statistics = statistics_of(played, task.builder.max_episode_steps)
    if as_json:
        files = {"record": record, "video": video}
        output.print_json({**statistics, "seed": seed, **{k: str(v) for k, v in files.items() if v is not None}})
    else:
        _print(statistics, seed, record, video)
    if causes:
        output.warn(f"interrupted by {causes[0]}: {len(played)} of {episodes} episodes were played")
        output.end_after(causes[-1])


def _print(statistics: dict[str, float], seed: int, record: Path | None, video: Path | None) -> None:
    output.print_table(("statistic", "value"), [(name, f"{value:,.6g}") for name, value in statistics.items()])
    typer.echo(f"seed {seed}")
    if record is not None:
        output.say(f"recorded in {record}. Next: maze trajectories info {argument(record)}")
    if video is not None:
        output.say(f"filmed in {video}")


def _runner(overrides: list[str], name: str | None) -> tuple[list[str], PluginConfig | None]:
    """Return the overrides that do not concern the runner, and the runner's configuration, if one was asked for."""
    from maze_core.plugins.config.assembly import part_config
    from maze_core.plugins.config.raw import assignments_of, check_set_once, parse_assignment

    its = [text for text in overrides if text.strip().startswith("runner.")]
    if name is None and not its:
        return overrides, None
    if name is not None:
        check_set_once(map(parse_assignment, its), assignments_of({"runner.name": name}))
    return [text for text in overrides if text not in its], part_config("runner", {"name": name or "local"}, its)


def _of_run(
    stack: ExitStack,
    run_dir: Path,
    checkpoint: str | None,
    overrides: list[str],
    seed: int,
    stochastic: bool | None,
    video: Path | None,
    look_ahead: bool | None,
) -> RolloutTask:
    """Return the task for a run's policy; the run stays open as long as `stack`."""
    from maze_core.run.saved.saved_run import open_policy
    from maze_recordings.rollouts import task_of_run

    here = "runner={name: dev}"  # whatever runner it was trained with: this process only opens it
    run = stack.enter_context(closing(open_policy(run_dir, checkpoint, [*overrides, here])))
    deterministic = None if stochastic is None else not stochastic
    return task_of_run(run, seed, deterministic, video, look_ahead=look_ahead is not False)


def _of_plugin(
    policy: str | None,
    source: str | None,
    env: str | None,
    wrappers: str | None,
    overrides: list[str],
    seed: int,
    video: Path | None,
) -> RolloutTask:
    from maze_core import ConfigError
    from maze_core.cli.options import env_layer
    from maze_core.collect.policies.said_classes import said_classes
    from maze_core.plugins.config.assembly import Assembly, env_config
    from maze_recordings.rollouts import task_of_plugin

    if policy is None or (env is None and source is None):
        raise ConfigError("name a run directory, or both --policy and --env", hint="Next: maze rollout --help")
    mine = [text for text in overrides if text.strip().startswith("policy.")]
    acting = Assembly(said_classes(policy)).policy_config(policy, mine)
    names = [name.strip() for name in (wrappers or "").split(",") if name.strip()]
    env_part, wrapped = env_config(env_layer(source, env), names, [text for text in overrides if text not in mine])
    return task_of_plugin(acting, env_part, wrapped, seed, video)


def _refuse(reason: str, hint: str, **options: Any) -> None:
    from maze_core import ConfigError

    for name, value in options.items():
        if value is not None:
            raise ConfigError(reason, f"--{name.replace('_', '-')}", hint)
