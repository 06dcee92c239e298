"""Are the aggregates of maze-statistics those that papers print? From raw scores that the papers' authors publish.

    python benchmarks/aggregates.py IRIS/results/data DIAMOND/results/data

Each folder is one of a clone of the authors' repository: files of JSON, for each game the scores of its runs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import results
from maze_statistics import Aggregate, aggregate, bundled, normalise

PAGE = "aggregates"
STATISTICS = ("mean", "median", "iqm", "optimality_gap")
HEADERS = ["scores of", "printed in", "runs", "mean", "median", "IQM", "optimality gap"]


class Printed(NamedTuple):
    """What a paper prints of a method: mean, median, interquartile mean, optimality gap; None where it prints none."""

    paper: str
    figures: tuple[float | None, ...]


_IRIS, _DIAMOND = "[2209.00588](https://arxiv.org/abs/2209.00588)", "[2405.12399](https://arxiv.org/abs/2405.12399)"
PRINTED = {
    "SimPLe": Printed(_IRIS, (0.332, 0.134, 0.130, 0.729)),
    "DrQ(eps)": Printed(_IRIS, (0.465, 0.313, 0.280, 0.631)),
    "SPR": Printed(_IRIS, (0.616, 0.396, 0.337, 0.577)),
    "IRIS": Printed(_IRIS, (1.046, 0.289, 0.501, 0.512)),
    "DIAMOND": Printed(_DIAMOND, (1.459, None, 0.641, None)),
}
"""By the name of the file: table 1 of each paper, the 26 games of Atari 100k."""

INTRODUCTION = """
# Aggregates beside published ones

The authors of two papers publish the score of every run on the 26 games of Atari 100k, and print what these come to:
the mean and the median over the games, the interquartile mean (IQM) and the optimality gap. Here `maze-statistics`
computes them from the same scores, normalised by its own table `atari`. In brackets is what the paper prints, where it
prints it: all eighteen figures are the same in all of their digits.

Made by `python benchmarks/aggregates.py` from the files `results/data/*.json` of
[IRIS](https://github.com/eloialonso/iris) and [DIAMOND](https://github.com/eloialonso/diamond). `maze runs aggregate
--csv FILE --normalize atari` does the same for any CSV file
([runs of other programs](../guide/comparing.md#runs-of-other-programs)).
"""
INTERVALS = """
## Intervals

The 95 % interval of the IQM: 5,000 draws of the runs of each game, with replacement. The papers show theirs as bars,
without numbers.
"""


def main() -> None:
    """Compute, keep and publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders with NAME.json")
    options = parser.parse_args()
    for name in PRINTED:
        file = next((folder / f"{name}.json" for folder in options.folders if (folder / f"{name}.json").exists()), None)
        if file is None:
            parser.error(f"no folder has {name}.json")
        results.merge(PAGE, name, row(read(file)))
    rows = results.load(PAGE)
    if differing := [name for name in PRINTED if not same(rows[name], PRINTED[name].figures)]:
        parser.exit(1, f"printed otherwise: {', '.join(differing)}\n")
    cells = [line(name, rows[name]) for name in PRINTED]
    intervals = [[name, "{} ({} to {})".format(*(f"{each:.3f}" for each in rows[name]["iqm"]))] for name in PRINTED]
    results.show(PAGE, HEADERS, cells)
    sections = f"{INTERVALS}\n{results.table(['scores of', 'IQM'], intervals)}"
    results.write_page(PAGE, INTRODUCTION, HEADERS, cells, rows, sections)


def read(file: Path) -> dict[str, np.ndarray]:
    """Return the scores `[runs]` of each game."""
    return {game: np.ravel(scores).astype(float) for game, scores in json.loads(file.read_text()).items()}


def row(scores: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the aggregates of scores: of each the value and its interval."""
    found: Aggregate = aggregate(normalise({"it": scores}, bundled("atari", scores)))["it"]
    values = {name: getattr(found, name) for name in STATISTICS}
    figures = {name: [round(each, 6) for each in (of.value, of.low, of.high)] for name, of in values.items()}
    return {"games": found.tasks, "runs": found.runs, **figures}


def same(found: dict[str, Any], printed: tuple[float | None, ...]) -> bool:
    """Return True if all printed figures are those found, to their last digit."""
    pairs = zip(STATISTICS, printed, strict=True)
    return all(figure is None or f"{found[name][0]:.3f}" == f"{figure:.3f}" for name, figure in pairs)


def line(name: str, found: dict[str, Any]) -> list[str]:
    """Return a method's line of the table."""
    printed = PRINTED[name]
    cells = []
    for statistic, figure in zip(STATISTICS, printed.figures, strict=True):
        cells.append(f"{found[statistic][0]:.3f}" + ("" if figure is None else f" ({figure:.3f})"))
    return [name, printed.paper, f"{found['runs']:,}", *cells]


if __name__ == "__main__":
    main()
