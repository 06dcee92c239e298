"""Does a trained policy cut better than best fit? Trains every form of cutting_2d with several seeds.

    python benchmarks/cutting.py                          all forms, 5 seeds
    python benchmarks/cutting.py --only masked --seeds 2

Each seed is one `maze train ppo` process with the preset `cutting`, or `cutting-structured`. Its score is the
deterministic return of the parameters the run ended with, over 200 episodes: no best checkpoint, no maximum over the
training. Best fit plays the same episodes. Seeds that docs/benchmarks/cutting.json already has are not trained again;
--again trains them anew.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, get_args

import results
from command import maze
from maze_cutting_2d.config import CuttingConfig
from statistics_of_runs import mean_and_halfwidth

PAGE, EPISODES, TEST_SEED = "cutting", 200, 1000
FORMS: tuple[str, ...] = get_args(CuttingConfig.model_fields["form"].annotation)
SOURCE = ("--env-source", "cutting_2d")
CURVE = (0.25, 0.5, 0.75, 1.0)
"""Shares of the training after which the page shows the mean evaluation."""
HEADERS = ["form", "steps", "best fit", "PPO, mean (95 % CI)", "fewer sheets", "gate", "scores by seed", "curve"]
INTRODUCTION = f"""
# Cutting

PPO with the preset `cutting` (or `cutting-structured`, for as many orders) on each form of
[cutting_2d](../environments/cutting.md), and the heuristic `cutting_best_fit`. Scores are mean returns of {EPISODES}
episodes, the same ones for all: minus the number of sheets used for 60 orders. PPO's is the deterministic return of the
parameters a run ended with: no best checkpoint, no maximum over the training. The mean over the seeds is shown with its
95 % confidence interval (Student's t). The gate, for forms with masks, is that it is above best fit; without masks the
same training must also learn what is possible at all. The curve has the mean evaluation over the seeds after a quarter,
a half, three quarters and all of the training; these are other episodes.

Made by `python benchmarks/cutting.py`; the figures of every run are in `cutting.json`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=FORMS, help="train this form only")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each form, with seeds 1, 2, … (default 5)")
    parser.add_argument("--again", action="store_true", help="train also what has been measured")
    parser.add_argument("--runs", type=Path, default=Path("runs/cutting"), help="where the run directories go")
    options = parser.parse_args()
    folder, missed = options.runs / time.strftime("%Y%m%d-%H%M%S"), 0
    rows = results.load(PAGE)
    for form in options.only or FORMS:
        known = [] if options.again else rows.get(form, {}).get("runs", [])
        for seed in range(1, options.seeds + 1):
            if all(run["seed"] != seed for run in known):
                known = sorted([*known, train(form, seed, folder / form / f"s{seed}")], key=lambda run: run["seed"])
                rows = results.merge(PAGE, form, {"best_fit": best_fit(form), "runs": known})
                results.write_page(PAGE, INTRODUCTION, HEADERS, cells_of(rows), rows)
        missed += is_gated(form) and not passes(rows[form])
    results.show("Cutting", HEADERS, cells_of(rows))
    return 1 if missed else 0


def train(form: str, seed: int, run_dir: Path) -> dict[str, Any]:
    """Train one seed and test it."""
    preset = "cutting-structured" if form.startswith("structured") else "cutting"
    options = ["--preset", preset, "--set", f"env.form={form}", "--seed", str(seed), "--run-dir", str(run_dir)]
    maze("train", "ppo", *SOURCE, *options)
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    epochs = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    result = {
        "seed": seed,
        "score": play(str(run_dir), "--checkpoint", "last", "--deterministic"),
        "curve": [[epoch["env_steps"], epoch["eval/return_mean"]] for epoch in epochs if "eval/return_mean" in epoch],
        **{name: summary[name] for name in ("env_steps", "updates", "seconds", "outcome", "reason")},
    }
    print(f"{form}  seed {seed}  {result['score']:.2f}  in {result['seconds']:.0f} s", flush=True)
    return result


def best_fit(form: str) -> float:
    """The heuristic's mean return over the test episodes."""
    # In the structured forms the same choices give the same episodes; the heuristic takes both choices at once.
    whole = "masked" if is_gated(form) else "flat"
    return play("--policy", "cutting_best_fit", *SOURCE, "--set", f"env.form={whole}")


def play(*what: str) -> float:
    """The mean return over the test episodes."""
    played = maze("rollout", *what, "--episodes", str(EPISODES), "--seed", str(TEST_SEED), "--json")
    return float(json.loads(played)["return_mean"])


def is_gated(form: str) -> bool:
    """Whether a form must beat best fit: those with masks."""
    return form.endswith("masked")


def passes(result: dict[str, Any]) -> bool:
    """Whether the seeds' mean is above best fit's."""
    return statistics.fmean(run["score"] for run in result["runs"]) > result["best_fit"]


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table, forms in their order."""
    return [line_of(form, rows[form]) for form in FORMS if form in rows]


def line_of(form: str, result: dict[str, Any]) -> list[str]:
    """The table line of one form."""
    scores = [run["score"] for run in result["runs"]]
    mean, halfwidth = mean_and_halfwidth(scores)
    return [
        form,
        f"{result['runs'][0]['env_steps']:,}",
        f"{result['best_fit']:.2f}",
        f"{mean:.2f}" + (f" ± {halfwidth:.2f}" if len(scores) > 1 else ""),
        f"{1 - mean / result['best_fit']:.1%}",
        f"above best fit: {'met' if passes(result) else 'missed'}" if is_gated(form) else "none",
        ", ".join(f"{score:.2f}" for score in scores),
        ", ".join(f"{point:.2f}" for point in curve_of(result)),
    ]


def curve_of(result: dict[str, Any]) -> list[float]:
    """The mean evaluation over the seeds at each share of CURVE."""
    columns = [[run["curve"][round(share * len(run["curve"])) - 1][1] for run in result["runs"]] for share in CURVE]
    return [statistics.fmean(column) for column in columns]


if __name__ == "__main__":
    sys.exit(main())
