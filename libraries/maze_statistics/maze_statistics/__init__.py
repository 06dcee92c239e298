"""Results over tasks and seeds, as Agarwal et al. 2021 (arXiv 2108.13264) recommend them; needs numpy alone."""

from maze_statistics.aggregates import Aggregate, aggregate, improvements, profiles, sample_efficiency
from maze_statistics.bootstrap import Band, Estimate
from maze_statistics.csv_files import read_csv, write_csv
from maze_statistics.errors import ScoresError
from maze_statistics.points import interquartile_mean, mean, median, optimality_gap, probability_of_improvement
from maze_statistics.reference_scores import (
    BUNDLED,
    Reference,
    bundled,
    normalise,
    normalise_runs,
    parse_references,
    spans,
)
from maze_statistics.runs import Run, final_scores

__all__ = [
    "BUNDLED",
    "Aggregate",
    "Band",
    "Estimate",
    "Reference",
    "Run",
    "ScoresError",
    "aggregate",
    "bundled",
    "final_scores",
    "improvements",
    "interquartile_mean",
    "mean",
    "median",
    "normalise",
    "normalise_runs",
    "optimality_gap",
    "parse_references",
    "probability_of_improvement",
    "profiles",
    "read_csv",
    "sample_efficiency",
    "spans",
    "write_csv",
]
