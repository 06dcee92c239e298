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

_CARRIER = re.compile(
    r"(Rollout|Record|Segments?|Sequences|Replay|ReplayBuffer|Sink|Transitions?|Delivery|Batch|Trajectory"
    r"|StepResult|Rows|Recording)$"
)
"""Names of classes that carry rows from the environment to the loss."""
_CARRIED = ("collect", "data", "envs", "learn", "models", "run", "maze_impala", "maze_recordings")
"""Folders in which such a class is one of them."""
_PRIVATE = re.compile(r"[\]A-Za-z0-9_)]\._[a-z]")
_OWN = re.compile(r"\b(self|cls)\._")


@dataclass(frozen=True)
class Measure:
    """One row of the table; `before` is the figure of this script before the redesign, in commit 3e8e549."""

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

    path: set[str] = field(default_factory=set)
    """Files of the project on the stack when the environment was stepped or a gradient was taken."""
    hot: set[tuple[str, str]] = field(default_factory=set)
    """Files and qualified names of the functions of the project that were called in one update."""


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
    plugins = {path: ast.parse(path.read_text()) for path in sources(ROOT / "libraries") + sources(ROOT / "plugins")}
    classes = {name for _, name in trace.hot if name.count(".") and "<locals>" not in name}
    tests = sources(ROOT / "tests")
    yield Measure("lines of the core", 32579, 25000, sum(map(lines, core)))
    yield Measure("files of the core", 284, 200, len(core))
    yield Measure("rooms of the core", 16, 9, len(rooms()))
    yield Measure("files from the command to the step and the gradient", 19, 12, len(trace.path))
    yield Measure("lines of these files", 3945, 1900, sum(lines(ROOT / each) for each in trace.path))
    yield Measure("functions called in one update of PPO", 135, 110, len(trace.hot))
    yield Measure("files called in one update of PPO", 42, 30, len({path for path, _ in trace.hot}))
    yield Measure("classes called in one update of PPO", 36, 25, len({name.rpartition(".")[0] for name in classes}))
    yield Measure("classes that carry rows", 28, 8, len(list(row_classes({**trees, **plugins}))))
    yield Measure("tasks of workers that collect", 4, 1, len(list(tasks(trees))))
    yield Measure("maps of trees written by hand, core", 229, 20, sum(map(tree_maps, trees.values())))
    yield Measure("maps of trees written by hand, plugins", 116, 20, sum(map(tree_maps, plugins.values())))
    yield Measure("test files that use private names, %", 28, 10, round(100 * sum(map(private, tests)) / len(tests)))


def sources(folder: Path) -> list[Path]:
    """Return the Python files of a folder that belong to the project, without the templates of new projects."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", folder], cwd=ROOT, capture_output=True, check=True).stdout
    paths = [ROOT / name for name in listed.decode().split("\0") if name.endswith(".py") and "/templates/" not in name]
    return [path for path in paths if path.is_file() and ("tests" in folder.parts or "/tests/" not in str(path))]


def lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text().splitlines())


def rooms() -> set[str]:
    """Return the folders of the core that contain files of the project."""
    return {path.relative_to(CORE).parts[0] for path in sources(CORE) if len(path.relative_to(CORE).parts) > 1}


def row_classes(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yield the classes that carry rows from the environment to the loss."""
    for path, tree in trees.items():
        if not set(_CARRIED) & set(path.relative_to(ROOT).parts):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and _CARRIER.search(node.name):
                yield f"{path.relative_to(ROOT)}:{node.name}"


def tasks(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yield the tasks of workers that step environments or collect."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "Task" for b in node.bases):
                yield f"{path.relative_to(ROOT)}:{node.name}"


def tree_maps(tree: ast.Module) -> int:
    """Return the number of comprehensions `{key: f(value) for key, value in x.items()}` of a file."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.DictComp) and len(node.generators) == 1]
    return sum(_keeps_keys(each) for each in found)


def _keeps_keys(node: ast.DictComp) -> bool:
    source = node.generators[0]
    items = isinstance(source.iter, ast.Call) and getattr(source.iter.func, "attr", None) == "items"
    if source.ifs or not items or not isinstance(source.target, ast.Tuple):
        return False
    key = source.target.elts[0]
    return isinstance(node.key, ast.Name) and isinstance(key, ast.Name) and node.key.id == key.id


def private(path: Path) -> bool:
    """Return True if a test file uses a private name of anything but its own classes."""
    return any(_PRIVATE.search(_OWN.sub("", line)) for line in path.read_text().splitlines())


def traced() -> Trace:
    """Return the trace of a short run of PPO, made in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--trace", folder]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return Trace(set(found["path"]), {(path, name) for path, name in found["hot"]})


def _print_trace(folder: Path) -> None:
    """Train with a profiler and print what it saw."""
    from maze_core.cli.main import main as maze
    from maze_core.run.saved import kept_state

    kept_state._SLOW = math.inf  # a traced update is slow, and a copy of the state would be taken after it
    trace, updates = Trace(), 0

    def ours(code: CodeType) -> str | None:
        path = Path(code.co_filename)
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) and ".venv" not in path.parts else None

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal updates
        if event != "call":
            return
        code = frame.f_code
        if code.co_qualname in ("CartPoleEnv.step", "Module._call_impl", "Tensor.backward", "backward"):
            stack = list(_on_stack(frame, ours))
            trace.path.update(() if any("evaluation" in each for each in stack) else stack)
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
    print(json.dumps({"path": sorted(trace.path), "hot": sorted(trace.hot)}))


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
