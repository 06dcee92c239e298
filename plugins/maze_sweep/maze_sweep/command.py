"""`maze sweep`: many runs that differ in some values and in their seeds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_core.base.local_modules import allow_local_modules, permit
from maze_core.cli import output
from maze_core.cli.options import placed, with_algorithm_flags

if TYPE_CHECKING:
    from maze_sweep.sweep import Sweep

_RANKING = ("rank", "folder", "metric", "take", "minimize", "quiet", "as_json")
"""What may be typed beside --rank."""


@with_algorithm_flags
def sweep(
    context: typer.Context,
    algorithm: Annotated[
        str | None,
        typer.Argument(
            metavar="ALGORITHM",
            help="The algorithm, or several: a,b; not needed with an experiment that has one, or to continue a sweep.",
            show_default=False,
        ),
    ] = None,
    env: Annotated[
        list[str] | None, typer.Option("--env", metavar="ID", help="Environment id; repeatable: each is tried.")
    ] = None,
    env_source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Env source plugin; default: gymnasium.")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(metavar="NAME", help="An experiment for all runs, as of maze train.")
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="PATH=VALUES",
            help="Values: a list a,b,c; a range low..high, low..high:log; n values of one, low..high:n. Repeatable.",
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N|A,B", help="Number of seeds per point, counted from 0, or a list of seeds.")
    ] = None,
    searcher: Annotated[
        str | None, typer.Option(metavar="NAME", help="Searcher: grid (default), random, or a plugin.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of points to try; not needed for a grid.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="Metric that ranks the points; default: eval/return_mean.")
    ] = None,
    late_metric: Annotated[
        bool | None,
        typer.Option("--late-metric", help="Runs may record the metric late: never end early for want of it."),
    ] = None,
    take: Annotated[
        str | None, typer.Option(metavar="best|last", help="Which value of the metric counts; default: best.")
    ] = None,
    minimize: Annotated[
        bool | None, typer.Option("--minimize/--maximize", help="Whether lower values are better.", show_default=False)
    ] = None,
    rank: Annotated[
        bool, typer.Option("--rank", help="Only rank the runs in --dir, by --metric, --take and --minimize; run none.")
    ] = False,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Read the whole sweep from a YAML file.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Set any value for all runs; repeatable.")
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option("--config", "-c", metavar="FILE", help="YAML file for all runs.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Preset: auto, none, a name, or a file (.yaml).")
    ] = None,
    wrappers: Annotated[
        str | None, typer.Option(metavar="A,B", help="Environment wrappers; the first is innermost.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Model plugin; default: mlp.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", min=1, help="Environment steps of each run.")] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Epochs of each run.")] = None,
    init_from: Annotated[
        Path | None, typer.Option("--init-from", metavar="RUN", help="Start every run from another run's weights.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", "--run-dir", metavar="DIR", help="The sweep's folder; default: a new one in runs/."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", min=1, help="Runs in parallel; default: one per core."),
    ] = None,
    runner: Annotated[
        str, typer.Option(metavar="NAME", help="Where runs are executed; local: in processes of this machine.")
    ] = "local",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train with many configurations and seeds in parallel, and rank them.

    The options of the algorithm are options here too: --epoch-length 5 holds for all runs.

    The same command again, or just --dir, continues an interrupted sweep: only missing runs are executed, and killed
    runs resume from their last checkpoint. Exit code 1: some runs failed; 2: the runs do not record the metric.

    \b
    Examples:
      maze sweep ppo --env CartPole-v1 --over algorithm.lr=1e-4,3e-4,1e-3 \\
        --seeds 3 --steps 50000 --dir lr
      maze sweep ppo --env CartPole-v1 --over algorithm.lr=1e-5..1e-2:log \\
        --searcher random --trials 20
      maze sweep sac --env Pendulum-v1 --over algorithm.lr=1e-4,1e-3 \\
        --batch-size 128 --seeds 3
      maze sweep ppo --env CartPole-v1 --seeds 5
      maze sweep ppo,a2c --env CartPole-v1 --env Acrobot-v1 --seeds 5
      maze sweep --experiment quick --over algorithm.lr=1e-4,1e-3 --seeds 3
      maze sweep ppo --init-from runs/first --over algorithm.lr=1e-5,1e-4 \\
        --model mlp
      maze sweep --dir lr --seeds 5
      maze sweep --dir lr --rank --metric eval/return_min --take last
    """
    from maze_core.plugins.config.own_classes import check_classes, check_modules
    from maze_sweep.plan import check_reaches, make_plan, read_plan

    if rank:
        _check_ranks_only(context)
        _rank(folder, {"metric": metric, "take": take, "minimize": minimize}, as_json)
        return
    allow_local_modules()
    if experiment is not None and algorithm is None:
        algorithm = _algorithm_of(experiment)
    algorithms, envs = _listed(algorithm), env or []
    several = {"algorithm.name": algorithms, "env.id": envs}
    common = {
        "env_source": env_source, "wrappers": wrappers, "model": model, "steps": steps, "epochs": epochs,
    }  # fmt: skip
    typed = {
        "algorithm": next(iter(algorithms), None), "env": next(iter(envs), None),
        "preset": preset, "trials": trials, "metric": metric, "take": take,
        "minimize": minimize, "late_metric": late_metric, "seeds": _seeds(seeds),
        "searcher": _part(searcher, "--searcher"),
        "over": _over(over, several), "overrides": _overrides(set_, common),
        "config": _config(algorithms, experiment, config),
        "init_from": None if init_from is None else str(init_from),
    }  # fmt: skip
    if metric is not None:  # another one is looked at anew
        typed["late_metric"] = bool(late_metric)
    given = _plan_file(plan) | {key: value for key, value in typed.items() if value is not None}
    begun = {} if folder is None else read_plan(folder)
    check_classes(_plan_file(plan), typed, plan or "")
    check_classes({"config": typed["config"]}, {**typed, "config": None}, "--config")
    check_classes(begun, typed, folder or "")
    permit([typed, _plan_file(plan)])
    check_modules(begun, folder or "")
    check_reaches(begun, given, folder or Path())
    if given.get("seeds") is not None and "over" not in begun | given:
        given["over"] = {}  # the same settings with several seeds
    _check_enough(begun | given, folder)
    if typed["overrides"] and isinstance(before := begun.get("overrides"), dict):
        given["overrides"] = {**before, **typed["overrides"]}  # some of the same ones may be repeated
    said = {**typed, "config": None}  # its files may not choose a class
    done = _carry_out(make_plan(begun | given), folder, jobs, _part(runner, "--runner"), quiet, said)
    _report(done, as_json)


