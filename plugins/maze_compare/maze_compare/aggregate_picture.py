"""Draws an experiment with matplotlib: intervals of the aggregates, performance profiles, sample-efficiency curves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maze_compare.aggregate_output import scale
from maze_compare.experiment import Experiment, Findings
from maze_compare.picture import COLOURS, DASHES, brief, new_figure, picture_text, save_figure
from maze_core.base.foreign_settings import refuse_settings_here

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure
    from maze_statistics import Band

PARTS = ("intervals", "profiles", "curves")


def draw_findings(of: Experiment, found: Findings, parts: Sequence[str], out: Path) -> None:
    """Write a picture of the parts, one below the other, in the format of the file's extension.

    Raises:
        ConfigError: matplotlib is missing or would read settings here, or the file cannot be written.
    """
    if "matplotlib" not in sys.modules:
        refuse_settings_here("matplotlib", ["matplotlibrc"])
    names = list(found.aggregates)
    tall = {"intervals": 0.8 + 0.35 * len(names), "profiles": 3.6, "curves": 3.6}
    heights = [tall[part] for part in parts]
    figure = new_figure((8.0, sum(heights) + 0.5))
    from matplotlib import rc_context

    drawing: dict[str, Callable[[SubFigure, Experiment, Findings], None]] = {
        "intervals": _intervals, "profiles": _profiles, "curves": _curves,
    }  # fmt: skip
    with rc_context({"text.usetex": False, "svg.hashsalt": "maze"}):
        panels = figure.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0]
        for part, panel in zip(parts, panels, strict=True):
            drawing[part](panel, of, found)
        save_figure(figure, out, "--picture")


def _intervals(panel: SubFigure, of: Experiment, found: Findings) -> None:
    """A column for each aggregate, a bar from end to end of its interval for each algorithm."""
    columns = {"IQM": "iqm", "median": "median", "mean": "mean"}
    columns |= {"optimality gap (lower is better)": "optimality_gap"} if of.references else {}
    rows = panel.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    names = list(found.aggregates)
    for axes, (title, field) in zip(rows, columns.items(), strict=True):
        for place, name in enumerate(names):
            each = getattr(found.aggregates[name], field)
            style: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)]}
            axes.barh(place, max(each.high - each.low, 0.0), left=each.low, height=0.6, alpha=0.4, **style)
            axes.plot([each.value] * 2, [place - 0.3, place + 0.3], linewidth=2.0, **style)
        axes.use_sticky_edges = False  # else bars end at the edge
        axes.set_title(title, fontsize="small")
        axes.set_yticks(range(len(names)), [picture_text(name) for name in names])
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.tick_params(labelsize="small")
        axes.locator_params(axis="x", nbins=4)
        axes.grid(axis="x", alpha=0.25)
        axes.spines[["top", "right", "left"]].set_visible(False)


def _profiles(panel: SubFigure, of: Experiment, found: Findings) -> None:
    axes = panel.subplots()
    _bands(axes, found.profiles, list(found.aggregates))
    axes.set(xlabel=_score(of), ylabel="share of runs above it", ylim=(-0.02, 1.02))


def _curves(panel: SubFigure, of: Experiment, found: Findings) -> None:
    axes = panel.subplots()
    _bands(axes, found.curves, list(found.aggregates))
    axes.set(xlabel="share of each task's steps" if found.share else "environment steps", ylabel=f"IQM, {_score(of)}")
    if not found.share:
        axes.xaxis.set_major_formatter(lambda value, _: brief(value))


def _bands(axes: Axes, bands: Mapping[str, Band], names: Sequence[str]) -> None:
    for place, name in enumerate(names):
        if name in bands:
            band, colour = bands[name], COLOURS[place % len(COLOURS)]
            dashes = DASHES[place // len(COLOURS) % len(DASHES)]
            marker = "o" if band.x.size == 1 else ""
            axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(
                band.x,
                band.value,
                color=colour,
                linestyle=dashes,
                linewidth=1.8,
                marker=marker,
                label=picture_text(name),
            )
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", ncols=1 + len(names) // 9)


def _score(of: Experiment) -> str:
    """Return the title of the scale."""
    return "normalised score" if scale(of) else picture_text(of.metric)
