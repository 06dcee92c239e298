"""What stands where a file or folder of a run belongs: links, pipes, devices, folders in place of files."""

from __future__ import annotations

import os
import random
import shutil
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.attack.children import in_child, maze
from tests.attack.oracle import problems_of
from tests.attack.runs import DEMOS, RUN, plan_of
from tests.attack.verdict import Verdict
from tests.attack.worlds import COMMANDS, World, begins_afresh

SUBJECTS = ("ppo", "sac")
_COMMANDS = ("eval", "rollout", "resume", "list", "compare", "info")
_STARTED = (0, 1, 2)


def file_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "file")


def folder_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "folder")


def link_to_nothing(path: Path, outside: Path) -> None:
    """What writes through it makes a new file there."""
    path.symlink_to(outside / "fresh")


def link_to_itself(path: Path, outside: Path) -> None:
    path.symlink_to(path.name)


def link_to_zeros(path: Path, outside: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path, outside: Path) -> None:
    """Who opens it waits for ever."""
    os.mkfifo(path)


def bound_socket(path: Path, outside: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # addresses are short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def device(path: Path, outside: Path) -> None:
    """Zeros without end; a link to them where only the superuser may make one."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        link_to_zeros(path, outside)


def folder(path: Path, outside: Path) -> None:
    path.mkdir()
    (path / "within").write_text("in the way\n")


def file(path: Path, outside: Path) -> None:
    path.write_text("in the way\n")


def moved_out(path: Path, outside: Path) -> None:
    """The thing itself, as another run's, behind a link. It was kept beside its place."""
    kept = path.with_name(f"kept of {path.name}")
    if not kept.exists():
        return file_link(path, outside)
    target = outside / "theirs"
    shutil.move(kept, target)
    return path.symlink_to(target)


PLANTS: tuple[Callable[[Path, Path], None], ...] = (
    file_link, folder_link, link_to_nothing, link_to_itself, link_to_zeros, pipe, bound_socket, device, folder, file,
    moved_out,
)  # fmt: skip


class Planted:
    """Cases of one subject: a plant at a name that a command reads or writes, or might write for a moment."""

    def __init__(self, subject: str, scratch: Path, seed: int = 1) -> None:
        self._subject, self._seed = subject, seed
        self._world = World(plan_of(subject), scratch)
        self._combinations = [
            (place, plant, command) for command in _COMMANDS for place in self._places(command) for plant in PLANTS
        ]
        random.Random(f"{seed} {subject}").shuffle(self._combinations)

    def names(self, count: int) -> list[str]:
        """So many cases."""
        return [str(number) for number in range(count)]

    def parts(self) -> dict[str, tuple[str, ...]]:
        """What each case is made of: a plant and a command; without those in a process of their own."""
        return {
            str(number): (plant.__name__, command)
            for number, (_, plant, command) in enumerate(self._combinations)
            if not begins_afresh(number)
        }

    def try_(self, name: str) -> Verdict:
        """Plant, run, judge."""
        place, plant, command = self._combinations[int(name) % len(self._combinations)]
        verdict = Verdict(f"planted/{self._subject}/{name}", f"links, pipes, devices: {self._subject}")
        verdict.what = f"{plant.__name__} at {place}, then {command}"
        self._world.begin()
        path = self._world.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() or path.is_symlink():
            path.rename(path.with_name(f"kept of {path.name}"))
        plant(path, self._world.outside)
        kept = path.with_name(f"kept of {path.name}")
        if kept.is_dir():
            shutil.rmtree(kept)
        kept.unlink(missing_ok=True)
        self._world.seal()
        ending = self._world.run_case(name, COMMANDS[command])
        codes = _STARTED if command == "resume" else (0,) if command in ("list", "compare") else (0, 2)
        verdict.problems = problems_of(ending, codes) + self._world.changes_outside()
        named = any(part in ending.err for part in Path(place).parts[1:]) or place in ending.err
        no_run = place == f"{RUN}/config.yaml" and not path.is_file() and command in ("list", "compare")
        if verdict.problems or ending.code or named or no_run:
            return verdict
        if path.is_fifo():  # what reads the results must not wait for it
            path.unlink()
        verdict.problems = self._world.different(command, ending, besides=_left_in_place(place))
        return verdict

    def _places(self, command: str) -> list[str]:
        """The names below the run, or the recording, that a command touches, and those that it may use for a while."""
        self._world.begin()
        parts = [DEMOS] if command == "info" else [RUN]
        there = {path for part in parts for path in (self._world.folder / part).rglob("*")}
        found = {str(path.relative_to(self._world.folder)) for path in there} | self._touched(COMMANDS[command])
        for place in [place for place in found if Path(place).parts[1:]]:
            path = Path(place)
            found |= {
                str(path.with_name(name.format(path.name)))
                for name in (".{}.0123abcd.new", "{}.tmp", ".{}.0123abcd.old")
            }
            found.add(str(path.with_suffix(".tmp")))
        return sorted(found - {RUN, DEMOS})

    def _touched(self, command: list[object]) -> set[str]:
        root = str(self._world.folder.resolve()) + os.sep
        listed = self._world.scratch / "touched"

        def action() -> int:
            names: set[str] = set()

            def heard(event: str, arguments: tuple[Any, ...]) -> None:
                if event in ("open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename"):
                    for each in arguments[:2]:
                        if isinstance(each, str | bytes | os.PathLike):
                            names.add(str(Path.cwd() / os.fsdecode(each)))

            sys.addaudithook(heard)
            code = maze(command)()
            listed.write_text("\n".join(sorted(names)))
            return code

        ending = in_child(action, self._world.folder, self._world.scratch)
        if ending.code:
            raise RuntimeError(f"{command} of a healthy run ended with {ending.code}: {ending.err}")
        paths = [line.removeprefix(root) for line in listed.read_text().splitlines() if line.startswith(root)]
        return {path for path in paths if Path(path).parts[0] in (RUN, DEMOS)}


def _left_in_place(place: str) -> tuple[str, ...]:
    """What of a resumed run cannot be compared, because what was planted there is still there."""
    if place.startswith(f"{RUN}/tensorboard"):
        return ("tensorboard",)
    for name in ("best", "previous"):
        if place.startswith(f"{RUN}/checkpoints/{name}"):
            return (name, f"replay of {name}")
    return ()
