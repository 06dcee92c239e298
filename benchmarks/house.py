"""How large the core is and how far a reader has to go: the measures of the house, from the code itself.

    python benchmarks/house.py             print the table
    python benchmarks/house.py --json      print it as JSON
    python benchmarks/house.py --write     write it into docs/architecture.md

The traced figures come from a run of PPO on CartPole-v1 with everything but the console switched off.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "maze_core"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- house: begin -->", "<!-- house: end -->"

_PRIVATE = re.compile(r"[\]A-Za-z0-9_)]\._[a-z]")
_OWN = re.compile(r"\b(self|cls)\._")


@dataclass(frozen=True)
class Measure:
    """One row of the table; `before` is the figure before libraries were taken out of the core, in commit 82df4ed."""

    name: str
    before: int
    aim: int
    value: int

    @property
    def met(self) -> bool:
        """Return True if the figure is no larger than the aim."""
        return self.value <= self.aim


@dataclass
class Trace:
    """What one run of PPO opened and called."""

    stack: set[str] = field(default_factory=set)
    """Files of the project on the stack when an environment was stepped or a gradient was taken."""
    hot: set[tuple[str, str]] = field(default_factory=set)
    """Files and qualified names of the functions of the project that were called in one update."""
    loaded: set[str] = field(default_factory=set)
    """Files of the core and of libraries that were imported."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, then print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="write the table into docs/architecture.md")
    parser.add_argument("--trace", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.trace:
        _print_trace(Path(options.trace))
        return
    measures = list(measured(traced()))
    if options.json:
        print(json.dumps({each.name: each.value for each in measures}, indent=1))
    elif options.write:
        write(table(measures))
    else:
        print(table(measures))


def measured(trace: Trace) -> Iterator[Measure]:
    """Yield all measures."""
    core = sources(CORE)
    trees = {path: ast.parse(path.read_text()) for path in core}
    whole = sum(map(lines, core))
    promised = sum(lines(path) for path in core if is_promised(path))
    tests = sources(ROOT / "tests")
    yield Measure("lines of the core", 43631, 27000, whole)
    yield Measure("files of the core", 385, 200, len(core))
    yield Measure("files of the core with less than 50 lines", 97, 25, sum(lines(path) < 50 for path in core))
    yield Measure("lines of the core that plugins may import, %", 76, 40, round(100 * promised / whole))
    yield Measure("imports of libraries and plugins in the core", 46, 0, sum(map(imports_of_others, trees.values())))
    loaded = sum(lines(ROOT / each) for each in trace.loaded)
    yield Measure("lines loaded by PPO on CartPole, core and libraries", 32109, 22000, loaded)
    yield Measure("files on the stack at a step and at a gradient", 12, 10, len(trace.stack))
    yield Measure("lines of these files", 2674, 2000, sum(lines(ROOT / each) for each in trace.stack))
    yield Measure("functions called in one update of PPO", 185, 150, len(trace.hot))
    yield Measure("files of these functions", 59, 45, len({path for path, _ in trace.hot}))
    yield Measure("functions that only pass `load` on", 37, 0, sum(map(passing_on, trees.values())))
    yield Measure("test files that use private names, %", 10, 10, round(100 * sum(map(private, tests)) / len(tests)))


def sources(folder: Path) -> list[Path]:
    """Return the Python files of a folder that belong to the project, without the templates of new projects."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", folder], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name.endswith(".py") and "/templates/" not in name]
    return [path for path in paths if path.is_file() and ("tests" in folder.parts or "/tests/" not in str(path))]


def lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text().splitlines())


def is_promised(path: Path) -> bool:
    """Return True for a file of the core that plugins may import."""
    from maze_devkit.promise import PROMISED

    parts = path.relative_to(ROOT).with_suffix("").parts
    return any(".".join(parts[:count]) in PROMISED for count in range(1, len(parts) + 1))


def imports_of_others(tree: ast.Module) -> int:
    """Return how many imports of a file lead to another distribution of Maze, late ones and those of types included."""
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    return sum(name.startswith("maze_") and name.partition(".")[0] != "maze_core" for name in names)


def passing_on(tree: ast.Module) -> int:
    """Return how many functions of a file have an argument `load`, and only pass it to others."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return sum(_passes_on(each) for each in functions)


def _passes_on(function: ast.FunctionDef) -> bool:
    arguments = function.args
    if all(each.arg != "load" for each in (*arguments.args, *arguments.kwonlyargs)):
        return False
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == "load"]
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    passed = {id(each) for call in calls for each in (*call.args, *(word.value for word in call.keywords))}
    return bool(uses) and all(id(each) in passed for each in uses)


def private(path: Path) -> bool:
    """Return True if a test file uses a private name of anything but its own classes."""
    return any(_PRIVATE.search(_OWN.sub("", line)) for line in path.read_text().splitlines())


def traced() -> Trace:
    """Return the trace of a short run of PPO, made in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--trace", folder]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return Trace(set(found["stack"]), {(path, name) for path, name in found["hot"]}, set(found["loaded"]))


def _print_trace(folder: Path) -> None:
    """Train with a profiler and print what it saw."""
    from maze_core.cli.main import main as maze
    from maze_core.run.saved import checkpoint

    checkpoint._SLOW = math.inf  # a traced update is slow, and a copy of the state would be taken after it
    trace, updates = Trace(), 0

    def ours(code: CodeType) -> str | None:
        path = Path(code.co_filename)
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) and ".venv" not in path.parts else None

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal updates
        if event != "call":
            return
        code = frame.f_code
        if code.co_qualname in ("CartPoleEnv.step", "Tensor.backward", "set_written_out"):
            stack = list(_on_stack(frame, ours))
            trace.stack.update(() if any("evaluation" in each for each in stack) else stack)
        path = ours(code)
        if path is None:
            return
        updates += code.co_name == "count_update"
        if updates == 2 and not code.co_name.startswith("<"):
            trace.hot.add((path, code.co_qualname))

    sys.argv = ["maze", "train", "ppo", "--env", "CartPole-v1", "--preset", "none", "--seed", "1", "--steps", "8192"]
    sys.argv += ["--run-dir", str(folder / "run"), "--quiet"]
    sys.setprofile(profile)
    try:
        maze()
    except SystemExit as ending:
        if ending.code:
            raise
    finally:
        sys.setprofile(None)
    print()
    files = [Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))]
    tops = (CORE, ROOT / "libraries")
    trace.loaded = {str(file.relative_to(ROOT)) for file in files if any(file.is_relative_to(top) for top in tops)}
    print(json.dumps({"stack": sorted(trace.stack), "hot": sorted(trace.hot), "loaded": sorted(trace.loaded)}))


def _on_stack(frame: FrameType | None, ours: Callable[[CodeType], str | None]) -> Iterator[str]:
    while frame is not None:
        path = ours(frame.f_code)
        if path is not None and not path.startswith("benchmarks/"):
            yield path
        frame = frame.f_back


def table(measures: Sequence[Measure]) -> str:
    """Return the table as Markdown."""
    rows = [f"| {each.name} | {each.before:,} | {each.value:,} | {each.aim:,} |" for each in measures]
    return "\n".join(["| measure | before | now | aim |", "|---|---|---|---|", *rows])


def write(text: str) -> None:
    """Put the table between the marks of the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    if not rest:
        raise SystemExit(f"{PAGE} has no mark {BEGIN}")
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
