"""The folder in which a case takes place, and the one beside it in which nothing may change."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.attack.children import FRESH_MEMORY, HANGS, Ending, fresh, in_child, maze
from tests.attack.runs import DEMOS, RECORDED, RUN, Plan
from tests.attack.whole import differences, whole

AFRESH_EVERY = 40
"""One in so many cases takes place in a process that has imported nothing."""
NEIGHBOUR = "neighbour"
"""A copy of the run that nothing happens to."""
PLAYED: list[object] = ["-n", 2, "--seed", 7, "--json"]
COMMANDS: dict[str, list[object]] = {
    "eval": ["eval", RUN, *PLAYED],
    "eval last": ["eval", RUN, "--checkpoint", "last", *PLAYED],
    "rollout": ["rollout", RUN, *PLAYED, "--workers", 1, "--runner", "dev"],
    "resume": ["resume", RUN, "--set", "algorithm.n_epochs=3"],
    "list": ["runs", "list", ".", "--json"],
    "list as a table": ["runs", "list", "."],
    "compare": ["runs", "compare", ".", "--json"],
    "compare as a table": ["runs", "compare", "."],
    "info": ["trajectories", "info", DEMOS, "--json"],
    "info as a table": ["trajectories", "info", DEMOS],
}
ROOT = Path(__file__).resolve().parents[2]


class World:
    """A run of one plan, its neighbour and a recording, made once and copied for each case."""

    def __init__(self, plan: Plan, scratch: Path) -> None:
        self.plan, self.scratch = plan, scratch
        self.folder, self.outside = scratch / "world", scratch / "outside"
        self._base = scratch / "base"
        self._results: dict[str, Any] = {}
        self._base.mkdir(parents=True)
        for command in (RECORDED, plan.train()):
            ending = in_child(maze(command), self._base, scratch)
            if ending.code:
                raise RuntimeError(f"a healthy run ended with {ending.code}: {ending.err}")
        shutil.copytree(self._base / RUN, self._base / NEIGHBOUR)

    def begin(self) -> None:
        """Everything as it was before any case."""
        _remove(self.folder)
        shutil.copytree(self._base, self.folder)
        _remove(self.outside)
        (self.outside / "folder").mkdir(parents=True)
        (self.outside / "file").write_text("precious\n")
        (self.outside / "folder" / "within").write_text("precious\n")
        for path in (self.outside / "file", self.outside / "folder" / "within"):
            os.utime(path, (1e9, 1e9))
        self.seal()

    def seal(self) -> None:
        """What is outside now must stay as it is."""
        self._before = snapshot(self.outside)

    def run_case(self, name: str, command: list[object]) -> Ending:
        """The command line in this world, for case number `name`."""
        return self.run(command, afresh=begins_afresh(int(name)))

    def run(self, command: list[object], *, afresh: bool = False, memory: int = FRESH_MEMORY) -> Ending:
        """The command line in this world; `afresh` in a process of its own, which may take so much memory."""
        action = fresh(command, ROOT, memory) if afresh else maze(command)
        return in_child(action, self.folder, self.scratch, (2 if afresh else 1) * HANGS)

    def changes_outside(self) -> list[str]:
        """What happened where nothing may happen."""
        after = snapshot(self.outside)
        changed = sorted(p for p in self._before.keys() | after.keys() if self._before.get(p) != after.get(p))
        return [f"changed outside the run: {', '.join(changed)}"] if changed else []

    def result(self, name: str, ending: Ending) -> Any:
        """What a command of that name found out or left, without what time decides."""
        if name == "resume":
            return _read(lambda: whole(self.folder), self)
        if "table" in name:
            return ending.out
        found = timeless(json.loads(ending.out))
        if name == "info":
            del found["source"]  # what somebody says of a recording; nothing follows from it
        return found

    def healthy(self, name: str) -> Any:
        """The result of the command where nothing is wrong."""
        if name not in self._results:
            kept = self.scratch / "kept"
            had = self.folder.exists()
            if had:
                self.folder.rename(kept)
            shutil.copytree(self._base, self.folder)
            ending = self.run(COMMANDS[name])
            if ending.code:
                raise RuntimeError(f"{name} of a healthy run ended with {ending.code}: {ending.err}")
            self._results[name] = self.result(name, ending)
            _remove(self.folder)
            if had:
                kept.rename(self.folder)
        return self._results[name]

    def different(self, name: str, ending: Ending, besides: tuple[str, ...] = ()) -> list[str]:
        """How the result of a command that said nothing differs from that of a healthy run; `besides` may differ."""
        expected = self.healthy(name)
        try:
            found = self.result(name, ending)
        except (ValueError, RuntimeError) as error:
            return [f"no result: {error}"]
        if name != "resume":
            return [] if found == expected else [f"other results, silently: {_first_difference(expected, found)}"]
        kept = [{part: values for part, values in each.items() if part not in besides} for each in (expected, found)]
        return [f"another run, silently: {line}" for line in differences(kept[0], kept[1])]


def begins_afresh(number: int) -> bool:
    """Whether the case of that number takes place in a process of its own."""
    return number % AFRESH_EVERY == AFRESH_EVERY - 1


def snapshot(folder: Path) -> dict[str, str]:
    """Kind, size, time of change and content of everything below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(facts.st_mode) else ""
        found[str(path.relative_to(folder))] = f"{facts.st_mode} {facts.st_mtime_ns} {facts.st_nlink} {content}"
    return found


def timeless(value: Any) -> Any:
    """Plain data without what takes time, and without the room that files take."""
    if isinstance(value, dict):
        dropped = ("seconds", "bytes")
        return {k: timeless(v) for k, v in value.items() if k not in dropped and not k.startswith("time/")}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def _first_difference(expected: Any, found: Any, path: str = "") -> str:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(expected.keys() | found.keys()):
            if expected.get(key) != found.get(key):
                return _first_difference(expected.get(key), found.get(key), f"{path}/{key}")
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
            if ours != theirs:
                return _first_difference(ours, theirs, f"{path}/{number}")
    return f"{path} is {str(found)[:80]!r} instead of {str(expected)[:80]!r}"


def _read(read: Callable[[], Any], world: World) -> Any:
    """What `read` finds, in a child: files that somebody damaged are read there."""

    def action() -> int:
        print(json.dumps(read()))
        return 0

    ending = in_child(action, world.scratch, world.scratch)
    if ending.code:
        raise RuntimeError(f"what it left cannot be read: {ending.err.splitlines()[-1][:200]}")
    return json.loads(ending.out.splitlines()[-1])


def _remove(path: Path) -> None:
    """Remove whatever there is."""
    deadline = time.monotonic() + 5
    while path.exists() or path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        if time.monotonic() > deadline:
            raise RuntimeError(f"{path} cannot be removed")
