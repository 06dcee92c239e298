"""Modules in the current folder with the names of those that Python and the libraries do import, for every process."""

from __future__ import annotations

import resource
from pathlib import Path

from tests.attack.children import fresh, in_child
from tests.attack.doors import EVIL
from tests.attack.oracle import problems_of
from tests.attack.runs import plan_of
from tests.attack.verdict import Verdict
from tests.attack.worlds import ROOT, World

MODULES = (
    "ctypes", "_ctypes", "torch", "numpy", "sysconfig", "setuptools", "distutils/__init__", "json", "signal", "socket",
    "threading", "platform", "packaging", "sympy", "filelock", "random", "subprocess", "multiprocessing", "logging",
    "tempfile", "typing_extensions", "gymnasium", "maze_core", "sitecustomize", "usercustomize", "pickle", "fcntl",
)  # fmt: skip
COMMANDS: dict[str, list[object]] = {
    "a step is compiled": ["--set", "compile=on"],
    "workers": ["--runner", "local", "--set", "evaluation.num_envs=2"],
}

PATIENCE = 600.0
"""Seconds for a case: a compiler takes its time on a busy machine."""


class Traps:
    """Cases: what starts processes."""

    def __init__(self, subject: str, scratch: Path, seed: int = 1) -> None:
        self._world, self._subject = World(plan_of(subject), scratch), subject

    def names(self, count: int) -> list[str]:
        """All, or the first so many."""
        return list(COMMANDS)[:count]

    def try_(self, name: str) -> Verdict:
        """Train in a folder full of them, in a process that has imported nothing."""
        verdict = Verdict(f"traps/{self._subject}/{name}", "modules of the current folder", name)
        world = self._world
        world.begin()
        for module in MODULES:
            file = world.folder / f"{module}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(EVIL.format(path=str(world.outside / module.replace("/", "."))))
        world.seal()
        command = [*world.plan.train(), "--run-dir", "another", *COMMANDS[name]]
        action = fresh(command, ROOT, resource.RLIM_INFINITY)
        ending = in_child(action, world.folder, world.scratch, PATIENCE)
        verdict.problems = problems_of(ending, (0,)) + world.changes_outside()
        if "compiled" in name and "are compiled from step 1 on" not in ending.err:
            verdict.problems.append(f"nothing was compiled: {ending.err[:300]}")
        return verdict
