"""Does it hold? Kills runs at every operation on files, damages files, plants links, gives wrong configurations.

    python benchmarks/attack.py                                 all kinds: every kill, and 10,000 other cases
    python benchmarks/attack.py --only kills --jobs 4
    python benchmarks/attack.py --again                         once more those that did not hold

It goes on where it stopped: each verdict is a line of runs/attack/seed-N.jsonl, and a case in it is not tried again. A
case is decided by its name and the seed; `python -m tests.attack --seed N NAME` tries one alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import results
from command import one_thread

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # where the cases are made

from tests.attack.catalog import KINDS  # noqa: E402

PAGE, SHOWN = "attack", 20
HEADERS = ["attack", "cases", "held", "did not hold"]
INTRODUCTION = """
# Attack

What Maze is put through, and how much of it holds. A case is one command or a few, and what they must lead to:

- **Kills**: a run of two epochs is killed (SIGKILL) right before one of its file operations, each in turn:
  opening, writing (or in the middle of it), flushing, renaming, removing, making a folder. It is resumed, killed again
  at another operation, and resumed to the end. It holds where what is left equals the run that was never killed:
  parameters, optimizer and replay data, `metrics.jsonl`, the curves as TensorBoard's own reader shows them, `run.json`,
  and the recordings of the wrapper `record` in the rows that say so. Before the first checkpoint exists, it holds where
  `maze resume` says plainly that the run must start again, and starting again is not refused.
- **Damaged files**: one file of a run or a recording is cut, flipped, emptied, swapped, given other values, deep
  nesting or alias bombs. It holds where a command gives the same results as without the damage, names the file in a
  warning, or ends with one clear error and exit code 2.
- **Altered checkpoints**: one value of a checkpoint is another one, with fitting checksums: null, a list, a text, a
  negative or an enormous count, an array of another shape or type, or it is missing; of sixteen kinds of runs. It holds
  where `maze resume` and `maze eval` refuse it with one clear error, or go on.
- **Settings of other libraries**: the current folder is full of those of wandb, git, MLflow, matplotlib and others, and
  of programs with the names of those that libraries start. None may be read, and nothing outside may change.
- **Links, pipes, devices**: they stand at names that a command reads or writes. Nothing outside the run may change.
- **Names and texts of a stranger's**: escape sequences, newlines and endless words; none may reach the terminal raw.
- **Open doors**: recordings to other folders, distributions and modules in the current folder, foreign clusters,
  environments that exit, functions in place of environments. Nothing may be written elsewhere or executed.
- **Shared**: addresses that lead elsewhere; policies of which a file, the manifest or the archive is another one, most
  with fitting checksums; cards with texts of a stranger's; CSV files; reports, as HTML, Markdown and LaTeX, of runs and
  tables whose names are scripts, commands of TeX and formulas of spreadsheets. Nothing may be executed, be written
  elsewhere, or be markup in what Maze writes.
- **Wrong configurations**: wrong values for each field of each bundled plugin, alone and in pairs, and damaged files.
- **Spaces**: environments whose spaces are wrong, odd or enormous.

In all of them no command may hang, end in a traceback or leave a process behind.

Made by `python benchmarks/attack.py`; what did not hold is in `attack.json`, with what repeats it.
"""

_lock = threading.Lock()


def main() -> int:
    options = parse_options()
    options.runs.mkdir(parents=True, exist_ok=True)
    log = options.runs / f"seed-{options.seed}.jsonl"
    if options.again and log.exists():
        forget_failures(log, options.only or list(KINDS))
    parts = [
        (f"{kind}/{subject}", 0 if KINDS[kind].share == 0 else KINDS[kind].count(options.cases))
        for kind in options.only or KINDS
        for subject in KINDS[kind].subjects
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            list(pool.map(lambda part: attack(*part, options.seed, log), parts))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    rows = publish(log, options.seed)
    results.show("Attack", HEADERS, [line_of(*item) for item in rows.items()])
    return 1 if any(row["failures"] for row in rows.values()) else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(KINDS), help="this kind alone; repeatable")
    parser.add_argument("--cases", type=int, default=10_000, help="cases beside the kills (default 10,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="processes side by side (default 2)")
    parser.add_argument("--again", action="store_true", help="try again what did not hold")
    parser.add_argument("--runs", type=Path, default=Path("runs/attack"), help="where verdicts are kept")
    return parser.parse_args()


def attack(part: str, count: int, seed: int, log: Path) -> None:
    """Try the cases of a kind and subject that have no verdict yet."""
    options = ["--json", "--seed", str(seed), "--skip", str(log.resolve()), f"{part}={count}"]
    command = [sys.executable, "-m", "tests.attack", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=one_thread()) as process:
        assert process.stdout is not None
        for line in process.stdout:
            with _lock, log.open("a") as file:
                file.write(line)
            verdict = json.loads(line)
            if not verdict["held"]:
                print(f"{verdict['case']}: {verdict['what']}\n    {verdict['problems'][0][:300]}", flush=True)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
    print(f"{part} is done", flush=True)


def forget_failures(log: Path, kinds: list[str]) -> None:
    """Take the verdicts of what did not hold out of the file."""
    lines = log.read_text().splitlines(keepends=True)
    kept = [line for line in lines if _kept(json.loads(line), kinds)]
    log.write_text("".join(kept))


def _kept(verdict: dict[str, Any], kinds: list[str]) -> bool:
    return verdict["held"] or verdict["case"].split("/")[0] not in kinds


def publish(log: Path, seed: int) -> dict[str, Any]:
    """Merge the verdicts of this seed into the page, a row for each kind; returns all rows."""
    found = defaultdict(list)
    for line in log.read_text().splitlines():
        verdict = json.loads(line)
        found[verdict["kind"]].append(verdict)
    for kind, verdicts in found.items():
        failed = [verdict for verdict in verdicts if not verdict["held"]]
        shown = [
            {
                "what": verdict["what"],
                "problems": [problem[:500] for problem in verdict["problems"]],
                "repeat": f"python -m tests.attack --seed {seed} '{verdict['case']}'",
            }
            for verdict in failed[:SHOWN]
        ]
        row = {"seed": seed, "cases": len(verdicts), "held": len(verdicts) - len(failed), "failures": shown}
        results.merge(PAGE, kind, row)
    return write_page()


def write_page() -> dict[str, Any]:
    """Write the page of all verdicts that were published; returns its rows."""
    rows = dict(sorted(results.load(PAGE).items()))
    results.write_page(PAGE, INTRODUCTION, HEADERS, [line_of(*item) for item in rows.items()], rows)
    return rows


def line_of(kind: str, row: dict[str, Any]) -> list[str]:
    return [kind, f"{row['cases']:,}", f"{row['held']:,}", f"{row['cases'] - row['held']:,}"]


if __name__ == "__main__":
    sys.exit(main())