def _carry_out(plan: Any, folder: Path | None, jobs: int | None, runner: Any, quiet: bool, said: Any) -> Sweep:
    from maze_sweep.api import execute_sweep
    from maze_sweep.display import display

    with display(quiet) as watch:
        return execute_sweep(plan, folder, jobs=jobs, runner=runner, watch=watch, said=said)[0]


def _check_ranks_only(context: typer.Context) -> None:
    """Raise ConfigError for what was typed beside --rank and only matters for runs."""
    from maze_core import ConfigError

    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        if each.name not in _RANKING and source is not None and source.name == "COMMANDLINE":
            where = each.opts[0] if each.opts[0].startswith("-") else each.opts[0].upper()
            raise ConfigError("cannot be changed by --rank, which runs nothing", where, "Leave it out.")


def _rank(folder: Path | None, given: dict[str, Any], as_json: bool) -> None:
    """Print the results of a sweep, ranked by other values than planned."""
    from maze_core import ConfigError
    from maze_sweep.api import read_sweep
    from maze_sweep.ranking import facts

    if folder is None:
        raise ConfigError("--rank needs the folder of a sweep", "--dir", "Next: maze sweep --dir DIR --rank")
    done = read_sweep(folder, **given)
    if as_json:
        from maze_sweep.lines import facts_of_line

        output.print_json({**facts(done), "best_line": facts_of_line(done)})
    else:
        _print_ranking(done)


def _print_ranking(done: Sweep) -> None:
    """Print the trials, the best first; a narrow terminal leaves out settings, the last first."""
    from maze_sweep.ranking import ranked, table

    headers, rows = table(done, ranked(done))
    output.print_table(headers, rows, range(len(headers) - 3, 1, -1))


def _report(done: Sweep, as_json: bool) -> None:
    from maze_sweep.lines import facts_of_line
    from maze_sweep.ranking import check_ranked, facts, failures

    failed = failures(done)
    if as_json:
        output.print_json({**facts(done), "best_line": facts_of_line(done)})
    else:
        _print_ranking(done)
        for run in failed:
            log = f" (log: {run.log})" if run.log.exists() else ""
            output.say(f"failed: {run.name}: {run.reason}{log}")
        _say_what_next(done, len(failed))
    if done.interrupted_by is not None:
        output.end_after(done.interrupted_by)
    check_ranked(done)
    if failed:
        raise typer.Exit(1)


