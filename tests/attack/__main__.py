"""Try cases by name, or some of each kind, and say which did not hold.

python -m tests.attack                                 ten cases of each kind and subject
python -m tests.attack --count 50 damaged kills/ppo=3
python -m tests.attack damaged/sac=varied              as few as meet each kind of file, damage and command once
python -m tests.attack kills/ppo/7                     one case again
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.attack.catalog import ALL, KINDS
from tests.attack.session import Session, as_line

VARIED = "varied"
NAMES = "KIND[=N], KIND/SUBJECT[=N], KIND/SUBJECT=varied or KIND/SUBJECT/CASE"


def main() -> int:
    options = parse_options()
    done = set(names_in(options.skip)) if options.skip else set()
    failed = tried = 0
    with Session(options.seed) as session:
        for name in cases(session, options.names, options.count, options.seed):
            if name in done:
                continue
            verdict = session.try_(name)
            tried += 1
            failed += not verdict["held"]
            if options.json:
                print(as_line(verdict), end="", flush=True)
            elif not verdict["held"]:
                print(f"{name} ({verdict['seconds']:.1f} s): {verdict['what']}", flush=True)
                print("\n".join(f"    {problem}" for problem in verdict["problems"]), flush=True)
    print(f"{tried - failed} of {tried} held", file=sys.stderr)
    return 1 if failed else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(KINDS), help=NAMES)
    parser.add_argument("--count", type=int, default=10, help="cases of each subject; 0: all (default 10)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each case")
    parser.add_argument("--skip", type=Path, help="file of such lines: leave out the cases in it")
    return parser.parse_args()


def names_in(path: Path) -> Iterator[str]:
    """The cases that a file holds verdicts of."""
    for line in path.read_text().splitlines() if path.exists() else ():
        yield json.loads(line)["case"]


def cases(session: Session, names: list[str], count: int, seed: int) -> Iterator[str]:
    """The names of cases: what is named in full, and a sample of the rest."""
    for asked in names:
        name, _, own = asked.partition("=")
        kind, _, rest = name.partition("/")
        subject, _, case = rest.partition("/")
        if case:
            yield asked
            continue
        if own == VARIED:
            yield from session.varied(kind, subject)
            continue
        wanted = int(own or count)
        for each in (subject,) if subject else KINDS[kind].subjects:
            # Kills come in the order of a run: a sample is drawn. The others come in a drawn order already.
            found = session.names(kind, each, ALL if kind == "kills" else wanted or ALL)
            drawn = kind == "kills" and 0 < wanted < len(found)
            yield from random.Random(seed).sample(found, wanted) if drawn else found


if __name__ == "__main__":
    sys.exit(main())
