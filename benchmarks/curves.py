"""Learning curves: the evaluations of every run, kept beside its table, and a picture for each environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FILE = results.FOLDER / "learning_curves.json"
PICTURES = results.FOLDER / "curves"
MOST = 100
"""Most points of a curve."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""
STYLES = ("-", "--", ":")
"""Of the lines: those of the first colours, of the same colours again, and so on."""

Points = list[list[float]]
"""Environment steps and mean return of each evaluation of a run."""


def evaluations(run_dir: Path) -> Points:
    """The evaluations of a finished run: those after its epochs, of many every second and so on, and the final one."""
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    found = [(line["env_steps"], line["eval/return_mean"]) for line in lines]
    points = [[steps, round(score, 3)] for steps, score in found if score is not None]
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    last = [summary["env_steps"], round(summary["final_evaluation"]["eval/return_mean"], 3)]
    return [*points[:: 1 + len(points) // MOST], last]


def load() -> dict[str, dict[str, Points]]:
    """All curves, by row and seed."""
    found: dict[str, dict[str, Points]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


def keep(row: str, seed: int, points: Points) -> None:
    """Write down the curve of one run; a line for each, so that the file can be read and compared."""
    curves = load()
    curves.setdefault(row, {})[str(seed)] = points
    rows = [
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(seed)}: {json.dumps(curve)}" for seed, curve in sorted(seeds.items()))
        + "\n }"
        for name, seeds in sorted(curves.items())
    ]
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def pictures(rows: dict[str, Any], env_of: dict[str, str]) -> list[str]:
    """Draw the rows of each environment that have curves. Returns Markdown, a picture for each environment.

    Args:
        rows: the results by row; only finished seeds are drawn.
        env_of: the environment of each row.
    """
    curves = load()
    shown: dict[str, dict[str, list[Points]]] = {}
    for name, env in env_of.items():
        seeds = {str(run["seed"]) for run in rows.get(name, {}).get("runs", []) if run["score"] is not None}
        found = [points for seed, points in curves.get(name, {}).items() if seed in seeds and points]
        if found:
            shown.setdefault(env.rpartition(":")[2], {})[name] = found
    for env, by_row in shown.items():
        draw(env, by_row)
    return [f"![Learning curves on {env}](curves/{env}.svg)" for env in shown]


def draw(env: str, by_row: dict[str, list[Points]]) -> None:
    """Draw one picture: of each row the median over its seeds, and the band from the least to the best."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, runs) in enumerate(by_row.items()):
        again, place = divmod(number, len(COLOURS))
        label = f"{name}, {len(runs)} seed{'s' if len(runs) > 1 else ''}"
        line(axes, runs, label, COLOURS[place], STYLES[again % len(STYLES)])
    axes.set(title=env, xlabel="environment steps", ylabel="mean return")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,g}")
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small", frameon=False)
    PICTURES.mkdir(parents=True, exist_ok=True)
    # The same figures give the same file, to the byte.
    with mpl.rc_context({"svg.hashsalt": "maze", "svg.fonttype": "none"}):
        figure.savefig(PICTURES / f"{env}.svg", metadata={"Date": None})


def line(axes: Axes, runs: list[Points], label: str, colour: str, style: str) -> None:
    """Draw the curves of one row, at the steps of the first run as far as all of them go."""
    tables = [np.array(run, float) for run in runs]
    end = min(table[-1, 0] for table in tables)
    steps = tables[0][tables[0][:, 0] <= end, 0]
    returns = np.array([np.interp(steps, table[:, 0], table[:, 1]) for table in tables])
    axes.fill_between(steps, returns.min(0), returns.max(0), color=colour, alpha=0.2, linewidth=0)
    axes.plot(steps, np.median(returns, 0), style, color=colour, label=label)
