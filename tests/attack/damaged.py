"""Damaged files: a healthy run or recording of which one file is not what it was, and a command that reads it."""

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.attack import damage
from tests.attack.oracle import problems_of
from tests.attack.runs import DEMOS, RUN, files_of, plan_of
from tests.attack.verdict import Verdict
from tests.attack.worlds import COMMANDS, World, begins_afresh

RUNS = ("ppo+record", "sac", "es")
SUBJECTS = (*RUNS, "recording")
_DELETED, _SWAPPED = "deleted", "swapped"
_STARTED = (0, 1, 2)
"""Exit codes of `resume`: a run that had started may fail, with one plain error."""


class Damaged:
    """Cases of one subject."""

    def __init__(self, subject: str, scratch: Path, seed: int = 1) -> None:
        self._subject, self._seed = subject, seed
        self._world = World(plan_of("ppo" if subject == "recording" else subject), scratch)
        self._world.begin()
        part = DEMOS if subject == "recording" else RUN
        self._files = [f"{part}/{name}" for name in files_of(self._world.folder / part) if name != ".lock"]
        combinations = [
            (name, mutation, command)
            for name in self._files
            for mutation in (*(each.__name__ for each in damage.mutations(name)), _DELETED, _SWAPPED)
            for command in _readers(name)
        ]
        random.Random(f"{seed} {subject}").shuffle(combinations)
        self._combinations = combinations

    def names(self, count: int) -> list[str]:
        """So many cases."""
        return [str(number) for number in range(count)]

    def parts(self) -> dict[str, tuple[str, ...]]:
        """What each case is made of: a kind of file, a damage, a command; without those in a process of their own."""
        return {
            str(number): (re.sub(r"\d+", "", Path(file).name), mutation, command)
            for number, (file, mutation, command) in enumerate(self._combinations)
            if not begins_afresh(number)
        }

    def try_(self, name: str) -> Verdict:
        """Damage one file, run one command, judge."""
        chance = random.Random(f"{self._seed} {self._subject} {name}")
        file, mutation, command = self._combinations[int(name) % len(self._combinations)]
        verdict = Verdict(f"damaged/{self._subject}/{name}", f"damaged files: {self._subject}")
        self._world.begin()
        path = self._world.folder / file
        before = path.read_bytes()
        other = chance.choice(self._files) if mutation == _SWAPPED else file
        forged = self._damage(chance, path, mutation, self._world.folder / other)
        verdict.what = f"{file} {mutation}{f' with {other}' if other != file else ''}"
        verdict.what += f"{', with its checksum' if forged else ''}, then {command}"
        healthy = not forged and path.exists() and path.read_bytes() == before
        ending = self._world.run_case(name, COMMANDS[command])
        codes = _STARTED if command == "resume" else (0,) if command in ("list", "compare") else (0, 2)
        verdict.problems = problems_of(ending, (0,) if healthy else codes) + self._world.changes_outside()
        warned = path.name in ending.err or (command in ("list", "compare") and RUN in ending.err)
        if ending.code or verdict.problems or forged or warned or _is_no_damage(path, command):
            return verdict
        verdict.problems = self._world.different(command, ending, besides=_unread(file) + _unread(other))
        return verdict

    def _damage(self, chance: random.Random, path: Path, mutation: str, other: Path) -> bool:
        """Change the file; whether the manifest beside it was made to agree."""
        if mutation == _DELETED:
            path.unlink()
        elif mutation == _SWAPPED:
            mine, theirs = path.read_bytes(), other.read_bytes()
            path.write_bytes(theirs)
            other.write_bytes(mine)
        else:
            path.write_bytes(getattr(damage, mutation)(chance, path.read_bytes()))
            if (path.parent / "manifest.json").exists() and path.name != "manifest.json" and chance.random() < 0.6:
                damage.forge(path.parent)
                return True
        return False


def _readers(file: str) -> tuple[str, ...]:
    """The commands that read a file, or might."""
    if file.startswith(DEMOS):
        return ("info",)
    part = file.split("/")[1]
    if part == "checkpoints":
        return {"best": ("eval", "rollout"), "last": ("eval last", "resume")}.get(file.split("/")[2], ("resume",))
    return ("resume",) if part in ("tensorboard", "replay", "network.svg") else ("eval", "resume", "list", "compare")


def _unread(file: str) -> tuple[str, ...]:
    """What of a resumed run differs because the damage is still there, where nothing had to read it."""
    if file.startswith(f"{RUN}/tensorboard"):
        return ("tensorboard",)
    return ("best", "replay of best") if "/best/" in file else ("previous",) if "/previous/" in file else ()


def _is_no_damage(path: Path, command: str) -> bool:
    """Whether what is left says plainly that there is less: a folder without a configuration is no run."""
    return path.name == "config.yaml" and command in ("list", "compare") and not path.exists()