def _say_what_next(done: Sweep, failed: int) -> None:
    import os

    from maze_core.base.terminal_text import argument, counted
    from maze_sweep.best_preset import BEST, best_algorithm
    from maze_sweep.ranking import several_tasks

    folder = os.path.relpath(done.folder)
    folder = folder if len(folder) < len(str(done.folder)) else str(done.folder)
    if done.interrupted_by is not None:
        typer.echo(f"interrupted by {done.interrupted_by}. To continue: maze sweep --dir {argument(folder)}")
        return
    if failed:
        typer.echo(f"{counted(failed, 'run')} failed. To try again: maze sweep --dir {argument(folder)}")
    if (done.folder / BEST).exists() and not several_tasks(done.plan):
        env = f" --env {argument(done.plan.env)}" if done.plan.env else ""
        preset = argument(f"{folder}/{BEST}")
        typer.echo(f"The best values are a preset: maze train {argument(best_algorithm(done))}{env} --preset {preset}")
    if done.count("finished") and several_tasks(done.plan):
        typer.echo(f"Next: maze report {argument(folder)} --normalize range")
    elif done.count("finished") and "algorithm.name" in done.plan.space:
        typer.echo(f"Next: maze report {argument(folder)}")
    elif done.count("finished"):
        typer.echo(f"Next: maze runs plot {argument(folder)} --out curves.png")


def _plan_file(path: Path | None) -> dict[str, Any]:
    from maze_core.plugins.config.plain_yaml import read_yaml

    return {} if path is None else read_yaml(path)


def _check_enough(raw: dict[str, Any], folder: Path | None) -> None:
    from maze_core import ConfigError

    example = "Next: maze sweep ppo --env CartPole-v1 --over algorithm.lr=1e-4,1e-3"
    if folder is not None and not raw:
        raise ConfigError(f"{folder} contains no sweep to continue", "--dir", example)
    if "algorithm" not in raw:
        raise ConfigError("name the algorithm", hint=example)
    if "over" not in raw:
        other = "or, for several seeds of the same settings, --seeds 5"
        raise ConfigError(
            "no search space is given: name what differs between the runs", "--over", f"{example}; {other}"
        )


def _listed(algorithms: str | None) -> list[str]:
    """Return the names in `ppo,a2c`."""
    return [] if algorithms is None else [name.strip() for name in algorithms.split(",")]


def _over(texts: list[str] | None, several: dict[str, list[str]]) -> dict[str, Any] | None:
    """Return what is searched: what was named several times, and then what `texts` say."""
    from maze_core import ConfigError
    from maze_core.base.terminal_text import argument
    from maze_sweep.searchers.space import parse_over

    found: dict[str, Any] = {path: values for path, values in several.items() if len(values) > 1}
    for path, values in map(parse_over, texts or ()):
        if path in found:
            raise ConfigError("appears twice", f"over.{path}", f"Next: --over {argument(path)}=A,B")
        found[path] = values
    return found or None


def _overrides(texts: list[str] | None, common: dict[str, Any]) -> dict[str, Any] | None:
    from maze_core.plugins.config.raw import assignments_of, check_set_once, parse_assignment

    said, typed = [parse_assignment(text) for text in texts or ()], placed(common)
    check_set_once(said, assignments_of(typed))
    return {".".join(path): value for path, value in said} | typed or None


def _algorithm_of(experiment: str) -> str:
    from maze_core.plugins.config.experiments import experiment_algorithm

    return experiment_algorithm(experiment, "maze sweep")


def _config(algorithms: list[str], experiment: str | None, files: list[Path] | None) -> dict[str, Any] | None:
    """Return the experiment and the files as one layer; later ones win.

    Raises:
        ConfigError: there is no such experiment, or a file is for another algorithm.
    """
    from maze_core import ConfigError
    from maze_core.plugins.config.experiments import experiment as experiment_file
    from maze_core.plugins.config.plain_yaml import read_yaml
    from maze_core.plugins.config.presets import algorithm_of
    from maze_core.plugins.config.raw import merge

    named = [] if experiment is None else [experiment_file(experiment)]
    layers: dict[str, Any] = {}
    for path in (*named, *(files or ())):
        content = read_yaml(path)
        meant = algorithm_of(content)
        if algorithms and meant not in ("", *algorithms):
            raise ConfigError(f"is for the algorithm {meant}, not for {', '.join(algorithms)}", str(path))
        layers = merge(layers, content)
    return layers or None


def _seeds(given: str | None) -> Any:
    from maze_core.plugins.config.plain_yaml import parse_value

    if given is None:
        return None
    return parse_value(f"[{given}]" if "," in given and "[" not in given else given, "--seeds")


def _part(text: str | None, option: str) -> Any:
    """Return a plugin given by name, or as a YAML mapping with its parameters."""
    from maze_core.plugins.config.plain_yaml import parse_value

    return None if text is None else parse_value(text, option) if text.lstrip().startswith("{") else text
