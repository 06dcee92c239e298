"""Do the fast tests notice a fault? Each mutant puts one into a copy of the tree; the tests of its room must fail.

python benchmarks/mutants.py                              all of them, one after the other (a quarter of an hour)
python benchmarks/mutants.py --only "tau is turned round"
python benchmarks/mutants.py --keep /tmp/tree             the copy stays, with the last mutant in it

Prints which test caught each mutant. Exit code 1: one survived, or the tests of a room fail without any.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from mutants_by_room import MUTANTS, ROOMS, Mutant

ROOT = Path(__file__).resolve().parent.parent
COPIED = (
    "maze_core",
    "libraries",
    "plugins",
    "tests",
    "examples",
    "docs",
    "README.md",
    "mkdocs.yml",
    "pyproject.toml",
    "Makefile",
)
LEFT_OUT = ("*.egg-info", "build", "dist", ".venv", "runs", ".hypothesis", ".pytest_cache")
PATIENCE = 300.0
"""Seconds after which the tests of a room hang, which is a way to fail."""
FAILED = 1
"""Pytest's exit code where tests failed, as opposed to tests that cannot be collected."""


def copy_tree(folder: Path) -> None:
    """Copy what tests need, without the metadata of installations: those installed lead to the copy's code."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
        elif source.exists():
            shutil.copy2(source, folder / name)


class Tree:
    """A copy of the tree, in which one mutant lives at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        copy_tree(folder)
        self._time = time.time()
        paths = [folder, *sorted(folder.glob("libraries/*")), *sorted(folder.glob("plugins/*"))]
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}

    def write(self, file: str, text: str) -> None:
        """Write a source file with a time of its own: compiled modules are told apart by whole seconds."""
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        self._time += 2
        os.utime(path, (self._time, self._time))

    def tests(self, room: str) -> tuple[int, str]:
        """Run the fast tests of a room until one fails; return pytest's exit code and its output."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", *ROOMS[room]]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            return FAILED, "FAILED they hang"
        return done.returncode, done.stdout + done.stderr

    def try_out(self, mutant: Mutant) -> tuple[int, str]:
        """Let a mutant live while the tests of its room run."""
        before = (self.folder / mutant.file).read_text(encoding="utf-8")
        self.write(mutant.file, mutant.applied(before))
        try:
            return self.tests(mutant.room)
        finally:
            self.write(mutant.file, before)


def catcher(output: str) -> str:
    """Return the test that failed first."""
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return found[1] if found else "?"


def check_rooms(tree: Tree, rooms: set[str]) -> list[str]:
    """Return the rooms whose tests fail without a mutant, and say why."""
    failing = []
    for room in sorted(rooms):
        code, output = tree.tests(room)
        if code:
            failing.append(room)
            print(f"without a mutant, the tests of {room} fail:\n{output[-2000:]}")
    return failing


def judge(tree: Tree, mutant: Mutant) -> bool:
    """Print what became of a mutant; return True where it was caught."""
    began = time.monotonic()
    code, output = tree.try_out(mutant)
    what = (
        f"caught by {catcher(output)}" if code == FAILED else "SURVIVED" if code == 0 else f"BROKEN\n{output[-2000:]}"
    )
    print(f"{mutant.room:10}  {mutant.name:55}  {time.monotonic() - began:4.0f} s  {what}", flush=True)
    return code == FAILED


def main() -> None:
    """Try out the mutants that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME", help="a mutant or a room; repeatable")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder for the copy, which stays")
    options = parser.parse_args()
    chosen = [each for each in MUTANTS if not options.only or {each.name, each.room} & set(options.only)]
    if not chosen:
        parser.error(f"no mutant has this name; the names are: {', '.join(each.name for each in MUTANTS)}")
    for each in chosen:
        each.applied((ROOT / each.file).read_text(encoding="utf-8"))  # refuse before anything runs
    with ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        tree = Tree(folder)
        failing = check_rooms(tree, {each.room for each in chosen})
        caught = [judge(tree, each) for each in chosen if each.room not in failing]
    print(f"{sum(caught)} of {len(chosen)} caught")
    sys.exit(sum(caught) < len(chosen))


if __name__ == "__main__":
    main()
