"""Draws curves with matplotlib."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from maze_compare.curves import Axis, Curve
from maze_core import ConfigError
from maze_core.base.foreign_settings import refuse_settings_here
from maze_core.base.terminal_text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AXES: dict[Axis, str] = {
    "env_steps": "environment steps",
    "seconds": "seconds of training",
    "updates": "updates",
    "epoch": "epochs",
}
# Okabe and Ito's colours, which colour-blind readers can distinguish; dashes distinguish further curves.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", ":", "-.")
_LONGEST = 120
"""Most characters of a text in the picture; a longer one leaves no room for curves and takes minutes."""
_IN_PICTURE = 8
"""Most labels inside the axes; more are placed next to them."""


def draw(
    curves: Sequence[Curve],
    metric: str,
    axis: Axis,
    out: Path,
    title: str = "",
    scores: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Write a picture of the curves, in the format of the file's extension, with a horizontal line for each score.

    Raises:
        ConfigError: matplotlib is missing or would read settings here, or the file cannot be written.
    """
    if "matplotlib" not in sys.modules:
        refuse_settings_here("matplotlib", ["matplotlibrc"])
    figure = new_figure((8.0 if len(curves) + len(scores) <= _IN_PICTURE else 11.0, 5.0))
    from matplotlib import rc_context

    curves = [replace(curve, label=picture_text(curve.label)) for curve in curves]
    # With this setting programs of TeX are run on names that may come from others.
    with rc_context({"text.usetex": False}):
        axes = _compose(figure, curves, picture_text(metric), axis, picture_text(title))
        for index, (label, score) in enumerate(scores.items()):
            style: dict[str, Any] = {"color": "0.35", "linestyle": DASHES[1 + index % 3], "linewidth": 1.2}
            axes.axhline(score, label=picture_text(label), **style)
        _add_legend(axes, len(curves) + len(scores))
        save_figure(figure, out)


def _compose(figure: Figure, curves: Sequence[Curve], metric: str, axis: Axis, title: str) -> Axes:
    axes = figure.add_subplot()
    for index, curve in enumerate(curves):
        _draw_curve(axes, curve, COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)])
    axes.set(xlabel=_AXES[axis], ylabel=metric, title=title)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if axis != "epoch":
        axes.xaxis.set_major_formatter(lambda value, _: brief(value))
    return axes


def _add_legend(axes: Axes, count: int) -> None:
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    axes.legend(frameon=False, fontsize="small", **({} if count <= _IN_PICTURE else beside))


def save_figure(figure: Figure, out: Path, option: str = "--out") -> None:
    """Write a figure in the format of the file's extension; `option` names the file in the error."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot write {out}: {error}", option, "Next: a name such as curves.png") from None


def _draw_curve(axes: Axes, curve: Curve, colour: str, dashes: str) -> None:
    if len(curve.runs) > 1:
        for x, y in curve.runs:
            axes.plot(x, y, color=colour, linewidth=0.6, alpha=0.35)
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
    marker = "o" if curve.x.size == 1 else ""
    axes.plot(curve.x, curve.mean, color=colour, linestyle=dashes, linewidth=1.8, marker=marker, label=curve.label)


def new_figure(size: tuple[float, float]) -> Figure:
    """Return a figure of so many inches without a window and without pyplot's global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        hint = "Next: pip install matplotlib"
        raise ConfigError(f"pictures need matplotlib, which is not installed ({error})", hint=hint) from error
    return Figure(figsize=size, dpi=130, layout="constrained")


def picture_text(text: str) -> str:
    """Return a text as it is drawn: names of runs may come from anyone, and a dollar would begin a formula."""
    return printable(text, _LONGEST).replace("$", r"\$")


def brief(value: float) -> str:
    """Format a number as `40k` or `1.5M`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
