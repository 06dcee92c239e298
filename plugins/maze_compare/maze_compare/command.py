"""`maze runs`: tables and pictures of existing runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maze_compare.aggregate_command import aggregate
from maze_core.cli import output

if TYPE_CHECKING:
    from maze_compare.records import DamagedRun, RunRecord
    from maze_compare.rivals import Rival

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="List, compare and plot runs.")
app.command()(aggregate)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Metric = Annotated[str, typer.Option(metavar="NAME", help="A metric of metrics.jsonl.")]
_Env = Annotated[str | None, typer.Option(metavar="ID", help="Only runs on this environment.")]
_Algorithm = Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this algorithm.")]
_Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="PATH=VALUE", help="Only runs with this value, such as algorithm.lr=1e-3; repeatable."
    ),
]
_State = Annotated[
    str | None, typer.Option(metavar="STATE", help="finished, failed, interrupted, running, killed or damaged.")
]
_Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="POLICY",
        help="Also the score of a policy plugin, a class module:Class or an exported file; repeatable.",
    ),
]
_Sort = Annotated[
    str, typer.Option(metavar="COLUMN", help="when, env, algorithm, seed, state, steps, best, final or path.")
]
_Places = Annotated[
    list[Path], typer.Argument(metavar="RUN…", help="Runs, or folders that contain runs.", show_default=False)
]
_SORTS: dict[str, Any] = {
    "when": lambda run: run.started,
    "env": lambda run: run.env,
    "algorithm": lambda run: run.algorithm,
    "seed": lambda run: -1 if run.seed is None else run.seed,
    "state": lambda run: run.state,
    "steps": lambda run: run.count("env_steps"),
    "best": lambda run: _or_least(run.value(), lower=run.judged_by[1]),
    "final": lambda run: _or_least(run.value(take="last"), lower=run.judged_by[1]),
    "path": lambda run: str(run.path),
}


@app.command("list")
def list_runs(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR…", help="Folders to search; default: runs.", show_default=False)
    ] = None,
    env: _Env = None,
    algorithm: _Algorithm = None,
    state: _State = None,
    where: _Where = None,
    sort: _Sort = "when",
    reverse: Annotated[bool, typer.Option("--reverse", help="Reverse the order.")] = False,
    tree: Annotated[
        bool, typer.Option("--tree", help="Each run with its forks below it, and what these changed.")
    ] = False,
    policy: _Policies = None,
    as_json: _Json = False,
) -> None:
    """List runs with their state and returns, the newest last; damaged ones at the end, with the reason.

    \b
    Examples:
      maze runs list
      maze runs list runs/CartPole-v1 --state finished --sort best
      maze runs list --where algorithm.lr=1e-3 --json
      maze runs list --tree
    """

    check("--sort", sort, list(_SORTS))
    whole, damaged = _runs(folders or [Path("runs")], env, algorithm, where, state)
    whole.sort(key=_SORTS[sort], reverse=reverse)
    scored = _rivals(policy, whole)
    if as_json:
        output.print_json(
            [*(run.overview() for run in whole), *map(_damage, damaged), *(each.plain_facts() for each in scored)]
        )
    elif tree and (whole or damaged):
        _print_tree(whole, damaged)
    elif whole or damaged:
        headers = ("env", "algorithm", "seed", "steps", "state", "best", "final", "when", "run")
        output.print_table(headers, [*map(_row, whole), *map(_damaged_row, damaged)], (7, 2, 3, 6, 1, 5, 4), paths=True)
    else:
        typer.echo("no run matches these filters")
    for rival in scored:
        output.say(rival.sentence())
    for each in damaged:
        output.warn(f"damaged: {each.path}: {each.reason}")


@app.command()
def compare(
    runs: _Places,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A metric of metrics.jsonl; default: the runs' score, else the return."),
    ] = None,
    env: _Env = None,
    algorithm: _Algorithm = None,
    where: _Where = None,
    minimize: Annotated[bool, typer.Option("--minimize", help="Lower values of the metric are better.")] = False,
    policy: _Policies = None,
    as_json: _Json = False,
) -> None:
    """Show where configurations differ, and their results.

    Runs that differ only in the seed or in logging form a group: results are the mean ± the standard deviation over
    the seeds, and the interquartile mean of the final values with its 95 % interval. The best group comes first. A line
    for each of the others says whether the difference means anything.

    \b
    Examples:
      maze runs compare runs/first runs/second
      maze runs compare runs/CartPole-v1 --metric eval/length_median
      maze runs compare runs/CartPole-v1 --policy my_heuristics:Balance
    """
    from maze_compare.comparison import group_facts, print_groups, ranked
    from maze_compare.groups import differing, group, no_metric
    from maze_core.base.metrics import RETURN

    found = matching(runs, env, algorithm, where)
    if metric is None:
        metric, lower = score_of(found, None)
        minimize = minimize or lower
    groups = ranked(group(found), metric, minimize)
    if metric != RETURN and all(run.value(metric, "last") is None for each in groups for run in each.runs):
        raise no_metric(groups, metric)
    paths, scored = differing(groups), _rivals(policy, found, metric)
    if as_json:
        facts = [group_facts(each, groups, paths, metric, minimize) for each in groups]
        more = {"policies": [each.plain_facts() for each in scored]} if policy else {}
        output.print_json({"differing": paths, "groups": facts, **more})
        return
    print_groups(groups, paths, metric, minimize, scored)


@app.command()
def plot(
    runs: _Places,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The picture: .png, .svg or .pdf.")],
    metric: _Metric = "eval/return_mean",
    x: Annotated[str, typer.Option(metavar="AXIS", help="env_steps, seconds, updates or epoch.")] = "env_steps",
    smooth: Annotated[
        int, typer.Option(metavar="N", min=1, help="Smooth curves by the mean of the last N epochs.")
    ] = 1,
    env: _Env = None,
    algorithm: _Algorithm = None,
    where: _Where = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the plot; the environments if not given.")] = "",
    policy: _Policies = None,
) -> None:
    """Draw learning curves with a band over the seeds.

    For each configuration: the mean over its seeds, a band of one standard deviation within the range of its runs, and
    a thin line for each run. Each `--policy` is a horizontal line.

    \b
    Examples:
      maze runs plot runs/CartPole-v1 --out curves.png
      maze runs plot runs/first runs/second --metric loss/entropy \\
        --x seconds --smooth 5 --out entropy.svg
    """
    from maze_compare.curves import Axis, curves
    from maze_compare.groups import group
    from maze_compare.picture import draw
    from maze_core.base.terminal_text import counted

    axes: tuple[Axis, ...] = ("env_steps", "seconds", "updates", "epoch")
    check("--x", x, axes)
    axis = next(each for each in axes if each == x)
    found = matching(runs, env, algorithm, where)
    lines = curves(group(found), metric, axis, smooth)
    scores = {each.title: each.value for each in _rivals(policy, found, metric)}
    draw(lines, metric, axis, out, title or ", ".join(sorted({run.env for run in found})), scores)
    drawn = sum(len(each.runs) for each in lines)
    output.say(f"{out}: {counted(drawn, 'run')} in {counted(len(lines), 'curve')}")
    if drawn < len(found):
        output.warn(f"left out {counted(len(found) - drawn, 'run')} without {metric}")


@app.command()
def watch(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR…", help="Folders to search; default: runs.", show_default=False)
    ] = None,
    metric: _Metric = "eval/return_mean",
    env: _Env = None,
    algorithm: _Algorithm = None,
    state: _State = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, max=3600, help="Time between drawings.")] = 2.0,
) -> None:
    """Show running and finished runs on the terminal until Ctrl-C: progress, speed, returns and their curve.

    Running ones come first, then the one that changed last. In a pipe the table is printed once.

    \b
    Examples:
      maze runs watch
      maze runs watch runs/CartPole-v1 --state running --metric train/return_mean
    """
    from typing import get_args

    from rich.console import Console

    from maze_compare.records import DamagedRun, State
    from maze_compare.table import Runs
    from maze_compare.watching import watch as watch_runs
    from maze_core.run.saved.found_run import no_run

    if state is not None:
        check("--state", state, (*get_args(State), "damaged"))
    places = folders or [Path("runs")]
    for place in places:
        if not place.is_dir():
            raise no_run(place)

    def wanted(run: RunRecord | DamagedRun) -> bool:
        if isinstance(run, DamagedRun):
            return state in (None, "damaged")
        return env in (None, run.env) and algorithm in (None, run.algorithm) and state in (None, run.state)

    watch_runs(Runs(places, wanted).read, metric, every, Console())


def matching(
    places: Sequence[Path], env: str | None, algorithm: str | None, where: Sequence[str] | None
) -> list[RunRecord]:
    """Return the runs in some folders that match the filters, at least one; warn of damaged ones."""
    return _some(_records(places, env, algorithm, where))


def score_of(records: Sequence[RunRecord], metric: str | None) -> tuple[str, bool]:
    """Return the metric that runs are compared by, and whether lower values are better: what they are judged by.

    Where they are judged by several, that is the return. `metric`: what the user has named.
    """
    from maze_core.base.metrics import RETURN

    judged = {run.judged_by for run in records}
    found, lower = judged.pop() if len(judged) == 1 else (RETURN, False)
    return (found, lower) if metric in (None, found) else (str(metric), False)


def _records(
    places: Sequence[Path], env: str | None, algorithm: str | None, where: Sequence[str] | None
) -> list[RunRecord]:
    whole, damaged = _runs(places, env, algorithm, where)
    for each in damaged:
        output.warn(f"skipped {each.path}: {each.reason}")
    return whole


def _runs(
    places: Sequence[Path],
    env: str | None,
    algorithm: str | None,
    where: Sequence[str] | None,
    state: str | None = None,
) -> tuple[list[RunRecord], list[DamagedRun]]:
    """Return the runs that match the filters, and damaged ones unless another state is requested."""
    from typing import get_args

    from maze_compare.records import DamagedRun, RunRecord, State, find_runs
    from maze_core.plugins.config.raw import parse_assignment

    if state is not None:
        check("--state", state, (*get_args(State), "damaged"))
    wanted = [parse_assignment(text) for text in where or ()]
    found = find_runs(places)
    damaged = [each for each in found if isinstance(each, DamagedRun) and state in (None, "damaged")]
    whole = [
        run
        for run in found
        if isinstance(run, RunRecord)
        and env in (None, run.env)
        and algorithm in (None, run.algorithm)
        and state in (None, run.state)
        and all(_value_at(run.config, path) == value for path, value in wanted)
    ]
    for run in whole:
        if run.damage:
            output.warn(run.damage)
    return whole, damaged


def _rivals(policies: Sequence[str] | None, runs: Sequence[RunRecord], metric: str = "eval/return_mean") -> list[Rival]:
    """Return the scores of policies in the environments of runs."""
    if not policies:
        return []
    from maze_compare.rivals import rivals
    from maze_core.base.local_modules import allow_local_modules

    allow_local_modules()
    return rivals(policies, runs, metric)


def _some(records: list[RunRecord]) -> list[RunRecord]:
    from maze_core import ConfigError

    if not records:
        raise ConfigError("no run matches these filters", hint="Next: maze runs list")
    return records


def _value_at(config: Any, path: Sequence[str]) -> Any:
    for key in path:
        if isinstance(config, list) and key.isdigit() and int(key) < len(config):
            config = config[int(key)]
        elif isinstance(config, dict):
            config = config.get(key)
        else:
            return None
    return config


def check(option: str, value: str, known: Sequence[str]) -> None:
    """Raise ConfigError for a value of an option that is not known."""
    from maze_core import ConfigError
    from maze_core.plugins.config.explain import nearest

    if value not in known:
        raise ConfigError(f"unknown {value!r}; {nearest(value, known)}", option)


def _or_least(value: float | None, *, lower: bool) -> float:
    return float("-inf") if value is None else -value if lower else value


def _damage(run: DamagedRun) -> dict[str, Any]:
    return {"run": str(run.path), "state": "damaged", "reason": run.reason}


def _damaged_row(run: DamagedRun) -> list[str]:
    from maze_compare.groups import MISSING

    return [MISSING] * 4 + ["damaged"] + [MISSING] * 2 + [_when(run.changed), str(run.path)]


def _row(run: RunRecord) -> list[str]:
    from maze_compare.groups import MISSING

    seed = MISSING if run.seed is None else str(run.seed)
    best, final = _text(run.value()), _text(run.value(take="last"))
    steps = f"{run.count('env_steps'):,.0f}"
    return [run.env, run.algorithm, seed, steps, run.state, best, final, _when(run.started), str(run.path)]


def _print_tree(whole: Sequence[RunRecord], damaged: Sequence[DamagedRun]) -> None:
    """Print runs with their forks below them."""
    from maze_compare.family import families

    rows = [[member.path, *_row(member.run)[:2], *_row(member.run)[3:7], member.changed] for member in families(whole)]
    rows += [[str(each.path), *[""] * 3, "damaged", *[""] * 3] for each in damaged]
    headers = ("run", "env", "algorithm", "steps", "state", "best", "final", "forked at")
    output.print_table(headers, rows, (2, 1, 5, 3, 4, 6, 7))


def _when(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _text(value: float | None) -> str:
    from maze_compare.groups import MISSING, number

    return MISSING if value is None else number(value)
