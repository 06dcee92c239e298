"""Families of runs: forks below the runs whose state they began with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from maze_compare.groups import text
from maze_compare.records import RunRecord
from maze_core.base.terminal_text import printable
from maze_core.plugins.config.record import FORKED_FROM, ID
from maze_core.run.saved.changed_env import differing

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Member:
    """A run in its family."""

    run: RunRecord
    branches: tuple[bool, ...]
    """For each generation from the first forks on: whether there are further ones of it below."""
    changed: str = ""
    """Where it began, and which settings it changed."""

    @property
    def path(self) -> str:
        """The run's path, behind the lines of a tree."""
        if not self.branches:
            return str(self.run.path)
        lines = "".join("│  " if more else "   " for more in self.branches[:-1])
        return f"{lines}{'├─ ' if self.branches[-1] else '└─ '}{self.run.path}"


def origin_of(run: RunRecord) -> dict[str, Any]:
    """Return what `run.json` says about the run that this one was forked from; empty where it was not."""
    return run.facts.get(FORKED_FROM) or {}


def families(runs: Sequence[RunRecord]) -> list[Member]:
    """Return runs in their order, each followed by its forks.

    Forks whose parent is not among the runs come as others do, and so do those whose records name each other.
    """
    ids = {run.facts[ID] for run in runs}
    forks: dict[str, list[RunRecord]] = {}
    for run in runs:
        forks.setdefault(str(origin_of(run).get("id")), []).append(run)
    roots = [run for run in runs if origin_of(run).get("id") not in ids]
    members: dict[str, Member] = {}
    left = [Member(run, ()) for run in reversed([*roots, *runs])]
    while left:
        member = left.pop()
        if str(member.run.path) in members:
            continue
        members[str(member.run.path)] = member
        below = [each for each in forks.get(member.run.facts[ID], []) if str(each.path) not in members]
        left += [
            Member(each, (*member.branches, number > 0), _difference(each, member.run))
            for number, each in enumerate(reversed(below))
        ]
    return list(members.values())


def _difference(run: RunRecord, parent: RunRecord) -> str:
    """Return where a fork began and what it changed, such as `epoch 3: algorithm.lr 0.0003 → 0.0001`."""
    began = f"epoch {printable(origin_of(run).get('epoch'), 20)}"
    changes = [f"{path} {text(old)} → {text(new)}" for path, old, new in differing(parent.config, run.config)]
    more = [f"{len(changes) - _SHOWN} more"] if len(changes) > _SHOWN else []
    return f"{began}: {', '.join([*changes[:_SHOWN], *more])}" if changes else began
