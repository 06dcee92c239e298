"""Does it learn? Trains each row with several seeds and compares the final evaluations with a gate.

    python benchmarks/learning.py                           all rows, with all seeds of their gates
    python benchmarks/learning.py --only ppo-CartPole-v1 --seeds 2 --jobs 1
    python benchmarks/learning.py --again                   also the seeds that are finished

Every seed is one `maze train` process. Its score is the deterministic evaluation of the parameters it ended with: no
best checkpoint, no maximum over the training. A finished seed is written to docs/benchmarks/learning.json at once, and
is not trained again as long as its row stays the same, so a table can be continued where it stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import curves
import published
import results
from command import MAZE, one_thread
from learning_rows import ROWS, Row
from matches import against
from statistics_of_runs import middle_half, number, with_interval

PAGE = "learning"
INTRODUCTION = """
# Learning

What each algorithm reaches with the preset that ships, over several seeds: curves, [scores](#scores), and
[beside published scores](#beside-published-scores) of others. Made by `python benchmarks/learning.py`; the figures of
every run are in `learning.json`, its evaluations in `learning_curves.json`.

## Curves

The median over the seeds of the deterministic evaluations during training, and the band from the least to the best
seed. Rows that were measured before curves were kept have none.
"""
SCORES = """
## Scores

A score is the deterministic evaluation of the parameters a run ended with: no best checkpoint, no maximum over the
training. Where environments have goals, it is the share of successful episodes in per cent; in games of two the share
of 200 games against a random opponent that are won (connect_four) or not lost (tictactoe). The mean has its 95 %
confidence interval (Student's t), the mean of the middle half (IQM) that of the bootstrap, as in
[Agarwal et al. 2021](https://arxiv.org/abs/2108.13264); with so few seeds both say little. The gate is on the mean.
"""
DETAILS = """
Seconds and environment steps per second are those of a whole run, evaluations and logs counted, with the given number
of runs side by side. Some long runs shared the machine with other work, or were paused: to compare speed, see
[Speed](speed.md).
"""
HEADERS = ["row", "steps", "mean return (95 % CI)", "IQM (95 % CI)", "gate"]
SEED_HEADERS = ["row", "scores by seed", "seconds", "env steps/s", "side by side"]
PUBLISHED_HEADERS = ["row", "steps", "maze", "published", "steps", "of", "by", "protocol"]


def main() -> int:
    options = parse_options()
    chosen = [row for row in ROWS if not options.only or row.name in options.only]
    missed = sum(not passes(measure(row, options)) for row in chosen)
    results.show("Learning", HEADERS, cells_of(results.load(PAGE)))
    return 1 if missed else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[row.name for row in ROWS], help="train this row only")
    parser.add_argument("--seeds", type=int, help="runs of each row, with seeds 1, 2, … (default: as many as its gate)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side (default 2)")
    parser.add_argument("--again", action="store_true", help="train finished seeds again")
    parser.add_argument("--runs", type=Path, default=Path("runs/learning"), help="where the run directories go")
    return parser.parse_args()


def measure(row: Row, options: argparse.Namespace) -> dict[str, Any]:
    """Train the seeds of a row that are not finished; each is written down at once."""
    known = results.load(PAGE).get(row.name, {})
    same = all(known.get(name, []) == value for name, value in row.facts.items()) and not options.again
    finished = {run["seed"]: run for run in known.get("runs", []) if same and run["score"] is not None}
    missing = [seed for seed in range(1, (options.seeds or row.seeds) + 1) if seed not in finished]
    folder = options.runs / row.name / time.strftime("%Y%m%d-%H%M%S")
    side_by_side = max(min(options.jobs, len(missing)), 1) if missing else known.get("side_by_side", 1)
    facts = {**row.facts, "gate": row.gate, "of": row.of, "side_by_side": side_by_side}

    def written() -> dict[str, Any]:
        result = {**facts, "runs": [finished[seed] for seed in sorted(finished)]}
        write_page(results.merge(PAGE, row.name, result))
        return result

    pool = ThreadPoolExecutor(options.jobs)
    try:
        waiting = [pool.submit(train, row, seed, folder / f"s{seed}") for seed in missing]
        for done in as_completed(waiting):
            run = done.result()
            finished[run["seed"]] = run
            if run["score"] is not None and not row.is_game:
                curves.keep(row.name, run["seed"], curves.evaluations(folder / f"s{run['seed']}"))
            written()
    finally:
        # Ctrl-C: without this the pool would first train the seeds that wait.
        pool.shutdown(cancel_futures=True)
    return written()


def train(row: Row, seed: int, run_dir: Path) -> dict[str, Any]:
    """Train one seed in a process of its own; a run that fails has the score None and says why on the screen."""
    command = [str(MAZE), "train", row.algorithm, "--env", row.env, "--steps", str(row.steps), "--seed", str(seed)]
    command += ["--run-dir", str(run_dir), *(["--preset", row.preset] if row.preset else []), *row.settings]
    finished = subprocess.run(command, capture_output=True, text=True, env=one_thread(), check=False)
    if finished.returncode:
        print(f"{' '.join(command)} failed:\n{finished.stdout[-2000:]}\n{finished.stderr[-2000:]}", flush=True)
        return {"seed": seed, "score": None, "exit_code": finished.returncode}
    summary = json.loads((run_dir / "run.json").read_text())["summary"]
    figures = against(run_dir) if row.is_game else summary["final_evaluation"]
    result = {
        "seed": seed,
        "score": figures[row.metric] / row.unit,
        "episodes": figures["eval/episodes"],
        **{name: summary[name] for name in ("env_steps", "updates", "seconds", "outcome", "reason")},
    }
    print(f"{row.name}  seed {seed}  {result['score']:.1f}  in {result['seconds']:.0f} s", flush=True)
    return result


def scores(result: dict[str, Any]) -> list[float]:
    return [run["score"] for run in result["runs"] if run["score"] is not None]


def passes(result: dict[str, Any]) -> bool:
    """Whether every seed finished and their mean reaches the gate."""
    found = scores(result)
    return len(found) == len(result["runs"]) > 0 and statistics.fmean(found) >= least(result)


def least(result: dict[str, Any]) -> float:
    """The mean that meets the gate: any where there is none, and none before the row that it multiplies is measured."""
    gate, of = result["gate"], result.get("of")
    if gate is None:
        return -math.inf
    if of is None:
        return float(gate)
    other = scores(results.load(PAGE).get(of, {"runs": []}))
    return gate * statistics.fmean(other) if other else math.inf


def verdict(name: str, result: dict[str, Any]) -> str:
    """The gate, and whether it is met, or how many of the runs are done on whose means it is."""
    if result["gate"] is None:
        return "none"
    of = result.get("of")
    gate = f"≥ {result['gate']:,g}" + (f" times {of}" if of else "")
    measured = {name: result, **({of: results.load(PAGE).get(of, {"runs": []})} if of else {})}
    for each, found in measured.items():
        wanted, done = next((row.seeds for row in ROWS if row.name == each), 1), len(found["runs"])
        if done < wanted:
            return f"{gate}: open, {done} of {wanted} seeds" + (f" of {each}" if each != name else "")
    return f"{gate}: {'met' if passes(result) else 'missed'}"


def write_page(rows: dict[str, Any]) -> None:
    """Write the page of all rows measured so far: curves, scores, and folded away what belongs to single seeds."""
    ordered = in_order(rows)
    pictures = curves.pictures(rows, {row.name: row.env for row in ROWS})
    by_seed = results.table(SEED_HEADERS, [seeds_of(name, rows[name]) for name in ordered])
    others = [beside(name, rows[name], other) for name, other in published.SCORES.items() if name in rows]
    where = results.where_and_when({name: rows[name] for name in ordered})
    parts = [
        *(INTRODUCTION, *pictures, SCORES, results.table(HEADERS, cells_of(rows))),
        results.folded("Scores by seed, seconds, speed", f"{DETAILS.strip()}\n\n{by_seed}"),
        *("## Beside published scores", results.table(PUBLISHED_HEADERS, others)),
        results.folded("Where and when each row was measured", where),
    ]
    results.write(PAGE, parts)


def beside(name: str, result: dict[str, Any], other: published.Score) -> list[str]:
    """The table line of a row with somebody else's score."""
    ours = [name, f"{result['steps']:,}", with_interval(scores(result))]
    theirs = [number(other.mean), f"{other.steps:,}", f"{other.algorithm}, {other.env}", other.by, other.protocol]
    return ours + theirs


def in_order(rows: dict[str, Any]) -> list[str]:
    """The rows measured so far in the order of ROWS."""
    known = [row.name for row in ROWS]
    return sorted(rows, key=lambda name: known.index(name) if name in known else len(known))


def cells_of(rows: dict[str, Any]) -> results.Cells:
    """The table of all rows measured so far."""
    return [line_of(name, rows[name]) for name in in_order(rows)]


def line_of(name: str, result: dict[str, Any]) -> list[str]:
    """The table line of one row."""
    found = scores(result)
    return [name, f"{result['steps']:,}", with_interval(found), middle_half(found), verdict(name, result)]


def seeds_of(name: str, result: dict[str, Any]) -> list[str]:
    """The line of one row in the table of its seeds."""
    done = [run for run in result["runs"] if run["score"] is not None]
    seconds = statistics.fmean(run["seconds"] for run in done) if done else math.nan
    rate = statistics.fmean(run["env_steps"] / run["seconds"] for run in done) if done else math.nan
    single = ", ".join("failed" if run["score"] is None else number(run["score"]) for run in result["runs"])
    return [name, single, f"{seconds:,.0f}", f"{rate:,.0f}", str(result["side_by_side"])]


if __name__ == "__main__":
    sys.exit(main())
