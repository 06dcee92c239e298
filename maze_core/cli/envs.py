"""`maze envs`: look at an environment before training on it."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

from maze_core.cli import output
from maze_core.plugins.local_modules import allow_local_modules

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at environments.")


@app.command()
def check(
    env_id: Annotated[str, typer.Argument(metavar="ID", help="The environment id.", show_default=False)],
    env_source: Annotated[str, typer.Option(metavar="NAME", help="Env source plugin.")] = "gymnasium",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Such as env.kwargs.size=5.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Build an environment, print its spaces and check it against the gymnasium interface.

    \b
    Examples:
      maze envs check CartPole-v1
      maze envs check my_package:MyEnv-v0 --set env.kwargs.size=5
    """
    from maze_core.config.load import part_config

    allow_local_modules()
    config = part_config("env", {"name": env_source, "id": env_id}, set_ or ())
    report = _report(config)
    if as_json:
        output.print_json(report)
    else:
        for key, value in report.items():
            output.say(f"{key + ':':20}" + (value if isinstance(value, str) else "; ".join(value) or "none"))
    if report["problems"]:
        raise typer.Exit(1)


def _report(config: Any) -> dict[str, Any]:
    from gymnasium.utils.env_checker import check_env

    from maze_core.plugins.discovery import describe
    from maze_core.plugins.manager import Hooks

    env = Hooks.for_envs(config).make_env(config, seed=0, index=0)
    problems: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_env(env.unwrapped, skip_render_check=True)
        except Exception as error:  # noqa: BLE001 — whatever the environment raises is the finding
            problems.append(describe(error))
        finally:
            env.close()
    return {
        "environment": str(env),
        "observation space": str(env.observation_space),
        "action space": str(env.action_space),
        "warnings": sorted({" ".join(str(each.message).split()) for each in caught} | _layout_warnings(env)),
        "problems": problems,
    }


def _layout_warnings(env: Any) -> set[str]:
    """What to say of pictures whose channels seem to come first, which models do not take for granted."""
    from maze_core.envs.spaces import flatten_space, is_channels_first, looks_channels_first
    from maze_core.errors import ConfigError

    try:
        leaves = flatten_space(env.observation_space, "observation")
    except ConfigError:  # training says which spaces Maze does not support
        return set()
    return {
        f"observation {key!r} of shape {space.shape} looks like a picture whose channels come first, and models expect "
        "them last: --set model.layout=chw, or the wrapper transpose with axes [1, 2, 0]"
        for key, space in leaves.items()
        if looks_channels_first(space.shape or ()) and not is_channels_first(space.shape or ())
    }
