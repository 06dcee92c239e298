"""Kills right before an operation on files, twice in a row; then the run is resumed to its end.

What is left must be, in all its parts, the run that was never killed. A kill before the first checkpoint stands must be
answered by a plain word to begin anew.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from pathlib import Path

from tests.attack.children import Ending, in_child, maze
from tests.attack.operations import Operations
from tests.attack.oracle import error_of, problems_of
from tests.attack.runs import DEMOS, RECORDED, RUN, Plan
from tests.attack.verdict import Verdict
from tests.attack.whole import Parts, differences, whole

RESUME: list[object] = ["resume", RUN]
_ANEW = re.compile(r"(?i)maze train|train again|new run")
_SWAP = re.compile(rf"(rename|rmdir).* '{RUN}/checkpoints/[^/]+'$")
THOROUGH = ("ppo",)
_EARLY = 16
"""Operations of a resumed run among which half of the second kills lie: where it tidies up."""


class Kills:
    """Kills of one plan. Case `K` kills before operation K, and a second time where chance says; `K-J` before J."""

    def __init__(self, plan: Plan, scratch: Path, seed: int = 1) -> None:
        """Train the run that is never killed, in `scratch`."""
        self.plan, self._scratch, self._seed = plan, scratch, seed
        self._base = scratch / "base"
        self._base.mkdir(parents=True)
        if plan.needs_demos:
            _expect(in_child(maze(RECORDED), self._base, scratch))
        world = self._new_world("whole")
        _expect(self._killed_at(world, plan.train(), None, torn=False))
        self.operations = (scratch / "journal").read_text().splitlines()
        self._expected, problems = self._judged(world)
        if problems:
            raise RuntimeError(f"the run that was never killed: {problems}")
        shutil.rmtree(world)
        self._swaps = [n for n, each in enumerate(self.operations, 1) if _SWAP.search(each)]
        """Where a checkpoint takes the place of another."""
        self._first = next(n for n in self._swaps if self.operations[n - 1].endswith(f"to '{RUN}/checkpoints/last'"))
        """The operation that puts the first checkpoint where it belongs."""

    def names(self, count: int) -> list[str]:
        """Every operation, or the first so many; for one plan also every second kill behind one within a swap."""
        names = [str(first) for first in range(1, len(self.operations) + 1)]
        if self.plan.name in THOROUGH:
            names += [f"{first}-{second}" for first in self._swaps for second in range(1, self._left(first))]
        return names[:count]

    def _left(self, first: int) -> int:
        """About the operations of a run that is resumed after a kill."""
        return len(self.operations) - first + 20

    def try_(self, name: str) -> Verdict:
        """Kill, kill again, resume, compare."""
        first, _, second_wanted = name.partition("-")
        return self._tried(name, int(first), int(second_wanted or 0))

    def _tried(self, name: str, first: int, second: int) -> Verdict:
        chance = random.Random(f"{self._seed} {self.plan.name} {name}")
        drawn = chance.randint(1, _EARLY if chance.random() < 0.5 else self._left(first))
        second = second or drawn
        torn = chance.random() < 0.5
        verdict = Verdict(f"kills/{self.plan.name}/{name}", f"kills: {self.plan.name}")
        what = self.operations[first - 1] if first <= len(self.operations) else "the end"
        verdict.what = f"killed before operation {first} ({what}){', torn' if torn else ''}"
        world = self._new_world("world")
        ending = self._killed_at(world, self.plan.train(), first, torn)
        if ending.killed:
            ending = self._killed_at(world, RESUME, second, torn)
            if ending.killed:
                last = (self._scratch / "journal").read_text().splitlines()[-1]
                verdict.what += f", then resumed and killed before operation {second} ({last})"
                ending = in_child(maze(RESUME), world, self._scratch)
        verdict.problems = self._problems(world, ending, first)
        return verdict

    def _problems(self, world: Path, ending: Ending, first: int) -> list[str]:
        found = problems_of(ending)
        if found or ending.code == 2:
            if found:
                return found
            if "is finished" in ending.err:
                return self._judged(world)[1]
            if first > self._first:
                return [f"a checkpoint was there, but resume says: {error_of(ending)}"]
            begun = (world / RUN).is_dir() and any((world / RUN).iterdir())
            if begun and not _ANEW.search(ending.err):
                return [f"it does not say that the run must begin anew: {error_of(ending)}"]
            return self._told_in_a_circle(world)
        return self._judged(world)[1]

    def _told_in_a_circle(self, world: Path) -> list[str]:
        """Whether who begins anew in the same folder is sent back to `resume`, which had refused."""
        again = in_child(maze(self.plan.train()), world, self._scratch)
        found = problems_of(again)
        if again.code and "maze resume" in again.err:
            found.append(f"resume says to begin anew, and train says to resume: {error_of(again)}")
        return found

    def _killed_at(self, world: Path, command: list[object], number: int | None, torn: bool) -> Ending:
        run = maze(command)
        journal = self._scratch / "journal"

        def action() -> int:
            Operations(world, journal, number, torn).watch()
            return run()

        return in_child(action, world, self._scratch)

    def _judged(self, world: Path) -> tuple[Parts, list[str]]:
        """The whole of a run, and how it differs from the one that was never killed. Read in a child."""
        expected = getattr(self, "_expected", None)

        def action() -> int:
            parts = whole(world)
            print(json.dumps([parts, differences(expected, parts) if expected is not None else []]))
            return 0

        ending = in_child(action, world, self._scratch)
        if ending.code:
            return {}, [f"what it left cannot be read: {ending.err.splitlines()[-1][:200]}"]
        parts, wrong = json.loads(ending.out.splitlines()[-1])
        return parts, wrong

    def _new_world(self, name: str) -> Path:
        world = self._scratch / name
        shutil.rmtree(world, ignore_errors=True)
        world.mkdir()
        if (self._base / DEMOS).exists():
            shutil.copytree(self._base / DEMOS, world / DEMOS)
        return world


def _expect(ending: Ending) -> None:
    if ending.code:
        print(ending.out, ending.err, file=sys.stderr)
        raise RuntimeError(f"a healthy run ended with {ending.code}")
